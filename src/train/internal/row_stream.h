// The rows of a run in order, epoch after epoch, and the place where it goes on.
//
// Not thread-safe. Options and corpus must outlive it.
#pragma once

#include <vector>

#include "train/batch.h"
#include "train/internal/state_file.h"

namespace thimble::train::internal {

class RowStream {
 public:
  RowStream(const TrainOptions& options, const Corpus& corpus);

  // kInvalidArgument: the state was made with other rows than these.
  Result<void> seek(const Counters& counters);
  // The next row's, no tokens counted.
  Counters place() const;
  const Packing& packing() const { return packing_; }  // of this epoch

  // One step's rows in pieces. REQUIRES a corpus with tokens.
  std::vector<Batch> next(uint64_t step);

 private:
  int64_t data() const;
  Packing pack(uint32_t epoch) const;
  const Row& next_row();

  const TrainOptions& options_;
  const Corpus& corpus_;
  std::vector<uint32_t> lengths_;
  Packing packing_;
  uint32_t epoch_ = 0;
  size_t row_ = 0;
};

// All documents once, in pieces as a step has them.
std::vector<Batch> held_out_pieces(const TrainOptions& options, const Corpus& corpus,
                                   DecoderReplay replay);

}  // namespace thimble::train::internal
