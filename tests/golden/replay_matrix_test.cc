// Aim: after a hit of any length, in steps of any size, every route gives what it promises: `exact`
// and a snapshot the cold run's bits, `auto` its entries, bounded replay the logits of a slow
// reference that truncates its attention at the same places; no entry below the hit is touched.
// Method: t1 and t2 on a text of more than two blocks; hits at every edge of window, block and pair
// times steps of 1, 3, W tokens and all at once. What `make test` leaves out of the product of all
// hits, steps and prompt ends runs under label slow (Sweep: hits 1 to 400 x nine step sizes).
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "engine/internal/prefill.h"
#include "tests/golden/replay_case.h"

namespace thimble::golden {
namespace {

using engine::Replay;
using Windows = ForcedSequence::Windows;

constexpr uint64_t kTokens = 280;       // two blocks and a bit
constexpr uint64_t kSweepTokens = 416;  // hits up to 400

// What one test goes through.
struct Grid {
  std::vector<uint64_t> hits;    // ascending
  std::vector<uint64_t> chunks;  // tokens a step; 0: all at once
};

class ReplayMatrix : public ReplayCase {
 protected:
  explicit ReplayMatrix(uint64_t tokens = kTokens) : ReplayCase(tokens) {}

  Grid edges() const {
    const uint64_t w = window_;
    const std::set<uint64_t> hits = {1,   2,   w - 1, w,   w + 1, 2 * w + 1, 101,
                                     127, 128, 129,   255, 256,   257,       total_ - 7};
    return {{hits.begin(), hits.end()}, {1, 3, w, 0}};
  }
  Grid sweep() const {
    Grid grid{{}, {1, 2, 3, 7, 8, 64, 127, 128, 0}};
    for (uint64_t hit = 1; hit <= 400; ++hit) grid.hits.push_back(hit);
    return grid;
  }

  // Where prompts after the hit end: N - 1 = hit, and some suffix that varies with the hit.
  std::vector<uint64_t> ends(uint64_t hit) const {
    return {hit + 1, std::min(total_ - 6, hit + 2 + hit % (3 * window_))};
  }

  arch::RowPlan rows(uint64_t hit, uint64_t end, Replay replay) const {
    return make_row_plan(plan_, row_plan_input(plan_, hit, {}, true, end, replay));
  }

  // A cache that has entries of the whole text.
  ForcedSequence with_text(const model::Model& model) {
    ForcedSequence sequence = start(model);
    CHECK(sequence.run(ids_, {}, {}));
    return sequence;
  }

  // Goes on after the hit with no window; gives the logits and looks at the entries below it.
  std::vector<float> replay(ForcedSequence& sequence, const arch::RowPlan& plan, uint64_t chunk) {
    CHECK(sequence.reopen(ids_, plan.hit, plan.begin, Windows::kNone));
    const auto entries = sequence.entry_bytes(plan.hit);
    const bool is_private = plan.begin > 0 && plan.layers.front().truncated;
    if (is_private) sequence.mark_private();
    auto logits = finish(sequence, plan, chunk);
    EXPECT_EQ(sequence.entry_bytes(plan.hit), entries) << "hit " << plan.hit;
    if (!is_private) expect_cold_entries(sequence, plan.end);
    expect_sound(sequence);
    return logits;
  }

  void expect_cold(std::span<const float> logits, const arch::RowPlan& plan, uint64_t chunk) const {
    EXPECT_TRUE(std::ranges::equal(logits, cold_from(plan.end)))
        << "hit " << plan.hit << " end " << plan.end << " steps of " << chunk;
  }

  void exact(const Grid& grid) {
    const auto model = make(Mode::kExact);
    run_cold(*model);
    ForcedSequence sequence = with_text(*model);
    for (const uint64_t hit : grid.hits) {
      for (const uint64_t end : ends(hit)) {
        const arch::RowPlan plan = rows(hit, end, Replay::kExact);
        for (const uint64_t chunk : grid.chunks) {
          expect_cold(replay(sequence, plan, chunk), plan, chunk);
        }
      }
    }
  }

  // The decoder is bounded unless the new text holds its cone or the replay begins at 0.
  void automatic(const Grid& grid) {
    const auto model = make(Mode::kExact);
    run_cold(*model);
    ForcedSequence sequence = with_text(*model);
    for (const uint64_t hit : grid.hits) {
      for (const uint64_t end : ends(hit)) {
        const arch::RowPlan plan = rows(hit, end, Replay::kAuto);
        EXPECT_FALSE(plan.layers.front().truncated);
        std::vector<float> first;
        for (const uint64_t chunk : grid.chunks) {
          const auto logits = replay(sequence, plan, chunk);
          if (!plan.layers.back().truncated) expect_cold(logits, plan, chunk);
          if (first.empty()) first = logits;
          EXPECT_EQ(logits, first) << "hit " << hit << " steps of " << chunk;
        }
      }
    }
  }

