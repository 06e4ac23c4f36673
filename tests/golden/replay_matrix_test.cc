// Aim: after a hit of any length, in steps of any size, every route gives what it promises: `exact`
// and a snapshot the cold run's bits, `auto` its entries, bounded replay the logits of a slow
// reference that truncates its attention at the same places; no entry below the hit is touched.
// Method: t1 and t2 on a text of more than two blocks; hits at every edge of window, block and pair
// times steps of 1, 3, W tokens and all at once. What `make test` leaves out of the product of all
// hits, steps and prompt ends runs under label slow (Sweep: hits 1 to 400 x nine step sizes).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "engine/internal/prefill.h"
#include "tests/golden/replay_case.h"

namespace thimble::golden {
namespace {

using engine::Replay;
using Windows = ForcedSequence::Windows;

constexpr uint64_t kTokens = 280;       // two blocks and a bit
constexpr uint64_t kSweepTokens = 416;  // hits up to 400
constexpr double kLogitBound = 2e-4;    // float32 against double
constexpr float kTieBound = 1e-5F;      // of scores of selection, likewise

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
                               uint64_t depth, model::Trace* trace = nullptr) const {
    reference.resume(plan.hit, plan.begin, std::max(plan.begin, plan.end - depth));
    auto logits = *reference.forward(ids(plan.begin, plan.end), trace);
    logits.erase(logits.begin(), logits.end() - static_cast<std::ptrdiff_t>(vocab_));
    for (uint64_t p = plan.end; p < until(plan.end); ++p) {
      const auto row = *reference.forward(ids(p, p + 1), trace);
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
          const auto logits = same_for_all_steps(sequence, plan, grid.chunks);
          if (expected.empty() || distance(logits, expected).max_abs <= kLogitBound) continue;
          EXPECT_TRUE(differ_by_a_tie(*reference, sequence, plan, depth))
              << distance(logits, expected).max_abs << " apart: hit " << hit << " end " << end
              << " depth " << depth;
        }
      }
    }
  }

  std::vector<float> same_for_all_steps(ForcedSequence& sequence, const arch::RowPlan& plan,
                                        const std::vector<uint64_t>& chunks) {
    std::vector<float> first;
    for (const uint64_t chunk : chunks) {
      const auto logits = replay(sequence, plan, chunk);
      if (first.empty()) first = logits;
      EXPECT_EQ(logits, first) << "hit " << plan.hit << " steps of " << chunk;
      if (!plan.layers.back().truncated) expect_cold(logits, plan, chunk);
    }
    return first;
  }

  // Two entries whose scores are the same but for rounding may be selected one for the other; from
  // there on two runs go apart. Is the first decision (by row, then layer) that the float run and
  // the reference take otherwise such a one?
  bool differ_by_a_tie(model::Reference& reference, ForcedSequence& sequence,
                       const arch::RowPlan& plan, uint64_t depth) {
    const std::set<std::string, std::less<>> only = {"topk", "candidates", "expert_ids.layers",
                                                     "index_score"};
    Collector expected(only), found(only);
    truncated(reference, plan, depth, &expected);
    CHECK(sequence.reopen(ids_, plan.hit, plan.begin, Windows::kNone));
    sequence.mark_private();
    CHECK(sequence.run(ids(plan.begin, plan.end), {.plan = &plan, .trace = &found}, {}));
    CHECK(sequence.run(ids(plan.end, until(plan.end)), {.trace = &found}, {}));
    const std::vector<uint32_t>& sources = golden_.checkpoint.config().index_source_layer_ids;
    for (uint64_t row = plan.begin; row < until(plan.end); ++row) {
      for (uint32_t layer = 0; layer < plan.layers.size(); ++layer) {
        const auto differs = [&](const std::string& quantity) {
          const std::string name = fmt::format("{}.{}", quantity, layer);
          const auto ours = found.int_rows().find(name);
          if (ours == found.int_rows().end() || row >= ours->second.size()) return false;
          return ours->second[row] != expected.int_rows().at(name)[row];
        };
        const bool indexes = std::ranges::find(sources, layer) != sources.end();
        if (indexes && differs("topk")) {
          const std::string name = fmt::format("index_score.{}", layer);
          return is_tie(found.int_rows().at(fmt::format("topk.{}", layer))[row],
                        expected.int_rows().at(fmt::format("topk.{}", layer))[row],
                        expected.float_rows().at(name)[row]);
        }
        if (differs("candidates") || differs("expert_ids.layers")) return false;
      }
    }
    return false;
  }

  // Entries that one selection has and the other has not score alike.
  static bool is_tie(std::vector<int32_t> a, std::vector<int32_t> b,
                     const std::vector<float>& scores) {
    std::ranges::sort(a);
    std::ranges::sort(b);
    std::vector<int32_t> swapped;
    std::ranges::set_symmetric_difference(a, b, std::back_inserter(swapped));
    float low = std::numeric_limits<float>::max();
    float high = std::numeric_limits<float>::lowest();
    for (const int32_t entry : swapped) {
      if (static_cast<size_t>(entry) >= scores.size()) return false;  // the row did not run
      low = std::min(low, scores[static_cast<size_t>(entry)]);
      high = std::max(high, scores[static_cast<size_t>(entry)]);
    }
    return !swapped.empty() && high - low <= kTieBound;
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
using ReplayTie = ReplaySweep;

// The one case of the sweep whose logits are far from the reference's: at row 339 two entries score
// alike in float32. A replay that truncates elsewhere is not excused by that.
TEST_P(ReplayTie, IsToldFromAnError) {
  const auto model = make(Mode::kNokvq);
  run_cold(*model);
  model::ReferenceOptions options;
  options.mode = model::ReferenceMode::kNokvq;
  options.token_map = golden_.token_map;
  const auto reference = *model::Reference::create(golden_.checkpoint, options);
  ASSERT_TRUE(reference->forward(ids_));
  ForcedSequence sequence = with_text(*model);
  arch::RowPlanInput input = prompt(317, 348);
  input.depth = {window_, window_};
  const arch::RowPlan plan = make_row_plan(plan_, input);
  EXPECT_GT(distance(replay(sequence, plan, 0), truncated(*reference, plan, window_)).max_abs,
            kLogitBound);
  EXPECT_TRUE(differ_by_a_tie(*reference, sequence, plan, window_));
  EXPECT_FALSE(differ_by_a_tie(*reference, sequence, plan, window_ - 1));
}

TEST_P(ReplaySweep, ExactIsTheColdRun) { exact(sweep()); }
TEST_P(ReplaySweep, SnapshotIsTheColdRun) { snapshots(sweep()); }
TEST_P(ReplaySweep, AutoLeavesTheColdRunsEntries) { automatic(sweep()); }
TEST_P(ReplaySweep, BoundedIsTheTruncatedReference) { bounded(sweep(), Mode::kNokvq); }
TEST_P(ReplaySweep, BoundedOnPackedRowsIsTheSameInAllSteps) { bounded(sweep(), Mode::kExact); }

INSTANTIATE_TEST_SUITE_P(Models, ReplayMatrix, ::testing::Values("t1_mini", "t2_text_minimal"));
INSTANTIATE_TEST_SUITE_P(Models, ReplayTie, ::testing::Values("t1_mini"));
INSTANTIATE_TEST_SUITE_P(Models, ReplaySweep, ::testing::Values("t1_mini", "t2_text_minimal"));

}  // namespace
}  // namespace thimble::golden
