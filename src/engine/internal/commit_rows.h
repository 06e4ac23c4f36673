// After a forward step: what the cache must know of its rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cache/sequence.h"

namespace thimble::engine {

// The step ran `ids` up to position `end`: rows below the sequence's length were replayed, the
// others are new and wrote `written` entries, [owners].
inline void commit_rows(cache::Sequence& cached, std::span<const int32_t> ids, uint64_t end,
                        std::span<const uint64_t> written) {
  const uint64_t known = cached.length();
  const uint64_t begin = end - ids.size();
  if (begin < known) cached.replayed(begin, std::min(end, known));
  if (end > known) cached.commit(ids.last(end - known), written);
}

}  // namespace thimble::engine
