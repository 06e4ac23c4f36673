#include "train/internal/row_stream.h"

#include <algorithm>
#include <utility>

#include "base/random.h"

namespace thimble::train::internal {

RowStream::RowStream(const TrainOptions& options, const Corpus& corpus)
    : options_(options), corpus_(corpus), lengths_(corpus.lengths()), packing_(pack(0)) {}

Result<void> RowStream::seek(const Counters& counters) {
  if (counters.data != data()) {
    return base::fail(
        ErrorCode::kInvalidArgument,
        "the state was trained on other rows ({:016x}) than data, tokenizer, row_tokens and seed "
        "make now ({:016x}): name what the run began with, or begin another run in another folder "
        "(its \"start\" may be an exported model)",
        static_cast<uint64_t>(counters.data), static_cast<uint64_t>(data()));
  }
  const auto epoch = static_cast<uint32_t>(counters.epoch);
  Packing packing = pack(epoch);
  if (static_cast<uint64_t>(counters.row) > packing.rows.size()) {
    return base::fail(ErrorCode::kCorrupt, "the state goes on at row {} of {}", counters.row,
                      packing.rows.size());
  }
  epoch_ = epoch;
  row_ = static_cast<size_t>(counters.row);
  packing_ = std::move(packing);
  return {};
}

Counters RowStream::place() const {
  Counters out;
  out.epoch = epoch_;
  out.row = static_cast<int64_t>(row_);
  out.data = data();
  return out;
}

// What decides which rows come, in which order.
int64_t RowStream::data() const {
  const uint64_t rows = base::mix64(options_.seed) ^ options_.row_tokens;
  return static_cast<int64_t>(base::mix64(corpus_.fingerprint() ^ rows));
}

Packing RowStream::pack(uint32_t epoch) const {
  return pack_rows(lengths_,
                   {.row_tokens = options_.row_tokens, .seed = options_.seed, .epoch = epoch});
}

const Row& RowStream::next_row() {
  if (row_ == packing_.rows.size()) {
    packing_ = pack(++epoch_);
    row_ = 0;
  }
  return packing_.rows[row_++];
}

std::vector<Batch> RowStream::next(uint64_t step) {
  BatchOptions batch;
  batch.window = options_.config.sliding_window;
  batch.replay = options_.replay;
  batch.replay_share = options_.replay_share;
  std::vector<Batch> out;
  for (uint32_t begin = 0; begin < options_.rows_per_step; begin += options_.rows_per_piece) {
    std::vector<Row> rows;
    const uint32_t end = std::min(begin + options_.rows_per_piece, options_.rows_per_step);
    for (uint32_t i = begin; i < end; ++i) rows.push_back(next_row());
    batch.seed = options_.seed + step * 1'000'003 + begin;
    out.push_back(make_batch(rows, corpus_, batch));
  }
  return out;
}

std::vector<Batch> held_out_pieces(const TrainOptions& options, const Corpus& corpus,
                                   DecoderReplay replay) {
  BatchOptions batch;
  batch.window = options.config.sliding_window;
  batch.replay = replay;
  std::vector<Batch> out;
  const Packing packing = pack_rows(corpus.lengths(), {.row_tokens = options.row_tokens});
  for (size_t i = 0; i < packing.rows.size(); i += options.rows_per_piece) {
    const size_t count = std::min<size_t>(options.rows_per_piece, packing.rows.size() - i);
    out.push_back(make_batch({packing.rows.data() + i, count}, corpus, batch));
  }
  return out;
}

}  // namespace thimble::train::internal
