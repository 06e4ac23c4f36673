// Aim: what is rebuilt after a hit is what the row plan promises. Exactly and from a snapshot, the
// logits are the cold run's bits; bounded, they are those of a slow reference that truncates its
// attention at the same places; entries below the hit are never touched. Method: t1 and t2, hits at
// every edge, chunk sizes from one row to all; the sweep over all hits has label slow.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/random.h"
#include "engine/forced_run.h"
#include "model/reference.h"
#include "tests/golden/collector.h"
#include "tests/golden/model_case.h"

namespace thimble::golden {
namespace {

using engine::ForcedSequence;
using model::Mode;

class Replay : public ::testing::TestWithParam<const char*> {
 protected:
  Replay() : golden_(GetParam()) {
    window_ = golden_.checkpoint.config().sliding_window;
    vocab_ = golden_.checkpoint.config().vocab_size;
    ids_ = golden_.ids;
    total_ = ids_.size();
    plan_ = arch::make_layer_plan(golden_.checkpoint.config());
  }

  std::unique_ptr<model::Model> make(Mode mode) const {
    model::ModelOptions options;
    options.mode = mode;
    options.token_map = golden_.token_map;
    auto model = model::Model::create(golden_.checkpoint, options);
    CHECK(model.has_value());
    return std::move(*model);
  }

  ForcedSequence start(const model::Model& model) {
    auto made = ForcedSequence::create(model, total_ + 8, pool_);
    CHECK(made.has_value());
    return std::move(*made);
  }

  // Where a run whose prompt ends at `end` stops: some decoded tokens later.
  uint64_t until(uint64_t end) const { return std::min(total_, end + 6); }

  // The last row's logits after a prompt of plan.end tokens, then those of each forced token.
  std::vector<float> finish(ForcedSequence& sequence, const arch::RowPlan& plan, uint64_t chunk) {
    std::vector<float> logits(vocab_ * (until(plan.end) - plan.end + 1));
    CHECK(sequence.run(ids(plan.begin, plan.end), {.plan = &plan, .chunk = chunk, .logit_rows = 1},
                       std::span(logits).first(vocab_)));
    for (uint64_t p = plan.end; p < until(plan.end); ++p) {
      CHECK(sequence.run(ids(p, p + 1), {.logit_rows = 1},
                         std::span(logits).subspan((p - plan.end + 1) * vocab_, vocab_)));
    }
    return logits;
  }

  std::span<const int32_t> ids(uint64_t begin, uint64_t end) const {
    return std::span(ids_).subspan(begin, end - begin);
  }

  // The cold run's rows that finish() gives.
  std::span<const float> cold_from(uint64_t end) const {
    return std::span(cold_).subspan((end - 1) * vocab_, (until(end) - end + 1) * vocab_);
  }

  arch::RowPlanInput prompt(uint64_t hit, uint64_t end) const {
    return {.hit = hit, .windows_at = {}, .end = end, .first_output = end - 1, .depth = {}};
  }

  // Hits where something changes: windows, blocks, odd pairs, the whole prompt but its last token.
  std::vector<uint64_t> edge_hits(uint64_t end) const {
    std::vector<uint64_t> hits;
    for (const uint64_t hit :
         {uint64_t{1}, uint64_t{2}, uint64_t{window_ - 1}, uint64_t{window_}, uint64_t{window_ + 1},
          uint64_t{127}, uint64_t{128}, uint64_t{129}, end / 2 | 1, end - 1}) {
      if (hit < end) hits.push_back(hit);
    }
    return hits;
  }

  // A sequence that holds the first `hit` tokens' entries and no window: rows of zeros, which would
  // move the logits of whoever read one.
  ForcedSequence with_entries(const model::Model& model, uint64_t hit, uint64_t begin) {
    ForcedSequence sequence = start(model);
    if (hit == 0) return sequence;
    CHECK(sequence.run(ids(0, hit), {}, {}));
    CHECK(sequence.reopen(ids_, hit, begin, ForcedSequence::Windows::kNone));
    return sequence;
  }

