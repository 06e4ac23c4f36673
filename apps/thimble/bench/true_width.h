// Layers at the released model's widths without its weights: a checkpoint of random ones, one layer
// of each role, and a clock for the layers of a pass. Not thread-safe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "arch/checkpoint.h"
#include "arch/config.h"
#include "arch/layer_plan.h"
#include "base/file.h"
#include "engine/forced_run.h"
#include "model/forward.h"

namespace thimble::app {

// A model over a checkpoint that is made in a folder of its own, with `experts` routed experts a
// layer and a small vocabulary, or that lies in `path`. The folder goes with the object.
class BenchModel {
 public:
  static Result<std::unique_ptr<BenchModel>> make(const Path& path, uint32_t experts,
                                                  model::Mode mode);

  const model::Model& model() const { return *model_; }

 private:
  base::TempDir folder_;
  std::optional<arch::Checkpoint> checkpoint_;
  std::unique_ptr<model::Model> model_;
};

// When each layer of the last pass was done. Give it to the pass as its trace.
class LayerClock : public model::Trace {
 public:
  explicit LayerClock(size_t layers) : done_us_(layers + 1) {}

  bool wants(std::string_view quantity) const override;
  void floats(std::string_view quantity, uint32_t layer, uint64_t row,
              std::span<const float> values) override;
  void ints(std::string_view, uint32_t, uint64_t, std::span<const int32_t>) override {}

  double layer_us(size_t layer) const {
    return static_cast<double>(done_us_[layer + 1] - done_us_[layer]);
  }

 private:
  std::vector<int64_t> done_us_;  // [0]: the embedding
};

std::vector<int32_t> random_ids(const model::Model& model, uint64_t count);

// Appends `ids` one by one: the best time of each layer, [layers] microseconds.
Result<std::vector<double>> decode_us(engine::ForcedSequence& sequence, const model::Model& model,
                                      std::span<const int32_t> ids);

// The time of all layers of `whole`, when a layer of `part` that does the same takes `part_us`,
// [layers]; Engram look-ups are left out.
double whole_us(const arch::LayerPlan& whole, const arch::LayerPlan& part,
                std::span<const double> part_us);

}  // namespace thimble::app
