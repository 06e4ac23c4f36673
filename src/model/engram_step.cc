#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/internal/engram_step.h"

namespace thimble::model {
namespace {

// E4M3 codes 0x7F and 0xFF and the E8M0 scale 0xFF are NaN.
bool row_is_finite(const kernels::EngramTable& table, uint64_t row) {
  const std::byte* codes = table.codes + row * table.head_dim;
  for (uint32_t i = 0; i < table.head_dim; ++i) {
    if ((std::to_integer<unsigned>(codes[i]) & 0x7FU) == 0x7FU) return false;
  }
  const uint32_t groups = table.head_dim / 32;
  const std::byte* scales = table.scales + row * groups;
  for (uint32_t i = 0; i < groups; ++i) {
    if (std::to_integer<unsigned>(scales[i]) == 0xFFU) return false;
  }
  return true;
}

}  // namespace

EngramStep::EngramStep(const Step& step, const EngramHasher& hasher)
    : layer_ids_(step.config.engram.layer_ids), lookups_(step.config.engram.lookups()) {
  rows_.resize(layer_ids_.size());
  for (auto& rows : rows_) rows.resize(step.n() * lookups_);
  const size_t window = hasher.history_tokens() + 1;
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    std::vector<int32_t> ids = step.chunks[c].state->engram_history;
    CHECK_EQ(ids.size() + 1, window);
    for (const int32_t id : step.chunks[c].ids) {
      ids.push_back(static_cast<int32_t>(hasher.compressed(id)));
    }
    for (size_t i = 0; i < step.chunks[c].ids.size(); ++i) {
      const uint64_t row = step.progress[c].first_row + i;
      for (uint32_t e = 0; e < layer_ids_.size(); ++e) {
        hasher.row_ids(e, {ids.data() + i, window}, {rows_[e].data() + row * lookups_, lookups_});
      }
    }
    histories_.emplace_back(ids.end() - (static_cast<std::ptrdiff_t>(window) - 1), ids.end());
  }
}

void EngramStep::read_ahead(const Step& step, const ModelWeights& weights) const {
  if (step.read_ahead == nullptr) return;
  for (size_t e = 0; e < layer_ids_.size(); ++e) {
    const kernels::EngramTable& table = weights.layers[layer_ids_[e]].engram.table;
    for (const int64_t row : rows_[e]) step.read_ahead->ask(table, static_cast<uint64_t>(row));
  }
}

Result<void> EngramStep::check_rows(const ModelWeights& weights) const {
  for (size_t e = 0; e < layer_ids_.size(); ++e) {
    const kernels::EngramTable& table = weights.layers[layer_ids_[e]].engram.table;
    for (const int64_t row : rows_[e]) {
      CHECK_LT(static_cast<uint64_t>(row), table.rows);
      if (!row_is_finite(table, static_cast<uint64_t>(row))) {
        return base::fail(ErrorCode::kCorrupt,
                          "layers.{}.engram.embed: row {} holds a NaN code or scale", layer_ids_[e],
                          row);
      }
    }
  }
  return {};
}

void EngramStep::apply(Step& step, const LayerWeights& weights, const arch::LayerRole& role) const {
  const kernels::Workspace::Mark mark(step.context.workspace);
  const uint32_t copies = step.config.hc_mult;
  const Rows<int64_t> ids(step.context.workspace.take<int64_t>(step.n() * lookups_).data(),
                          step.n(), lookups_);
  for (uint64_t i = 0; i < step.n(); ++i) {
    std::copy_n(rows_[*role.engram].data() + step.rows[i].source * lookups_, lookups_, ids.row(i));
  }
  const Rows<float> x = step.take(step.n(), step.config.engram.width());
  const Rows<float> kv =
      step.take(step.n(), static_cast<uint64_t>(copies + 1) * step.config.hidden_size);
  const Rows<float> gates = step.take(step.n(), copies);
  const std::vector<int32_t> shown(ids.data, ids.data + step.n() * lookups_);
  step.tell("engram_ids", role.layer, Rows<const int32_t>(shown.data(), step.n(), lookups_));
  kernels::engram_gather(weights.engram.table, ids, x, step.context);
  kernels::linear(weights.engram.wkv, x, kv, step.context);
  const std::vector<uint8_t> alive(step.n(), 1);  // image positions come with vision
  kernels::engram_apply(step.stream, kv, weights.engram.q_weight, weights.engram.k_weight, copies,
                        static_cast<float>(step.config.rms_norm_eps), alive.data(), gates,
                        step.context);
  step.tell("engram_gate", role.layer, gates);
  step.tell("engram_out", role.layer, step.stream);
}

}  // namespace thimble::model
