// Engram row ids: which table rows an n-gram of (compressed) token ids looks up.
//
// A pure function of the token ids at a position and the few before it. The token map (raw id to
// compressed id) is made by text/token_map.h and handed in. Source: engram spec 2.4 to 2.6.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/config.h"
#include "base/result.h"

namespace thimble::model {

// A position that no n-gram may cross or include: before the sequence, or inside an image.
inline constexpr int32_t kDeadToken = -1;

class EngramHasher {
 public:
  // Checks the token map against the configuration: vocabulary size, class count, pad class. Errors
  // name the numbers that disagree. REQUIRES: config.engram.layer_ids is not empty.
  static Result<EngramHasher> create(const arch::Config& config,
                                     std::span<const int32_t> token_map);

  uint32_t compressed(int32_t token) const {
    return static_cast<uint32_t>(map_[static_cast<size_t>(token)]);
  }
  uint32_t history_tokens() const { return ngrams_ - 1; }
  // Compressed ids of the last history_tokens() of `ids`, oldest first; kDeadToken where `ids` has
  // fewer.
  std::vector<int32_t> history_after(std::span<const int32_t> ids) const;

  // Row ids of the token at the end of `recent`, for Engram layer `engram`. `recent`: compressed
  // ids, oldest first, kDeadToken where nothing may be read; needs history_tokens() + 1 values.
  // `rows`: [lookups], in (n-gram size, head) order.
  void row_ids(uint32_t engram, std::span<const int32_t> recent, std::span<int64_t> rows) const;

  // [max_ngram_size] odd multipliers of one Engram layer; tests compare them with known values.
  std::span<const int64_t> multipliers(uint32_t engram) const { return multipliers_[engram]; }

 private:
  EngramHasher() = default;
  std::vector<int32_t> map_;
  uint32_t ngrams_ = 0;
  uint32_t heads_ = 0;
  int64_t pad_ = 0;
  std::vector<std::vector<int64_t>> multipliers_;  // [engram layers][max_ngram_size]
  std::vector<std::vector<uint64_t>> primes_;      // [engram layers][lookups]
  std::vector<std::vector<uint64_t>> offsets_;     // [engram layers][lookups]
};

// The multipliers of `layer`: numpy's default_rng(10007 * layer) integers below a bound set by the
// compressed vocabulary size, made odd.
std::vector<int64_t> engram_multipliers(uint32_t layer, uint32_t compressed_vocab_size,
                                        uint32_t count);

}  // namespace thimble::model
