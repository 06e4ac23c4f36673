// Aim: rows hold every token once, tightly, in an order that replays. Method: D1: random lengths,
// tokens counted again, two runs compared, padding bounded. What a replay runs again: segments of
// small and of many documents, counted and compared by seed.
#include "train/packing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <set>

#include "base/random.h"
#include "train/batch.h"

namespace thimble::train {
namespace {

std::vector<uint32_t> log_normal_lengths(size_t count) {
  base::SplitMix64 random(1);
  std::vector<uint32_t> out;
  for (size_t i = 0; i < count; ++i) {
    out.push_back(static_cast<uint32_t>(1 + 600 * std::exp(1.1 * random.normal())));
  }
  return out;
}

TEST(Packing, HoldsEveryTokenOnce) {
  const auto lengths = log_normal_lengths(300);
  const Packing packing = pack_rows(lengths, {.row_tokens = 512, .seed = 3});
  std::vector<std::set<uint32_t>> seen(lengths.size());
  uint64_t tokens = 0;
  for (const Row& row : packing.rows) {
    uint32_t used = 0;
    for (const Piece& p : row) {
      EXPECT_EQ(p.begin % 512, 0u);  // cut points follow from the length alone
      EXPECT_TRUE(seen[p.document].insert(p.begin).second);
      used += p.end - p.begin;
    }
    EXPECT_LE(used, 512u);
    tokens += used;
  }
  EXPECT_EQ(tokens, packing.tokens);
  uint64_t expected = 0;
  for (const uint32_t n : lengths) expected += n;
  EXPECT_EQ(tokens, expected);
}

TEST(Packing, IsTight) {
  EXPECT_LT(pack_rows(log_normal_lengths(2000), {.row_tokens = 512}).padding, 2e-3);
  EXPECT_LT(pack_rows(log_normal_lengths(20000), {.row_tokens = 512}).padding, 3e-4);
}

TEST(Packing, Replays) {
  const auto lengths = log_normal_lengths(200);
  const auto flat = [&](const PackOptions& options) {
    std::vector<uint64_t> out;
    for (const Row& row : pack_rows(lengths, options).rows) {
      for (const Piece& p : row) out.push_back(uint64_t{p.document} << 32 | p.begin);
    }
    return out;
  };
  EXPECT_EQ(flat({.seed = 1, .epoch = 2}), flat({.seed = 1, .epoch = 2}));
  EXPECT_NE(flat({.seed = 1, .epoch = 2}), flat({.seed = 1, .epoch = 3}));
  EXPECT_NE(flat({.seed = 1, .epoch = 2}), flat({.seed = 2, .epoch = 2}));
}

// Two answers in a conversation: each begins its decoder windows anew, prompts far before are
// skipped (training spec 8.3).
TEST(Batches, TurnsBeginAWindowBefore) {
  std::vector<LabelledToken> d;
  for (int i = 0; i < 20; ++i) {
    const bool answer = (i >= 7 && i < 10) || (i >= 15 && i < 19);
    d.push_back({i, answer ? i + 1 : -1});
  }
  const base::TempDir folder;
  auto writer = *CorpusWriter::create(folder.path());
  ASSERT_TRUE(writer.add(d));
  const Corpus corpus = *std::move(writer).finish();
  const std::vector<Row> rows = {{{0, 0, 20}}};
  BatchOptions options;
  options.window = 4;
  options.replay = DecoderReplay::kTurns;
  const Batch batch = make_batch(rows, corpus, options);
  const auto& s = batch.documents[0].segments;
  ASSERT_EQ(s.size(), 2u);
  EXPECT_EQ(s[0].begin, 4);  // first generated position 8, less the window
  EXPECT_EQ(s[0].loss_from, 7);
  EXPECT_EQ(s[0].end, 10);
  EXPECT_EQ(s[1].begin, 12);
  EXPECT_EQ(s[1].end, 19);
}

class RandomCuts : public testing::Test {
 protected:
  static constexpr uint32_t kDocuments = 2000;

  RandomCuts() {
    auto writer = *CorpusWriter::create(folder_.path());
    for (uint32_t d = 0; d < kDocuments; ++d) {
      const std::vector<LabelledToken> document(1 + d % 40, {1, 1});
      CHECK(writer.add(document).has_value());
      row_.push_back({d, 0, 1 + d % 40});
    }
    corpus_.emplace(*std::move(writer).finish());
    options_.replay = DecoderReplay::kRandomCut;
    options_.replay_share = 0.3;
    options_.seed = 7;
  }

  std::vector<Document> documents() const {
    return make_batch(std::span(&row_, 1), *corpus_, options_).documents;
  }
  // Where each document is cut; -1: not at all.
  std::vector<int32_t> places() const {
    std::vector<int32_t> out;
    for (const Document& d : documents()) {
      out.push_back(d.segments.empty() ? -1 : d.segments[1].begin - d.begin);
    }
    return out;
  }

  base::TempDir folder_;
  Row row_;
  std::optional<Corpus> corpus_;
  BatchOptions options_;
};

// The first segment as if nothing were cut, the second anew; each token once, with its loss.
TEST_F(RandomCuts, CoverTheDocument) {
  for (const Document& d : documents()) {
    if (d.segments.empty()) continue;
    ASSERT_EQ(d.segments.size(), 2u);
    const Segment& head = d.segments[0];
    const Segment& tail = d.segments[1];
    EXPECT_EQ(head.begin, d.begin);
    EXPECT_EQ(head.end, tail.begin);
    EXPECT_EQ(tail.end, d.end);
    EXPECT_LT(head.begin, head.end);
    EXPECT_LT(tail.begin, tail.end);
    EXPECT_EQ(head.loss_from, head.begin);
    EXPECT_EQ(tail.loss_from, tail.begin);
  }
}

TEST_F(RandomCuts, ComeAsOftenAsTheyShould) {
  double cut = 0;
  double longer = 0;  // than one token: what can be cut
  double place = 0;   // share of the document before the cut
  const std::vector<int32_t> places = this->places();
  for (uint32_t d = 0; d < kDocuments; ++d) {
    const int32_t length = 1 + static_cast<int32_t>(d) % 40;
    longer += length > 1;
    if (places[d] < 0) continue;
    EXPECT_GT(length, 1);
    cut += 1;
    place += static_cast<double>(places[d]) / length;
  }
  EXPECT_NEAR(cut / longer, 0.3, 0.04);  // four deviations
  EXPECT_NEAR(place / cut, 0.5, 0.05);   // anywhere
  options_.replay_share = 0;
  for (const Document& d : documents()) EXPECT_TRUE(d.segments.empty());
  options_.replay_share = 1;
  for (const Document& d : documents()) EXPECT_EQ(d.segments.empty(), d.end - d.begin < 2);
}

TEST_F(RandomCuts, ReplayBySeed) {
  const std::vector<int32_t> first = places();
  EXPECT_EQ(places(), first);
  options_.seed = 8;
  EXPECT_NE(places(), first);
}

}  // namespace
}  // namespace thimble::train
