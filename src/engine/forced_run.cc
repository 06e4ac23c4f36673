#include "engine/forced_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "arch/cache_layout.h"
#include "base/check.h"

namespace thimble::engine {

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
  auto cache = THIMBLE_TRY(cache::SequenceCache::create(model.config(), layout, tokens_max));
  THIMBLE_TRY(cache.reserve(tokens_max));
  return ForcedSequence(model, std::move(cache), pool);
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
    chunk.rows = &cache_.rows();
    chunk.ids = ids.subspan(done, length);
    chunk.plan = run.plan;
    const uint64_t end = done + length;
    const uint64_t rows = end > silent ? std::min(length, end - silent) : 0;
    chunk.logit_rows = static_cast<uint32_t>(rows);
    if (rows > 0) chunk.logits = logits.data() + (end - rows - silent) * vocab;
    chunk.trace = run.trace;
    THIMBLE_TRY(model_->forward({&chunk, 1}, {*pool_, workspace_}));
    done = end;
  }
  return {};
}

Result<void> ForcedSequence::resume_at(std::span<const int32_t> before,
                                       std::span<const std::byte> state) {
  model::SequenceState resumed = model_->sequence_at(before);
  if (!state.empty()) THIMBLE_TRY(model::restore_bytes(state, resumed));
  state_ = std::move(resumed);
  return {};
}

void ForcedSequence::forget_windows() {
  for (const kernels::RingRows& ring : cache_.rows().windows) {
    std::memset(ring.base, 0xFF, uint64_t{ring.slots} * ring.row_bytes);
  }
}

std::vector<std::byte> ForcedSequence::entry_bytes(uint64_t tokens) const {
  std::vector<std::byte> out;
  const kernels::SequenceRows& rows = cache_.rows();
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
