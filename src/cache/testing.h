// A model of no arithmetic for tests of the cache: every stored byte is a hash of all tokens up to
// it, so a row that belongs to another text, or that should not be there, shows.
//
// Rows of a private sequence are hashed with its taint: an approximate row never equals an exact
// one. Window rows too, except that they are not tainted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "base/result.h"
#include "cache/paged_cache.h"
#include "cache/sequence.h"
#include "cache/tokens.h"

namespace thimble::cache {

// A small geometry with every kind of owner: two at ratio 2, one at ratio 1; window 8.
arch::Config small_config();

class FakeModel {
 public:
  explicit FakeModel(const arch::Config& config = small_config(),
                     arch::CacheFormat format = arch::CacheFormat::kPacked);

  const arch::Config& config() const { return config_; }
  const arch::CacheLayout& layout() const { return layout_; }

  // Runs `ids` and writes their rows beyond the committed length; nothing is committed.
  void write(Sequence& sequence, std::span<const int32_t> ids, uint64_t taint = 0) const;
  // reserve(), write(), commit().
  Result<void> append(Sequence& sequence, std::span<const int32_t> ids, uint64_t taint = 0) const;
  // Writes window rows of [from, to), which the sequence has committed.
  void replay(Sequence& sequence, uint64_t from, uint64_t to) const;
  // What take_snapshot() is given, and whether it is that of the sequence's first `position`.
  static std::vector<std::byte> state(const Sequence& sequence);
  static bool is_state(Bytes model, const TokenView& tokens, const SnapshotUse& use);

  // "" if every row of the sequence is what a fresh run of its tokens would have written and no
  // other row is there; else what differs.
  std::string differences(const Sequence& sequence, uint64_t taint = 0) const;

 private:
  void write_entries(const kernels::SequenceRows& rows, std::span<const uint64_t> hashes,
                     uint64_t from, uint64_t to, uint64_t private_from, uint64_t taint) const;
  void write_window_row(const kernels::RingRows& ring, std::byte* row, uint32_t layer,
                        uint64_t hash) const;
  const std::vector<std::byte>& fresh_block(std::span<const uint64_t> hashes, uint64_t page,
                                            uint64_t tokens, uint64_t private_from,
                                            uint64_t taint) const;

  arch::Config config_;
  arch::CacheLayout layout_;
  // By hash of all tokens, their number, and what is tainted how.
  mutable std::map<std::tuple<uint64_t, uint64_t, uint64_t, uint64_t>, std::vector<std::byte>>
      fresh_;
};

// Token ids 0..size-1 of text `text`; texts agree in their first `common` ids.
std::vector<int32_t> text_ids(uint64_t size, uint64_t text = 0, uint64_t common = 0);

CacheIdentity identity(std::string salt = "");

// Options for `blocks` blocks of the model, without snapshots.
PagedCacheOptions small_pool(const FakeModel& model, uint64_t blocks);

std::unique_ptr<PagedCache> make_cache(const FakeModel& model, const PagedCacheOptions& options);

// A sequence that has computed `ids`.
std::unique_ptr<Sequence> run(PagedCache& cache, const FakeModel& model,
                              std::span<const int32_t> ids, const CacheIdentity& of = identity());

// "" if check_integrity() finds nothing; else what it found.
std::string violation(const PagedCache& cache);

// What the cache has of `prompt`, in tokens.
uint64_t hit_of(PagedCache& cache, std::span<const int32_t> prompt,
                const CacheIdentity& of = identity());

}  // namespace thimble::cache
