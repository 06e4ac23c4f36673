// Configurations and batches that the tests of training share.
#pragma once

#include "train/internal/graph.h"

namespace thimble::train::internal {

// Training spec 17, XXS: window, Full at 2, Reuse, Full at 1, Reuse, Reindex, Reuse. Too narrow to
// be exported or to have its caches rounded.
arch::Config xxs_config();

// XS: the same roles at widths that every format divides.
arch::Config xs_config();

// Identity token map of a configuration.
std::vector<int32_t> identity_map(const arch::Config& config);

// Random documents of the given lengths, each token predicting the next.
Batch random_batch(const arch::Config& config, std::vector<int32_t> lengths, uint64_t seed);

// Everything that a pass over a configuration needs, put together.
struct TinyModel {
  arch::Config config;
  arch::LayerPlan plan;
  std::vector<int32_t> map;
  std::optional<model::EngramHasher> hasher;
  std::vector<Parameter> parameters;

  explicit TinyModel(arch::Config c);
  LayoutTables tables(at::ScalarType type) const {
    return {&config, &plan, hasher ? &*hasher : nullptr, type};
  }
};

// Values that leave no choice undecided and no gate shut: larger than those a training begins with.
std::vector<Tensor> lively_values(const std::vector<Parameter>& parameters, uint64_t seed);

}  // namespace thimble::train::internal
