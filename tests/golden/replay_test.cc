// Aim: what the ways to go on have besides hits and steps (replay_matrix_test.cc): the cold run's
// own cone, repeated replays, snapshots used one token early or with entries beyond them, rewinds,
// rejected tokens, forks, and Engram's rows on all of these. Method: t1 and t2, every edge of
// window, block and pair; each way is compared bit for bit with the cold run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "tests/golden/collector.h"
#include "tests/golden/replay_case.h"

namespace thimble::golden {
namespace {

using Replay = ReplayCase;

// A cold prompt of which only the last row is wanted: the decoder's cone gives the same bits.
TEST_P(Replay, ColdConeEqualsAllRows) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  for (const uint64_t chunk : {uint64_t{1}, uint64_t{3}, uint64_t{window_}, total_}) {
    for (const uint64_t end : {uint64_t{1}, uint64_t{window_ + 1}, total_ - 3}) {
      expect_exact(*model, 0, end, chunk);
    }
  }
}

// However often a hit is replayed, nothing below it is written.
TEST_P(Replay, RepeatedReplaysLeaveEntriesAlone) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  const uint64_t hit = total_ / 2 | 1, end = hit + 9;
  for (const std::optional<uint64_t> depth : {std::optional<uint64_t>(), {window_}}) {
    arch::RowPlanInput input = prompt(hit, end);
    input.depth = {depth, depth};
    const arch::RowPlan plan = make_row_plan(plan_, input);
    ForcedSequence sequence = with_entries(*model, hit, plan.begin);
    const auto entries = sequence.entry_bytes(hit);
    EXPECT_EQ(entries, cold_sequence_->entry_bytes(hit));
    for (int i = 0; i < 4; ++i) {
      if (depth) sequence.mark_private();
      finish(sequence, plan, 5);
      EXPECT_EQ(sequence.entry_bytes(hit), entries);
      ASSERT_TRUE(
          sequence.reopen(ids(0, hit + 1), hit, plan.begin, ForcedSequence::Windows::kNone));
      EXPECT_EQ(sequence.entry_bytes(hit), entries);
      expect_sound(sequence);
    }
  }
}

// At a snapshot's position, one token before it, and where entries reach beyond it.
TEST_P(Replay, SnapshotsEqualTheColdRun) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  const uint64_t end = total_ - 3;
  for (const uint64_t at : edge_hits(end)) {
    for (const auto& [begin, hit] : {std::pair{at, at}, {at - 1, at - 1}, {at, at + 5}}) {
      if (begin == 0 || hit >= end) continue;
      arch::RowPlanInput input = prompt(hit, end);
      input.windows_at = begin;
      const arch::RowPlan plan = make_row_plan(plan_, input);
      EXPECT_EQ(plan.begin, begin);
      ForcedSequence sequence = start(*model);
      // The prompt's own end is exact, not its every row.
      const arch::RowPlan before = make_row_plan(plan_, prompt(0, at));
      std::vector<float> ignored(vocab_);
      ASSERT_TRUE(
          sequence.run(ids(0, at), {.plan = &before, .chunk = 7, .logit_rows = 1}, ignored));
      ASSERT_TRUE(sequence.keep_snapshot());
      if (hit > at) CHECK(sequence.run(ids(at, hit), {}, {}));
      // A prompt of one token more than the hit finds no more than the hit.
      const auto found =
          sequence.reopen(ids(0, hit + 1), hit, begin, ForcedSequence::Windows::kSnapshot);
      ASSERT_TRUE(found) << found.error().message;
      const auto logits = finish(sequence, plan, 5);
      EXPECT_TRUE(std::ranges::equal(logits, cold_from(end)))
          << "snapshot " << at << " from " << begin << " hit " << hit;
      expect_cold_entries(sequence, end);
      expect_sound(sequence);
    }
  }
}

// The encoder exact and the decoder bounded (the policy `auto`): entries are the cold run's.
TEST_P(Replay, BoundedDecoderLeavesEntriesExact) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  const uint64_t end = total_ - 3;
  for (const uint64_t hit : edge_hits(end)) {
    arch::RowPlanInput input = prompt(hit, end);
    input.depth.decoder = window_;
    const arch::RowPlan plan = make_row_plan(plan_, input);
    ForcedSequence sequence = with_entries(*model, hit, plan.begin);
    finish(sequence, plan, 9);
    expect_cold_entries(sequence, end);
  }
}

// Rewound to any length, windows replayed exactly: as if the rest had never been.
TEST_P(Replay, RewoundEqualsTheColdRun) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  for (const uint64_t to : edge_hits(total_ - 3)) {
    const uint64_t end = to + 1;
    const arch::RowPlan plan = make_row_plan(plan_, prompt(to, end));
    ForcedSequence sequence = start(*model);
    // What is taken back differs from what follows: other tokens at the same places.
    std::vector<int32_t> other(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(to));
    for (uint64_t i = 0; i < 40 && other.size() < total_; ++i) other.push_back(ids_[i]);
    ASSERT_TRUE(sequence.run(other, {}, {}));
    ASSERT_TRUE(sequence.rewind(ids(0, to), plan.begin));
    expect_sound(sequence);
    const auto logits = finish(sequence, plan, 9);
    EXPECT_TRUE(std::ranges::equal(logits, cold_from(end))) << "rewound to " << to;
    expect_cold_entries(sequence, end);
  }
}

