#include "apps/thimble/decision_recorder.h"

#include <algorithm>

#include "arch/layer_plan.h"
#include "base/check.h"

namespace thimble::app {
namespace {

std::string tensor_name(std::string_view quantity, uint32_t layer) {
  return fmt::format("{}.{}", quantity, layer);
}

}  // namespace

DecisionRecorder::DecisionRecorder(const arch::Config& config, uint64_t tokens) : tokens_(tokens) {
  for (const arch::LayerRole& role : arch::make_layer_plan(config).layers) {
    table(tensor_name("expert_ids.layers", role.layer), arch::DType::kI32,
          config.num_experts_per_tok, -1);
    if (!role.selects()) continue;
    const uint64_t entries = arch::entries_after(tokens, role.ratio);
    table(tensor_name("topk", role.layer), arch::DType::kI32,
          std::min<uint64_t>(config.index_topk, entries), -1);
    if (role.makes_candidates) {
      table(tensor_name("candidates", role.layer), arch::DType::kU8, entries, 0);
    }
  }
}

DecisionRecorder::Table& DecisionRecorder::table(const std::string& name, arch::DType dtype,
                                                 uint64_t cols, int32_t fill) {
  Table& made = tables_[name];
  made.dtype = dtype;
  made.cols = cols;
  if (dtype == arch::DType::kU8) made.bytes.assign(tokens_ * cols, static_cast<uint8_t>(fill));
  if (dtype == arch::DType::kI32) made.ints.assign(tokens_ * cols, fill);
  return made;
}

bool DecisionRecorder::wants(std::string_view quantity) const {
  return quantity == "topk" || quantity == "candidates" || quantity == "expert_ids.layers";
}

void DecisionRecorder::floats(std::string_view, uint32_t, uint64_t, std::span<const float>) {}

void DecisionRecorder::ints(std::string_view quantity, uint32_t layer, uint64_t row,
                            std::span<const int32_t> values) {
  const auto found = tables_.find(tensor_name(quantity, layer));
  CHECK(found != tables_.end() && row < tokens_);
  Table& table = found->second;
  const uint64_t count = std::min<uint64_t>(values.size(), table.cols);
  for (uint64_t c = 0; c < count; ++c) {
    if (table.dtype == arch::DType::kU8) {
      table.bytes[row * table.cols + c] = static_cast<uint8_t>(values[c]);
    } else {
      table.ints[row * table.cols + c] = values[c];
    }
  }
}

std::vector<arch::TensorToWrite> DecisionRecorder::tensors() const {
  std::vector<arch::TensorToWrite> out;
  for (const auto& [name, table] : tables_) {
    const Bytes data = table.dtype == arch::DType::kU8 ? std::as_bytes(std::span(table.bytes))
                                                       : std::as_bytes(std::span(table.ints));
    out.push_back({name, table.dtype, {tokens_, table.cols}, data});
  }
  return out;
}

}  // namespace thimble::app
