#include "apps/thimble/cache_flags.h"

#include "base/parse_bytes.h"

namespace thimble::app {
namespace {

constexpr uint32_t kTtlMinutesMax = 60 * 24 * 365;

Result<std::optional<uint64_t>> parse(const char* flag, const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  return THIMBLE_TRY(base::in(base::parse_bytes(*text), flag));
}

}  // namespace

void describe(CacheFlags& flags, Options& options) {
  options.add("--kv-memory", flags.kv_memory,
              "pool of global KV, as 8GiB or 512MB (else what the weights leave)");
  options.add("--snapshot-memory", flags.snapshot_memory,
              "window snapshots, the same way; 0: none (else a tenth of the memory)");
  options.add("--snapshot-ttl", flags.snapshot_ttl, "minutes that an unused snapshot is kept");
  options.choice("--replay", flags.replay, {"auto", "exact", "bounded"},
                 "how windows are rebuilt after a cache hit (docs/replay.md)");
}

Result<void> check(const CacheFlags& flags) {
  THIMBLE_TRY(parse("--kv-memory", flags.kv_memory));
  THIMBLE_TRY(parse("--snapshot-memory", flags.snapshot_memory));
  return check_range("--snapshot-ttl", flags.snapshot_ttl, 1, kTtlMinutesMax);
}

void apply(const CacheFlags& flags, engine::EngineOptions& options) {
  options.kv_bytes = parse("--kv-memory", flags.kv_memory).value();
  options.snapshot_bytes = parse("--snapshot-memory", flags.snapshot_memory).value();
  options.snapshot_ttl_seconds = flags.snapshot_ttl * 60;
}

engine::Replay replay(const CacheFlags& flags) {
  return engine::parse_replay(flags.replay).value();
}

}  // namespace thimble::app
