// Records decisions of a forward pass as tensors with the golden vectors' names and shapes.
//
// Not thread-safe; one recorder per run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/config.h"
#include "arch/safetensors.h"
#include "model/trace.h"

namespace thimble::app {

class DecisionRecorder : public model::Trace {
 public:
  // `tokens` rows in all. The recorder keeps expert ids, selections and candidate masks.
  DecisionRecorder(const arch::Config& config, uint64_t tokens);

  bool wants(std::string_view quantity) const override;
  void floats(std::string_view quantity, uint32_t layer, uint64_t row,
              std::span<const float> values) override;
  void ints(std::string_view quantity, uint32_t layer, uint64_t row,
            std::span<const int32_t> values) override;

  // "topk.L" I32 [tokens, min(index_topk, tokens / ratio)], "candidates.L" U8 [tokens,
  // tokens / ratio], "expert_ids.layers.L" I32 [tokens, active]. Views into the recorder.
  std::vector<arch::TensorToWrite> tensors() const;

 private:
  struct Table {
    arch::DType dtype = arch::DType::kI32;
    uint64_t cols = 0;
    std::vector<int32_t> ints;   // kI32
    std::vector<uint8_t> bytes;  // kU8
  };
  Table& table(const std::string& name, arch::DType dtype, uint64_t cols, int32_t fill);

  uint64_t tokens_;
  std::map<std::string, Table> tables_;
};

}  // namespace thimble::app
