// Aim: a run that goes on reads the rows that an unbroken one would have read, and a place from
// another run is refused. Method: R1: streams over a small corpus, stopped at places of three
// epochs and compared, batch by batch, with one that never stopped.
#include "train/internal/row_stream.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace thimble::train::internal {
namespace {

Corpus counted_corpus(const Path& folder, std::initializer_list<int32_t> lengths) {
  auto writer = *CorpusWriter::create(folder);
  int32_t next = 0;
  for (const int32_t length : lengths) {
    std::vector<LabelledToken> document;
    for (int32_t i = 0; i < length; ++i, ++next) document.push_back({next, next + 1});
    CHECK(writer.add(document).has_value());
  }
  return *std::move(writer).finish();
}

TrainOptions small_rows() {
  TrainOptions o;
  o.row_tokens = 8;
  o.rows_per_step = 3;
  o.rows_per_piece = 2;
  o.seed = 5;
  o.replay = DecoderReplay::kRandomCut;
  o.replay_share = 0.5;
  return o;
}

// Tokens, borders and segments of a step's pieces, one after the other.
std::vector<int32_t> written(const std::vector<Batch>& pieces) {
  std::vector<int32_t> out;
  for (const Batch& batch : pieces) {
    out.push_back(-1);
    out.insert(out.end(), batch.tokens.begin(), batch.tokens.end());
    for (const Document& d : batch.documents) {
      out.insert(out.end(), {-2, d.begin, d.end});
      for (const Segment& s : d.segments) out.insert(out.end(), {s.begin, s.end, s.loss_from});
    }
  }
  return out;
}

class Rows : public testing::Test {
 protected:
  base::TempDir folder_;
  TrainOptions options_ = small_rows();
  Corpus corpus_ = counted_corpus(folder_.path(), {8, 7, 5, 3, 8, 20, 2, 6, 4, 1, 7, 3});
};

TEST_F(Rows, GoOnWhereTheyStopped) {
  constexpr uint64_t kSteps = 14;
  RowStream whole(options_, corpus_);
  const auto rows = static_cast<int64_t>(whole.packing().rows.size());
  ASSERT_GT(rows, options_.rows_per_step);
  ASSERT_NE(rows % options_.rows_per_step, 0);  // steps straddle the border of epochs
  std::vector<Counters> places;
  std::vector<std::vector<int32_t>> steps;
  for (uint64_t step = 0; step < kSteps; ++step) {
    places.push_back(whole.place());
    steps.push_back(written(whole.next(step)));
  }
  ASSERT_GE(whole.place().epoch, 3);
  for (uint64_t stop = 0; stop < kSteps; ++stop) {
    RowStream resumed(options_, corpus_);
    ASSERT_TRUE(resumed.seek(places[stop]).has_value());
    EXPECT_EQ(resumed.place().epoch, places[stop].epoch);
    EXPECT_EQ(resumed.place().row, places[stop].row);
    for (uint64_t step = stop; step < kSteps; ++step) {
      EXPECT_EQ(written(resumed.next(step)), steps[step]) << "stopped before step " << stop;
    }
  }
}

TEST_F(Rows, ComeOnceAnEpochEachTimeInAnotherOrder) {
  options_.rows_per_step = options_.rows_per_piece = 1;
  RowStream stream(options_, corpus_);
  std::vector<std::vector<int32_t>> epochs(2);
  for (std::vector<int32_t>& epoch : epochs) {
    const size_t rows = stream.packing().rows.size();
    for (size_t i = 0; i < rows; ++i) {
      const std::vector<Batch> row = stream.next(i);
      epoch.insert(epoch.end(), row[0].tokens.begin(), row[0].tokens.end());
    }
  }
  EXPECT_NE(epochs[0], epochs[1]);
  for (std::vector<int32_t>& epoch : epochs) {
    std::sort(epoch.begin(), epoch.end());
    ASSERT_EQ(epoch.size(), 74u);  // every token of the corpus
    for (int32_t i = 0; i < 74; ++i) EXPECT_EQ(epoch[static_cast<size_t>(i)], i);
  }
}

// Data, seed and length of rows decide what a place means; how rows are cut into steps does not.
TEST_F(Rows, OfAnotherRunAreRefused) {
  const Counters place = RowStream(options_, corpus_).place();
  const auto refused = [&](const TrainOptions& options, const Corpus& corpus) {
    const auto result = RowStream(options, corpus).seek(place);
    return !result.has_value() && result.error().code == ErrorCode::kInvalidArgument;
  };
  EXPECT_FALSE(refused(options_, corpus_));
  TrainOptions other = options_;
  other.rows_per_step = 7;
  EXPECT_FALSE(refused(other, corpus_));
  other = options_;
  other.seed = 6;
  EXPECT_TRUE(refused(other, corpus_));
  other = options_;
  other.row_tokens = 9;
  EXPECT_TRUE(refused(other, corpus_));
  const Corpus moved =
      counted_corpus(folder_.path(), {7, 8, 5, 3, 8, 20, 2, 6, 4, 1, 7, 3});  // the same tokens
  EXPECT_TRUE(refused(options_, moved));
}

TEST_F(Rows, BeyondTheEndAreRefused) {
  RowStream stream(options_, corpus_);
  Counters place = stream.place();
  place.row = static_cast<int64_t>(stream.packing().rows.size());
  EXPECT_TRUE(stream.seek(place).has_value());  // the next row is the next epoch's first
  place.row += 1;
  EXPECT_EQ(stream.seek(place).error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace thimble::train::internal