// Up to the ring's slack of tokens that were not accepted, alone or in one step, around group ends
// and the ring's wrap.
TEST_P(Replay, RejectedTokensLeaveNothingBehind) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  ForcedSequence sequence = start(*model);
  std::vector<float> row(vocab_);
  uint64_t at = 1;
  ASSERT_TRUE(sequence.run(ids(0, at), {}, {}));
  for (; at < total_; ++at) {
    const model::SequenceState before = sequence.state();
    const uint64_t rejected = std::min<uint64_t>(at % 9, total_ + 8 - at);
    const std::vector<int32_t> junk(rejected, ids_[at] == 3 ? 4 : 3);
    if (rejected > 0) {
      ASSERT_TRUE(sequence.run(junk, {.chunk = at % 2 == 0 ? rejected : 1}, {}));
      ASSERT_TRUE(sequence.reject(before));
    }
    ASSERT_TRUE(sequence.run(ids(at, at + 1), {.logit_rows = 1}, row));
    ASSERT_TRUE(std::ranges::equal(row, cold_from(at + 1).first(vocab_))) << "position " << at;
  }
  expect_cold_entries(sequence, total_);
  expect_sound(sequence);
}

// Two forks go different ways; each is as if it were alone.
TEST_P(Replay, ForksDoNotTouchEachOther) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  for (const uint64_t at : edge_hits(total_ - 3)) {
    ForcedSequence first = start(*model);
    ASSERT_TRUE(first.run(ids(0, at), {}, {}));
    auto second = first.fork();
    ASSERT_TRUE(second) << second.error().message;
    std::vector<float> rest((until(at + 1) - at) * vocab_);
    for (uint64_t p = at; p < until(at + 1); ++p) {
      const int32_t other = ids_[p] == 3 ? 4 : 3;
      ASSERT_TRUE(second->run({&other, 1}, {}, {}));
      ASSERT_TRUE(first.run(ids(p, p + 1), {.logit_rows = 1},
                            std::span(rest).subspan((p - at) * vocab_, vocab_)));
    }
    EXPECT_TRUE(std::ranges::equal(rest, cold_from(at + 1).first(rest.size())))
        << "forked at " << at;
    expect_cold_entries(first, at);
    expect_sound(first);
  }
}

// Engram row ids by position, whatever way the tokens came. Of the golden models that have vectors
// t1 alone has Engram; t2 has none (its config.json lists no Engram layer).
class EngramReplay : public ReplayCase {
 protected:
  void run_whole(const model::Model& model) {
    ForcedSequence cold = start(model);
    ASSERT_TRUE(cold.run(ids_, {.trace = &whole_}, {}));
    // Of each Engram layer, every token's.
    ASSERT_EQ(whole_.int_rows().size(), golden_.checkpoint.config().engram.layer_ids.size());
    for (const auto& [name, rows] : whole_.int_rows()) EXPECT_EQ(rows.size(), total_) << name;
  }

  // `from`: first row that the route must have run.
  void expect_same(const Collector& trace, uint64_t from, const std::string& route) const {
    for (const auto& [name, all] : whole_.int_rows()) {
      const auto& rows = trace.int_rows().at(name);
      ASSERT_EQ(rows.size(), total_) << route << " " << name;
      for (uint64_t row = 0; row < total_; ++row) {
        if (row < from && rows[row].empty()) continue;
        EXPECT_EQ(rows[row], all[row]) << route << " " << name << " row " << row;
      }
    }
  }

  const std::set<std::string, std::less<>> only_ = {"engram_ids"};
  Collector whole_{only_};
};

TEST_P(EngramReplay, PiecesHashAsTheWhole) {
  const auto model = make(Mode::kExact);
  run_whole(*model);
  for (const uint64_t chunk : {1, 2, 3, 5, 16, 127, 128}) {
    Collector trace(only_);
    ForcedSequence sequence = start(*model);
    ASSERT_TRUE(sequence.run(ids_, {.chunk = chunk, .trace = &trace}, {}));
    expect_same(trace, 0, fmt::format("steps of {}", chunk));
  }
}

TEST_P(EngramReplay, RowsAreTheSameOnEveryRoute) {
  const auto model = make(Mode::kExact);
  run_whole(*model);
  for (const uint64_t hit : edge_hits(total_ - 6)) {
    SCOPED_TRACE(fmt::format("hit {}", hit));
    const arch::RowPlan plan = make_row_plan(plan_, prompt(hit, total_));
    Collector resumed(only_);
    ForcedSequence sequence = with_entries(*model, hit, plan.begin);
    ASSERT_TRUE(
        sequence.run(ids(plan.begin, total_), {.plan = &plan, .chunk = 7, .trace = &resumed}, {}));
    expect_same(resumed, hit, "hit");

    Collector forked(only_);
    ForcedSequence parent = start(*model);
    ASSERT_TRUE(parent.run(ids(0, hit), {}, {}));
    ASSERT_TRUE(parent.keep_snapshot());
    ASSERT_TRUE(parent.fork()->run(ids(hit, total_), {.trace = &forked}, {}));
    expect_same(forked, hit, "fork");

    Collector restored(only_);
    ASSERT_TRUE(parent.reopen(ids(0, hit + 1), hit, hit, ForcedSequence::Windows::kSnapshot));
    ASSERT_TRUE(parent.run(ids(hit, total_), {.trace = &restored}, {}));
    expect_same(restored, hit, "snapshot");

    Collector rewound(only_);
    const uint64_t to = hit > 2 ? hit - 2 : hit;
    const arch::RowPlan back = make_row_plan(plan_, prompt(to, total_));
    ASSERT_TRUE(parent.rewind(ids(0, to), back.begin));
    ASSERT_TRUE(parent.run(ids(back.begin, total_), {.plan = &back, .trace = &rewound}, {}));
    expect_same(rewound, to, "rewind");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Replay, ::testing::Values("t1_mini", "t2_text_minimal"));
INSTANTIATE_TEST_SUITE_P(Models, EngramReplay, ::testing::Values("t1_mini"));

}  // namespace
}  // namespace thimble::golden
