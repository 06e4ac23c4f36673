#include "engine/forced_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "arch/cache_layout.h"
#include "base/check.h"
#include "base/random.h"
#include "engine/internal/commit_rows.h"

namespace thimble::engine {
namespace {

constexpr uint64_t kSnapshotBytes = 1ULL << 30;

cache::CacheIdentity identity_of(const model::Model& model) {
  cache::CacheIdentity identity;
  identity.format = model.cache_format();
  identity.numerics_version = model.numerics_version();
  return identity;
}

constexpr uint8_t kE4m3One = 0x38;
constexpr uint8_t kE8m0One = 127;
constexpr uint8_t kAnyCode = 0xFF;    // E2M1: every code is finite
constexpr uint8_t kSmallE4m3 = 0xBF;  // below two: no NaN

// Random codes under a mask, then scales that are one.
void fill_row(std::byte* row, const arch::RowBytes& bytes, uint8_t one, uint8_t mask,
              base::SplitMix64& random) {
  for (uint64_t i = 0; i < bytes.payload; ++i) {
    row[i] = static_cast<std::byte>(random.next() & mask);
  }
  std::memset(row + bytes.payload, one, bytes.scales);
}

// Entries [from, to) of one owner; index keys by whole tiles.
void fill_entries(const kernels::PagedRows& main, const kernels::PagedTiles& index, uint64_t from,
                  uint64_t to, base::SplitMix64& random) {
  const auto row = arch::packed_main_row(main.dims);
  auto tile = arch::packed_index_row(index.dims);
  tile.payload *= kernels::kTileRows;
  tile.scales *= kernels::kTileRows;
  for (uint64_t e = from; e < to; ++e) {
    fill_row(main.row(e), row, kE4m3One, kAnyCode, random);
    if (e % kernels::kTileRows != 0) continue;
    fill_row(index.tile(e / kernels::kTileRows), tile, kE8m0One, kAnyCode, random);
  }
}

}  // namespace

std::vector<uint64_t> step_lengths(uint64_t tokens, const Cuts& cuts) {
  CHECK(cuts.chunk > 0);
  const uint64_t prompt = cuts.decode_from == 0 ? tokens : std::min(tokens, cuts.decode_from);
  std::vector<uint64_t> lengths;
  for (uint64_t done = 0; done < prompt; done += lengths.back()) {
    lengths.push_back(std::min(cuts.chunk, prompt - done));
  }
  lengths.insert(lengths.end(), tokens - prompt, 1);
  return lengths;
}

Result<std::vector<float>> run_forced(const model::Model& model, std::span<const int32_t> ids,
                                      const Cuts& cuts, base::ThreadPool& pool,
                                      model::Trace* trace) {
  const uint64_t vocab = model.config().vocab_size;
  auto sequence = THIMBLE_TRY(ForcedSequence::create(model, ids.size(), pool));
  std::vector<float> logits(ids.size() * vocab);
  uint64_t done = 0;
  for (const uint64_t length : step_lengths(ids.size(), cuts)) {
    THIMBLE_TRY(sequence.run(ids.subspan(done, length), {.logit_rows = length, .trace = trace},
                             std::span(logits).subspan(done * vocab, length * vocab)));
    done += length;
  }
  return logits;
}

Result<ForcedSequence> ForcedSequence::create(const model::Model& model, uint64_t tokens_max,
                                              base::ThreadPool& pool) {
  const auto layout = arch::make_cache_layout(model.config(), model.cache_format());
  cache::PagedCacheOptions options;
  options.pool_bytes = 3 * layout.reserved_bytes(tokens_max);  // ended, live, and copies of tails
  options.snapshot_bytes = kSnapshotBytes;
  options.snapshot_ttl_us = INT64_MAX;  // a large model's evaluation takes hours
  ForcedSequence made;
  made.model_ = &model;
  made.pool_ = &pool;
  made.tokens_max_ = tokens_max;
  made.cache_ = THIMBLE_TRY(cache::PagedCache::create(model.config(), layout, options));
  made.cached_ = THIMBLE_TRY(made.cache_->open_empty(identity_of(model), tokens_max));
  made.state_ = model.new_sequence();
  return made;
}

Result<void> ForcedSequence::run(std::span<const int32_t> ids, const ForcedRun& run,
                                 std::span<float> logits) {
  const uint64_t vocab = model_->config().vocab_size;
  CHECK_LE(run.logit_rows, ids.size());
  CHECK_EQ(logits.size(), run.logit_rows * vocab);
  const uint64_t silent = ids.size() - run.logit_rows;  // ids without logits
  uint64_t done = 0;
  for (const uint64_t length :
       step_lengths(ids.size(), {run.chunk == 0 ? ids.size() : run.chunk})) {
    model::Chunk chunk;
    chunk.state = &state_;
    THIMBLE_TRY(cached_->reserve(std::max(cached_->length(), state_.position + length)));
    chunk.rows = &cached_->rows();
    chunk.ids = ids.subspan(done, length);
    chunk.plan = run.plan;
    const uint64_t end = done + length;
    const uint64_t rows = end > silent ? std::min(length, end - silent) : 0;
    chunk.logit_rows = static_cast<uint32_t>(rows);
    if (rows > 0) chunk.logits = logits.data() + (end - rows - silent) * vocab;
    chunk.trace = run.trace;
    std::vector<uint64_t> written(model_->plan().owners.size());
    chunk.written = written;
    THIMBLE_TRY(model_->forward({&chunk, 1}, {*pool_, workspace_}));
    commit_rows(*cached_, chunk.ids, state_.position, written);
    done = end;
  }
  return {};
}

Result<void> ForcedSequence::append_random(std::span<const int32_t> ids, uint64_t seed) {
  CHECK(model_->cache_format() == arch::CacheFormat::kPacked);
  base::SplitMix64 random(seed);
  const uint64_t begin = cached_->length();
  const uint64_t end = begin + ids.size();
  CHECK(begin % arch::kBlockTokens == 0 && end % arch::kBlockTokens == 0);
  THIMBLE_TRY(cached_->reserve(end));
  const kernels::SequenceRows& rows = cached_->rows();
  for (size_t o = 0; o < rows.main.size(); ++o) {
    const uint32_t ratio = model_->plan().owners[o].ratio;
    fill_entries(rows.main[o], rows.index[o], arch::entries_after(begin, ratio),
                 arch::entries_after(end, ratio), random);
  }
  for (const kernels::RingRows& ring : rows.windows) {
    const auto row = arch::packed_window_row(ring.dims);
    for (uint64_t p = end - std::min<uint64_t>(end - begin, ring.slots); p < end; ++p) {
      fill_row(ring.row(p), row, kE8m0One, kSmallE4m3, random);
    }
  }
  cached_->commit(ids, cache::entries_completed(cache_->layout(), begin, end));
  state_ = model_->sequence_at(cached_->tokens().ids);
  const uint64_t window = std::min<uint64_t>(end - begin, model_->plan().window);
  for (model::WindowSpan& span : state_.windows) span = {end - window, end};
  return {};
}

Result<void> ForcedSequence::keep_snapshot() {
  return cached_->take_snapshot(model::to_bytes(state_));
}

Result<void> ForcedSequence::reopen(std::span<const int32_t> ids, uint64_t hit, uint64_t begin,
                                    Windows windows) {
  cached_.reset();
  const auto match = cache_->match(identity_of(*model_), ids, cache::Exactness::kAny);
  cache::PagedCache::Opening opening{.hit = hit, .tokens_max = tokens_max_};
  for (const cache::SnapshotUse& use : match->snapshots()) {
    if (use.position == begin) opening.snapshot = &use;
  }
  if (windows == Windows::kNone) opening.snapshot = nullptr;
  if (match->hit() < hit || (windows == Windows::kSnapshot && opening.snapshot == nullptr)) {
    return base::fail(ErrorCode::kNotFound,
                      "entries of {} tokens and {} at {} were wanted, {} tokens are cached", hit,
                      windows == Windows::kNone ? "nothing" : "a snapshot", begin, match->hit());
  }
  cached_ = THIMBLE_TRY(cache_->open(*match, opening));
  state_ = model_->sequence_at(ids.first(begin));
  if (opening.snapshot != nullptr) return model::restore_bytes(opening.snapshot->model, state_);
  return {};
}

Result<void> ForcedSequence::rewind(std::span<const int32_t> ids, uint64_t begin) {
  THIMBLE_TRY(cached_->rewind(ids.size()));
  cached_->forget_windows();
  state_ = model_->sequence_at(ids.first(begin));
  return {};
}

Result<void> ForcedSequence::reject(const model::SequenceState& before) {
  CHECK_LE(state_.position, before.position + arch::kWindowSlackRows);
  THIMBLE_TRY(cached_->rewind(before.position));
  state_ = before;
  return {};
}

Result<ForcedSequence> ForcedSequence::fork() {
  ForcedSequence forked;
  forked.model_ = model_;
  forked.pool_ = pool_;
  forked.tokens_max_ = tokens_max_;
  forked.cache_ = cache_;
  forked.cached_ = THIMBLE_TRY(cached_->fork());
  forked.state_ = state_;
  return forked;
}

std::vector<std::byte> ForcedSequence::entry_bytes(uint64_t tokens) const {
  std::vector<std::byte> out;
  const kernels::SequenceRows& rows = cached_->rows();
  for (size_t o = 0; o < rows.main.size(); ++o) {
    const kernels::PagedRows& main = rows.main[o];
    const kernels::PagedTiles& index = rows.index[o];
    std::vector<float> key(index.dims);
    for (uint64_t e = 0; e < arch::entries_after(tokens, model_->plan().owners[o].ratio); ++e) {
      out.insert(out.end(), main.row(e), main.row(e) + main.row_bytes);
      kernels::read_tile_entry(index.format, index.tile(e / kernels::kTileRows),
                               static_cast<uint32_t>(e % kernels::kTileRows), key);
      const auto* first = reinterpret_cast<const std::byte*>(key.data());
      out.insert(out.end(), first, first + key.size() * sizeof(float));
    }
  }
  return out;
}

}  // namespace thimble::engine