  void expect_exact(const model::Model& model, uint64_t hit, uint64_t end, uint64_t chunk) {
    const arch::RowPlan plan = make_row_plan(plan_, prompt(hit, end));
    ForcedSequence sequence = with_entries(model, hit, plan.begin);
    const auto entries = sequence.entry_bytes(hit);
    const auto logits = finish(sequence, plan, chunk);
    EXPECT_TRUE(std::ranges::equal(logits, cold_from(end)))
        << "hit " << hit << " end " << end << " chunk " << chunk;
    EXPECT_EQ(sequence.entry_bytes(hit), entries) << "hit " << hit;
    expect_cold_entries(sequence, end);
    expect_sound(sequence);
  }

  void expect_cold_entries(const ForcedSequence& sequence, uint64_t end) const {
    EXPECT_EQ(sequence.entry_bytes(until(end)), cold_sequence_->entry_bytes(until(end)))
        << "end " << end;
  }

  static void expect_sound(const ForcedSequence& sequence) {
    const auto sound = sequence.cache().check_integrity();
    EXPECT_TRUE(sound) << sound.error().message;
    EXPECT_EQ(sequence.cache().counters().publish_mismatches, 0u);
  }

  void run_cold(const model::Model& model) {
    cold_sequence_ = start(model);
    cold_.resize(total_ * vocab_);
    CHECK(cold_sequence_->run(ids(0, total_), {.logit_rows = total_}, cold_));
  }

