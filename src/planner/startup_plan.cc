#include "planner/startup_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/weight_table.h"
#include "base/bytes.h"
#include "planner/ledger.h"
#include "planner/placement.h"

namespace thimble::planner {
namespace {

constexpr uint64_t kProgramBytes = 24ULL << 20;  // code, libraries, threads, tables

using base::human_bytes;
using base::with_commas;

// The pool, as wished or as large as fits, in whole blocks.
Result<uint64_t> pool_bytes(const StartupPlan& plan, const arch::CacheLayout& layout,
                            const StartupWishes& wishes) {
  if (layout.block_bytes == 0) return 0;
  if (wishes.kv_bytes) {
    if (*wishes.kv_bytes > plan.memory.bytes) {
      return base::fail(ErrorCode::kResourceExhausted,
                        "{} for global KV were asked for, but memory has {} available ({})",
                        human_bytes(*wishes.kv_bytes), human_bytes(plan.memory.bytes),
                        plan.memory.limited_by);
    }
    return *wishes.kv_bytes / plan.block_bytes * plan.block_bytes;
  }
  const uint64_t bytes = plan.memory.bytes;
  const uint64_t left = std::max(bytes / 2, bytes - std::min(bytes, plan.resident_weights()));
  const uint64_t taken = left / 4 + plan.snapshot_bytes + plan.sequences * plan.fixed_bytes;
  const uint64_t most = kContextsMax * layout.reserved_bytes(plan.context_tokens_model);
  const uint64_t share = left > taken ? std::min(left - taken, most) : 0;
  return share / plan.block_bytes * plan.block_bytes;
}

uint64_t sequences_at_once(const StartupPlan& plan, const StartupWishes& wishes) {
  if (wishes.sequences > 0) return wishes.sequences;
  const uint64_t fit =
      plan.memory.bytes / kSequencesShare / std::max<uint64_t>(1, plan.fixed_bytes);
  return std::clamp<uint64_t>(fit, 1, kSequencesMax);
}

// What the prefix index keeps of a full pool: a node a block, with its token ids.
uint64_t index_bytes(const StartupPlan& plan) {
  constexpr uint64_t kNodeBytes = 256;
  if (plan.block_bytes == 0) return 0;
  return plan.pool_bytes / plan.block_bytes * (kNodeBytes + arch::kBlockTokens * sizeof(int32_t));
}

std::string memory_text(const StartupPlan& plan) {
  return fmt::format("{} available ({}), of which global KV may take {}",
                     human_bytes(plan.memory.bytes), plan.memory.limited_by,
                     human_bytes(plan.pool_bytes));
}

}  // namespace

PackingPlan plan_packing(const arch::Config& config, uint64_t memory_bytes) {
  const arch::PackedWeightBytes packed = arch::packed_weight_bytes(config);
  PackingPlan plan;
  if (packed.dense > memory_bytes / 2) return plan;
  plan.dense_bytes = packed.dense;
  plan.source_bytes = packed.dense_source;
  if (packed.dense + packed.experts > memory_bytes / 2) return plan;
  plan.experts_bytes = packed.experts;
  plan.source_bytes += packed.experts_source;
  return plan;
}

Result<StartupPlan> plan_startup(const arch::Config& config, const arch::CacheLayout& layout,
                                 uint64_t weights_bytes, const StartupWishes& wishes,
                                 const base::AvailableMemory& memory) {
  StartupPlan plan;
  plan.weights_bytes = weights_bytes;
  plan.cache_bytes_per_token = arch::global_bytes_per_token(layout);
  plan.block_bytes = layout.block_stride_bytes();
  plan.fixed_bytes = held_bytes(arch::sequence_bytes(config, layout));
  plan.context_tokens_model = config.max_position_embeddings;
  plan.memory = memory;
  if (wishes.packs) plan.packing = plan_packing(config, memory.bytes);
  plan.snapshot_bytes = wishes.snapshot_bytes.value_or(memory.bytes / 10);
  if (plan.snapshot_bytes > memory.bytes) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "{} for snapshots were asked for, but memory has {} available ({})",
                      human_bytes(plan.snapshot_bytes), human_bytes(memory.bytes),
                      memory.limited_by);
  }
  plan.sequences = sequences_at_once(plan, wishes);
  plan.pool_bytes = THIMBLE_TRY(pool_bytes(plan, layout, wishes));
  if (wishes.context_tokens > plan.context_tokens_model) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "a context of {} tokens was asked for, the model's maximum is {}",
                      with_commas(wishes.context_tokens), with_commas(plan.context_tokens_model));
  }
  const uint64_t wanted =
      wishes.context_tokens != 0 ? wishes.context_tokens : plan.context_tokens_model;
  const uint64_t fits =
      layout.block_bytes == 0
          ? plan.context_tokens_model
          : std::min<uint64_t>(plan.pool_bytes / plan.block_bytes * arch::kBlockTokens,
                               plan.context_tokens_model);
  if (fits == 0 || wishes.context_tokens > fits) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "a context of {} tokens takes {} bytes, but memory has {}: {} tokens fit",
                      with_commas(wanted),
                      with_commas(plan.fixed_bytes + layout.reserved_bytes(wanted)),
                      memory_text(plan), with_commas(fits));
  }
  plan.context_tokens = std::min(wanted, fits);
  plan.sequence_bytes = plan.fixed_bytes + layout.reserved_bytes(plan.context_tokens);
  plan.step_bytes =
      step_bytes(config, wishes.step_rows + plan.sequences, plan.context_tokens, plan.sequences);
  plan.process_bytes = plan.resident_weights() + plan.pool_bytes + index_bytes(plan) +
                       plan.snapshot_bytes + plan.sequences * plan.fixed_bytes + plan.step_bytes +
                       kProgramBytes;
  return plan;
}