  // A snapshot at the hit, taken by a run that came there in steps of many sizes.
  void snapshots(const Grid& grid) {
    const auto model = make(Mode::kExact);
    run_cold(*model);
    ForcedSequence parent = start(*model);
    for (const uint64_t hit : grid.hits) {
      ASSERT_TRUE(parent.run(ids(parent.state().position, hit), {.chunk = 1 + hit % 5}, {}));
      ASSERT_TRUE(parent.keep_snapshot());
      for (const uint64_t end : ends(hit)) {
        arch::RowPlanInput input = prompt(hit, end);
        input.windows_at = hit;
        const arch::RowPlan plan = make_row_plan(plan_, input);
        for (const uint64_t chunk : grid.chunks) {
          auto child = parent.fork();
          ASSERT_TRUE(child) << child.error().message;
          ASSERT_TRUE(child->reopen(ids(0, hit + 1), hit, hit, Windows::kSnapshot));
          const auto entries = child->entry_bytes(hit);
          expect_cold(finish(*child, plan, chunk), plan, chunk);
          EXPECT_EQ(child->entry_bytes(hit), entries);
          expect_cold_entries(*child, end);
          expect_sound(*child);
        }
      }
    }
  }

  // Logits after `plan`, whose rows are bounded to `depth` in both halves, by the reference: it
  // holds the entries of the text's first plan.hit tokens or more, those exactly.
  std::vector<float> truncated(model::Reference& reference, const arch::RowPlan& plan,
                               uint64_t depth) const {
    reference.resume(plan.hit, plan.begin, std::max(plan.begin, plan.end - depth));
    auto logits = *reference.forward(ids(plan.begin, plan.end));
    logits.erase(logits.begin(), logits.end() - static_cast<std::ptrdiff_t>(vocab_));
    for (uint64_t p = plan.end; p < until(plan.end); ++p) {
      const auto row = *reference.forward(ids(p, p + 1));
      logits.insert(logits.end(), row.begin(), row.end());
    }
    return logits;
  }

  // In nokvq no code flips, so the bound is tight; packed rows are compared with each other.
  void bounded(const Grid& grid, Mode mode) {
    const auto model = make(mode);
    run_cold(*model);
    model::ReferenceOptions options;
    options.mode = model::ReferenceMode::kNokvq;
    options.token_map = golden_.token_map;
    const auto reference = *model::Reference::create(golden_.checkpoint, options);
    const bool compares = mode == Mode::kNokvq;
    ASSERT_TRUE(!compares || reference->forward(ids_));
    ForcedSequence sequence = with_text(*model);
    // From the far end back: what a replay leaves in the reference lies at its hit or beyond.
    for (size_t i = grid.hits.size(); i-- > 0;) {
      const uint64_t hit = grid.hits[i];
      for (const uint64_t end : ends(hit)) {
        for (const uint64_t depth : {uint64_t{window_}, uint64_t{window_ + 5}, total_}) {
          arch::RowPlanInput input = prompt(hit, end);
          input.depth = {depth, depth};
          const arch::RowPlan plan = make_row_plan(plan_, input);
          EXPECT_TRUE(depth > window_ || plan.begin == rows(hit, end, Replay::kBounded).begin);
          std::vector<float> expected;
          // A depth that reaches 0 bounds nothing: that is the cold run.
          if (compares && hit > depth) expected = truncated(*reference, plan, depth);
          expect_same_for_all_steps(sequence, plan, grid.chunks, expected);
        }
      }
    }
  }

  // `reference`: logits, or empty.
  void expect_same_for_all_steps(ForcedSequence& sequence, const arch::RowPlan& plan,
                                 const std::vector<uint64_t>& chunks,
                                 const std::vector<float>& reference) {
    std::vector<float> first;
    for (const uint64_t chunk : chunks) {
      const auto logits = replay(sequence, plan, chunk);
      if (first.empty()) first = logits;
      EXPECT_EQ(logits, first) << "hit " << plan.hit << " steps of " << chunk;
      if (!plan.layers.back().truncated) expect_cold(logits, plan, chunk);
    }
    if (reference.empty()) return;
    EXPECT_LE(distance(first, reference).max_abs, 2e-4)
        << "hit " << plan.hit << " end " << plan.end << " from " << plan.begin;
  }
};

TEST_P(ReplayMatrix, ExactIsTheColdRun) { exact(edges()); }
TEST_P(ReplayMatrix, SnapshotIsTheColdRun) { snapshots(edges()); }
TEST_P(ReplayMatrix, AutoLeavesTheColdRunsEntries) { automatic(edges()); }
TEST_P(ReplayMatrix, BoundedIsTheTruncatedReference) { bounded(edges(), Mode::kNokvq); }
TEST_P(ReplayMatrix, BoundedOnPackedRowsIsTheSameInAllSteps) { bounded(edges(), Mode::kExact); }

class ReplaySweep : public ReplayMatrix {
 protected:
  ReplaySweep() : ReplayMatrix(kSweepTokens) {}
};

TEST_P(ReplaySweep, ExactIsTheColdRun) { exact(sweep()); }
TEST_P(ReplaySweep, SnapshotIsTheColdRun) { snapshots(sweep()); }
TEST_P(ReplaySweep, AutoLeavesTheColdRunsEntries) { automatic(sweep()); }
TEST_P(ReplaySweep, BoundedIsTheTruncatedReference) { bounded(sweep(), Mode::kNokvq); }
TEST_P(ReplaySweep, BoundedOnPackedRowsIsTheSameInAllSteps) { bounded(sweep(), Mode::kExact); }

INSTANTIATE_TEST_SUITE_P(Models, ReplayMatrix, ::testing::Values("t1_mini", "t2_text_minimal"));
INSTANTIATE_TEST_SUITE_P(Models, ReplaySweep, ::testing::Values("t1_mini", "t2_text_minimal"));

}  // namespace
}  // namespace thimble::golden