  ModelCase golden_;
  base::ThreadPool pool_{1};  // forward_test.cc has the threads
  std::vector<int32_t> ids_;
  uint64_t total_ = 0;
  uint32_t window_ = 0;
  uint64_t vocab_ = 0;
  arch::LayerPlan plan_;
  std::vector<float> cold_;  // [total, vocab]
  std::optional<ForcedSequence> cold_sequence_;
};

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

TEST_P(Replay, ExactEqualsTheColdRun) {
  const auto model = make(Mode::kExact);
  run_cold(*model);
  const uint64_t end = total_ - 3;
  for (const uint64_t chunk : {uint64_t{1}, uint64_t{3}, uint64_t{window_}, total_}) {
    for (const uint64_t hit : edge_hits(end)) expect_exact(*model, hit, end, chunk);
  }
}

// Every hit from 1 to 400 at nine chunk sizes, beyond the golden's own tokens; label slow.
TEST_P(Replay, SweepOfHitsAndChunks) {
  const auto model = make(Mode::kExact);
  base::SplitMix64 random(3);
  while (ids_.size() < 416) ids_.push_back(ids_[random.below(golden_.total)]);
  total_ = ids_.size();
  run_cold(*model);
  for (uint64_t hit = 1; hit <= 400; ++hit) {
    for (const uint64_t chunk : {1, 2, 3, 7, 8, 64, 127, 128, 400}) {
      expect_exact(*model, hit, hit + 1 + hit % 9, chunk);
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

// Bounded to a depth: nokvq is the sharp comparison, codes do not flip there.
TEST_P(Replay, BoundedEqualsTheTruncatedReference) {
  const auto model = make(Mode::kNokvq);
  const uint64_t end = total_ - 3;
  for (const uint64_t depth : {uint64_t{window_}, uint64_t{window_ + 5}, total_}) {
    for (const uint64_t hit : {uint64_t{window_ + 1}, end / 2 | 1, end / 4 * 2, end - 1}) {
      arch::RowPlanInput input = prompt(hit, end);
      input.depth = {depth, depth};
      const arch::RowPlan plan = make_row_plan(plan_, input);
      model::ReferenceOptions options;
      options.mode = model::ReferenceMode::kNokvq;
      options.token_map = golden_.token_map;
      auto reference = model::Reference::create(golden_.checkpoint, options);
      ASSERT_TRUE(reference);
      ASSERT_TRUE((*reference)->forward(ids(0, hit)));
      const uint64_t begin = hit > depth ? hit - depth : 0;
      // A replay from 0 is the cold run: nothing is cut off.
      const uint64_t kept = begin == 0 ? 0 : std::max(begin, end - depth);
      (*reference)->resume(hit, begin, kept);
      auto expected = *(*reference)->forward(ids(begin, end));
      expected.erase(expected.begin(), expected.end() - static_cast<std::ptrdiff_t>(vocab_));
      for (uint64_t p = end; p < until(end); ++p) {
        const auto row = *(*reference)->forward(ids(p, p + 1));
        expected.insert(expected.end(), row.begin(), row.end());
      }
      std::vector<float> first;
      for (const uint64_t chunk : {total_, uint64_t{1}, uint64_t{window_ + 3}}) {
        ForcedSequence sequence = with_entries(*model, hit, plan.begin);
        if (plan.begin > 0) sequence.mark_private();
        const auto entries = sequence.entry_bytes(hit);
        const auto logits = finish(sequence, plan, chunk);
        EXPECT_LE(distance(logits, expected).max_abs, 2e-4)
            << "depth " << depth << " hit " << hit << " chunk " << chunk;
        EXPECT_EQ(sequence.entry_bytes(hit), entries);
        if (first.empty()) first = logits;
        EXPECT_TRUE(std::ranges::equal(logits, first)) << "chunk " << chunk;
        expect_sound(sequence);
      }
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

// Engram row ids by position, whatever way the tokens came: one shot, pieces, a hit, a snapshot, a
// fork, a rewind.
using EngramReplay = Replay;
TEST_P(EngramReplay, RowsAreTheSameOnEveryRoute) {
  const auto model = make(Mode::kExact);
  const std::set<std::string, std::less<>> only = {"engram_ids"};
  Collector whole(only);
  ForcedSequence cold = start(*model);
  ASSERT_TRUE(cold.run(ids_, {.trace = &whole}, {}));
  const auto expect_same = [&](const Collector& trace, const char* route) {
    size_t compared = 0;
    for (const auto& [name, rows] : trace.int_rows()) {
      for (size_t row = 0; row < rows.size(); ++row) {
        if (rows[row].empty()) continue;
        EXPECT_EQ(rows[row], whole.int_rows().at(name)[row]) << route << " " << name << " " << row;
        ++compared;
      }
    }
    EXPECT_GT(compared, 0u) << route;
  };
  for (const uint64_t chunk : {1, 2, 3, 5}) {
    Collector trace(only);
    ForcedSequence sequence = start(*model);
    ASSERT_TRUE(sequence.run(ids_, {.chunk = chunk, .trace = &trace}, {}));
    expect_same(trace, "pieces");
  }
  const uint64_t hit = total_ / 2 | 1;
  const arch::RowPlan plan = make_row_plan(plan_, prompt(hit, total_));
  Collector resumed(only);
  ForcedSequence sequence = with_entries(*model, hit, plan.begin);
  ASSERT_TRUE(
      sequence.run(ids(plan.begin, total_), {.plan = &plan, .chunk = 7, .trace = &resumed}, {}));
  expect_same(resumed, "hit");

  Collector forked(only);
  ForcedSequence parent = start(*model);
  ASSERT_TRUE(parent.run(ids(0, hit), {}, {}));
  ASSERT_TRUE(parent.keep_snapshot());
  ASSERT_TRUE(parent.fork()->run(ids(hit, total_), {.trace = &forked}, {}));
  expect_same(forked, "fork");

  Collector restored(only);
  ASSERT_TRUE(parent.reopen(ids(0, hit + 1), hit, hit, ForcedSequence::Windows::kSnapshot));
  ASSERT_TRUE(parent.run(ids(hit, total_), {.trace = &restored}, {}));
  expect_same(restored, "snapshot");

  Collector rewound(only);
  const arch::RowPlan back = make_row_plan(plan_, prompt(hit - 2, total_));
  ASSERT_TRUE(parent.rewind(ids(0, hit - 2), back.begin));
  ASSERT_TRUE(parent.run(ids(back.begin, total_), {.plan = &back, .trace = &rewound}, {}));
  expect_same(rewound, "rewind");
}

INSTANTIATE_TEST_SUITE_P(Models, Replay, ::testing::Values("t1_mini", "t2_text_minimal"));
INSTANTIATE_TEST_SUITE_P(Models, EngramReplay, ::testing::Values("t1_mini"));

}  // namespace
}  // namespace thimble::golden
