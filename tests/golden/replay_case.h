// What the tests of replay share: t1 and t2, a text, its cold run, and ways to go on after a hit.
//
// The text is the golden one, extended by ids drawn with a fixed seed where it is too short for
// block edges (128, 256) to lie on it. One fixture object per test; single-threaded.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "engine/forced_run.h"
#include "model/reference.h"
#include "tests/golden/collector.h"
#include "tests/golden/model_case.h"

namespace thimble::golden {

using engine::ForcedSequence;
using model::Mode;

class ReplayCase : public ::testing::TestWithParam<const char*> {
 protected:
  // The text has `tokens` tokens, or as many as the golden one if that is longer.
  explicit ReplayCase(uint64_t tokens = 140) : golden_(GetParam()) {
    window_ = golden_.checkpoint.config().sliding_window;
    vocab_ = golden_.checkpoint.config().vocab_size;
    ids_ = golden_.ids;
    base::SplitMix64 random(3);
    while (ids_.size() < tokens) ids_.push_back(ids_[random.below(golden_.total)]);
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

}  // namespace thimble::golden
