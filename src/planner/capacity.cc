#include "planner/capacity.h"

#include <algorithm>
#include <cmath>

#include "arch/cache_layout.h"
#include "base/bytes.h"

namespace thimble::planner {
namespace {

constexpr double kPublishedRetentionHours = 72;

// Bytes of `tokens` tokens' rows, as they are written: whole rows only.
double rows_bytes(const CacheDesign& design, uint64_t tokens) {
  double bytes = 0;
  for (const RowStream& stream : design.streams) {
    bytes += static_cast<double>(tokens / stream.tokens) *
             static_cast<double>(stream.layers * stream.row_bytes());
  }
  return bytes;
}

uint64_t fit(uint64_t memory_bytes, double bytes) {
  return bytes <= 0 ? 0 : static_cast<uint64_t>(static_cast<double>(memory_bytes) / bytes);
}

}  // namespace

Contexts contexts_in(const CacheDesign& design, uint64_t memory_bytes, uint64_t tokens) {
  const double rows = rows_bytes(design, tokens);
  const auto sequence = static_cast<double>(design.sequence_bytes);
  Contexts contexts{.by_entries = fit(memory_bytes, rows > 0 ? rows : sequence),
                    .with_windows = fit(memory_bytes, rows + sequence)};
  if (design.paged) {
    const uint64_t blocks = base::div_ceil(tokens, arch::kBlockTokens);
    const auto slack = static_cast<double>(design.paged->slack_bytes);
    const double reserved =
        static_cast<double>(blocks) * static_cast<double>(design.paged->block_bytes);
    contexts.in_blocks = fit(memory_bytes, reserved + sequence + slack);
  }
  return contexts;
}

std::vector<ConcurrencyPoint> concurrency_curve(const CacheDesign& design, uint64_t memory_bytes,
                                                uint64_t tokens_max) {
  std::vector<ConcurrencyPoint> curve;
  for (uint64_t tokens = 1024; tokens <= tokens_max; tokens *= 2) {
    curve.push_back({tokens, contexts_in(design, memory_bytes, tokens)});
  }
  return curve;
}

PersistentTier persistent_tier(const CacheDesign& design, const CacheDesign& before,
                               uint64_t disk_bytes, double tokens_per_second) {
  PersistentTier tier;
  tier.entry_ratio = design.bytes_per_token() / before.bytes_per_token();
  tier.ratio = tier.entry_ratio * tier.window_ratio;
  tier.window_interval_tokens =
      static_cast<double>(before.sequence_bytes) / before.bytes_per_token();
  const double bytes_per_hour = design.bytes_per_token() * tokens_per_second * 3600;
  if (bytes_per_hour > 0) tier.retention_hours = static_cast<double>(disk_bytes) / bytes_per_hour;
  tier.disk_bytes_for_72_hours = bytes_per_hour * kPublishedRetentionHours;
  return tier;
}

SnapshotPool snapshot_pool(double snapshots_per_minute, double ttl_minutes,
                           uint64_t snapshot_bytes) {
  const double snapshots = snapshots_per_minute * ttl_minutes;
  return {snapshots, snapshots * static_cast<double>(snapshot_bytes)};
}

}  // namespace thimble::planner
