#include <algorithm>

#include "arch/cache_layout.h"
#include "arch/layer_plan.h"
#include "planner/placement.h"

namespace thimble::planner {

uint64_t step_bytes(const arch::Config& config, uint64_t rows, uint64_t context,
                    uint64_t sequences) {
  const arch::Config& c = config;
  const auto layout = arch::make_cache_layout(c, arch::CacheFormat::kPacked);
  const uint64_t hidden = c.hidden_size;
  const uint64_t heads_width = uint64_t{c.num_attention_heads} * c.head_dim;
  const uint64_t mixes = (2 + uint64_t{c.hc_mult}) * c.hc_mult;
  // A row's streams, embedding, sublayer's input, rotations of both bases, selection and mixing
  // coefficients.
  const uint64_t held =
      (c.hc_mult + uint64_t{2}) * hidden + 2 * c.qk_rope_head_dim + c.index_topk + 2 * mixes;
  uint64_t visible = 0;  // index scores of a row, one a visible entry; rows are scored in batches
  for (const arch::Owner& owner : arch::make_layer_plan(c).owners) {
    visible = std::max(visible, arch::entries_after(context, owner.ratio));
  }
  if (visible <= c.index_topk) visible = 0;
  const uint64_t projections = hidden + c.q_lora_rank + 2 * heads_width +
                               uint64_t{c.o_groups} * c.o_lora_rank + 3 * c.head_dim;
  const uint64_t selecting = uint64_t{c.index_n_heads} * (c.index_head_dim + 1);
  const uint64_t scores = std::min(rows * visible, std::max(kScoreFloats, visible));
  // Rows are gathered for their experts, run and kept; gate and up of all of them, the shared one's
  // too.
  const uint64_t experts = (2 + 2 * uint64_t{c.num_experts_per_tok}) * hidden +
                           2 * (uint64_t{c.num_experts_per_tok} + 1) * c.moe_intermediate_size +
                           3 * c.n_routed_experts;
  const uint64_t engram = c.engram.layer_ids.empty()
                              ? 0
                              : uint64_t{c.engram.width()} + (c.hc_mult + uint64_t{1}) * hidden +
                                    2 * c.engram.lookups();
  const uint64_t attention = projections + selecting;
  const uint64_t floats = held + std::max({attention, experts, engram});
  const uint64_t ring = (sequences * c.sliding_window + rows) * layout.window_row_bytes;
  constexpr uint64_t kSamplingBytes = 16;  // an id and its probability
  const uint64_t logits = sequences * c.vocab_size * (sizeof(float) + kSamplingBytes);
  return (rows * floats + scores) * sizeof(float) + ring + logits;
}

}  // namespace thimble::planner