std::string to_text(const StartupPlan& plan) {
  std::string text = fmt::format("weights   {} bytes mapped ({})\n",
                                 with_commas(plan.weights_bytes), human_bytes(plan.weights_bytes));
  if (plan.packing.bytes() > 0) {
    text += fmt::format(
        "packed    {} bytes of them laid out anew in memory ({}): {}\n",
        with_commas(plan.packing.bytes()), human_bytes(plan.packing.bytes()),
        plan.packing.experts_bytes > 0 ? "all that products read" : "what every token reads");
  }
  text += fmt::format("cache     {:.10g} bytes a token, and {} bytes a sequence\n",
                      plan.cache_bytes_per_token, with_commas(plan.fixed_bytes));
  text += fmt::format("context   {} tokens{}; a sequence that fills it takes {} bytes ({})\n",
                      with_commas(plan.context_tokens),
                      plan.clamped() ? fmt::format(" (the model's maximum is {})",
                                                   with_commas(plan.context_tokens_model))
                                     : std::string(),
                      with_commas(plan.sequence_bytes), human_bytes(plan.sequence_bytes));
  text += fmt::format("at once   {} sequences, which take {} beside their tokens\n",
                      with_commas(plan.sequences), human_bytes(plan.sequences * plan.fixed_bytes));
  text += fmt::format(
      "pool      {} bytes in blocks of {} ({}), for all sequences and the prefix "
      "cache\n",
      with_commas(plan.pool_bytes), with_commas(plan.block_bytes), human_bytes(plan.pool_bytes));
  text += fmt::format("snapshots {} at most\n", human_bytes(plan.snapshot_bytes));
  text += fmt::format("step      {} of activations at the end of a full context\n",
                      human_bytes(plan.step_bytes));
  text += fmt::format("process   {} once all of it was used, weights read and pool filled\n",
                      human_bytes(plan.process_bytes));
  text += fmt::format("memory    {}\n", memory_text(plan));
  if (plan.exceeds_memory()) {
    text += "          less than the weights: they will be read from disk again and again\n";
  }
  text += to_text(plan.replay);
  return text;
}

}  // namespace thimble::planner
