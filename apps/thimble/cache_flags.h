// Flags about what is kept between requests and how it is used again, for commands that serve more
// than one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/thimble/options.h"
#include "base/result.h"
#include "engine/engine.h"

namespace thimble::app {

struct CacheFlags {
  std::optional<std::string> kv_memory;        // a number of bytes (base/parse_bytes.h)
  std::optional<std::string> snapshot_memory;  // the same
  uint32_t snapshot_ttl = 10;                  // minutes
  std::string replay = "auto";
};

void describe(CacheFlags& flags, Options& options);

Result<void> check(const CacheFlags& flags);

// REQUIRES: check() found nothing.
void apply(const CacheFlags& flags, engine::EngineOptions& options);
engine::Replay replay(const CacheFlags& flags);

}  // namespace thimble::app
