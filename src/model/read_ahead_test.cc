// Aim: what is asked for ahead of its use is what will be read, to the byte: of the chosen experts
// and of no other, of the looked-up rows. Method: one that asks for nothing but keeps a list of the
// bytes, in place of the system.
#include "model/internal/read_ahead.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "model/internal/step.h"

namespace thimble::model {
namespace {

using Range = std::pair<const std::byte*, size_t>;

class ReadAheadTest : public testing::Test {
 protected:
  std::vector<Range> asked;
  ReadAhead read_ahead{true, [this](Bytes bytes) -> base::PageCount {
                         asked.emplace_back(bytes.data(), bytes.size());
                         return {bytes.size(), 1};
                       }};
};

// An expert of zeros, with its bytes.
struct OwnedExpert {
  std::vector<std::byte> codes[3], scales[3];
  ExpertWeights weights;

  OwnedExpert(uint32_t inner, uint32_t hidden) {
    WeightView* const views[] = {&weights.w1, &weights.w3, &weights.w2};
    for (size_t i = 0; i < 3; ++i) {
      WeightView& view = *views[i];
      view.format = kernels::WeightFormat::kFp4Group32;
      view.rows = i == 2 ? hidden : inner;
      view.cols = i == 2 ? inner : hidden;
      codes[i].resize(view.code_bytes());
      scales[i].resize(view.scale_bytes());
      view.codes = codes[i].data();
      view.scales = scales[i].data();
    }
  }
  // Gate, up, down: the codes and the scales of each.
  void list(std::vector<Range>& out) const {
    for (size_t i = 0; i < 3; ++i) {
      out.emplace_back(codes[i].data(), codes[i].size());
      out.emplace_back(scales[i].data(), scales[i].size());
    }
  }
};

TEST_F(ReadAheadTest, AnExpertIsAskedForWhole) {
  OwnedExpert expert(32, 64);
  read_ahead.ask(expert.weights);
  std::vector<Range> expected;
  expert.list(expected);
  EXPECT_EQ(asked, expected);
  EXPECT_EQ(read_ahead.counts().experts.pages, 3 * 32 * 64 / 2 + 3 * 64u);
  EXPECT_EQ(read_ahead.counts().experts.resident, 6u);
  EXPECT_EQ(read_ahead.counts().engram.pages, 0u);
  // What is packed is read elsewhere.
  asked.clear();
  expert.weights.w3.packed = expert.codes[1].data();
  read_ahead.ask(expert.weights);
  expected.erase(expected.begin() + 2, expected.begin() + 4);
  EXPECT_EQ(asked, expected);
}

TEST_F(ReadAheadTest, ARowIsAskedForWithItsScales) {
  const std::vector<std::byte> codes(10 * 96), scales(10 * 3);
  read_ahead.ask({codes.data(), scales.data(), 10, 96}, 7);
  EXPECT_EQ(asked, (std::vector<Range>{{&codes[7 * 96], 96}, {&scales[7 * 3], 3}}));
  EXPECT_EQ(read_ahead.counts().engram.pages, 99u);
  EXPECT_EQ(read_ahead.counts().engram.resident, 2u);
  EXPECT_EQ(read_ahead.counts().experts.pages, 0u);
}

// Two rows that are sent to experts 1 and 3, and 3 and 4, of five.
TEST_F(ReadAheadTest, TheChosenExpertsAndNoOther) {
  constexpr uint32_t kExperts = 5;
  constexpr uint32_t kHidden = 64;
  arch::Config config;
  config.hidden_size = kHidden;
  config.moe_intermediate_size = 32;
  config.n_routed_experts = kExperts;
  config.num_experts_per_tok = 2;
  const float logits[][kExperts] = {{0, 9, 0, 8, 0}, {0, 0, 0, 8, 9}};
  std::vector<float> gate(kExperts * kHidden), x(2 * kHidden), y(2 * kHidden);
  for (uint32_t row = 0; row < 2; ++row) {
    x[row * kHidden + row] = 1;
    for (uint32_t e = 0; e < kExperts; ++e) gate[e * kHidden + row] = logits[row][e];
  }
  const std::vector<float> bias(kExperts);
  const std::vector<OwnedExpert> experts(kExperts + 1, OwnedExpert(32, kHidden));
  LayerWeights weights;
  weights.gate = {kernels::WeightFormat::kF32, reinterpret_cast<const std::byte*>(gate.data()),
                  nullptr, kExperts, kHidden};
  weights.gate_bias = bias.data();
  for (const OwnedExpert& expert : experts) {
    ExpertWeights& views = weights.experts.emplace_back(expert.weights);
    size_t i = 0;
    for (WeightView* view : {&views.w1, &views.w3, &views.w2}) {
      view->codes = expert.codes[i].data();
      view->scales = expert.scales[i++].data();
    }
  }
  weights.shared = weights.experts.back();
  weights.experts.pop_back();

  base::ThreadPool pool(1);
  kernels::Workspace workspace;
  const std::vector<Chunk> chunks(1);
  const RopeFrequencies frequencies;
  const arch::LayerPlan plan;
  Step step{config,      plan,   Mode::kFast, IndexKeys::kOwn, {pool, workspace},
            frequencies, chunks, &read_ahead};
  step.rows.resize(2);
  mixture_of_experts(step, weights, {}, {x.data(), 2, kHidden}, {y.data(), 2, kHidden});
  std::vector<Range> expected;
  for (const size_t e : {1, 3, 4}) experts[e].list(expected);
  EXPECT_EQ(asked, expected);
}

}  // namespace
}  // namespace thimble::model
