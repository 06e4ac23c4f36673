// Aim: samples follow the distribution that the parameters describe, depend on (seed, position) and
// the logits alone, and bad logits are an error. Method: expected probabilities by a second, naive
// computation; chi-square over 50,000 draws with fixed seeds against the 0.001 quantile; edges by
// hand.
#include "engine/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "base/random.h"

namespace thimble::engine {
namespace {

std::vector<float> random_logits(size_t count, uint64_t seed, double spread = 2.0) {
  base::SplitMix64 random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(spread * random.normal());
  return logits;
}

int32_t sample(const std::vector<float>& logits, const SamplingParams& params, uint64_t position,
               const std::vector<int32_t>& masked = {}) {
  const auto token = Sampler(params, masked).sample(logits, position);
  EXPECT_TRUE(token.has_value());
  return token.value_or(-1);
}

// The definition, written once more: sorted list, one filter after the other, no shortcuts.
std::vector<double> expected(const std::vector<float>& logits, const SamplingParams& params,
                             const std::vector<int32_t>& masked) {
  std::vector<std::pair<double, int>> list;
  for (int i = 0; i < static_cast<int>(logits.size()); ++i) {
    if (std::count(masked.begin(), masked.end(), i) != 0) continue;
    list.emplace_back(std::exp(static_cast<double>(logits[i]) / params.temperature), i);
  }
  std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) { return a.first > b.first; });
  const auto total = [&] {
    double sum = 0;
    for (const auto& entry : list) sum += entry.first;
    return sum;
  };
  if (params.top_k != 0 && params.top_k < list.size()) list.resize(params.top_k);
  if (params.top_p < 1) {
    const double wanted = params.top_p * total();
    size_t kept = 0;
    for (double sum = 0; sum < wanted && kept < list.size(); ++kept) sum += list[kept].first;
    list.resize(kept);
  }
  const double least = params.min_p * list.front().first;
  std::erase_if(list, [&](auto& entry) { return entry.first < least; });
  std::vector<double> probabilities(logits.size());
  const double sum = total();
  for (const auto& [weight, token] : list) probabilities[token] = weight / sum;
  return probabilities;
}

// 0.999 quantile of chi-square with `freedom` degrees of freedom (Wilson and Hilferty).
double chi_square_limit(double freedom) {
  const double a = 2.0 / (9.0 * freedom);
  return freedom * std::pow(1.0 - a + 3.0902 * std::sqrt(a), 3);
}

struct Case {
  const char* name;
  SamplingParams params;
  std::vector<int32_t> masked;
};

class Distribution : public testing::TestWithParam<Case> {};

TEST_P(Distribution, FiftyThousandDrawsPassChiSquare) {
  constexpr int kDraws = 50'000;
  const Case& c = GetParam();
  const std::vector<float> logits = random_logits(16, 7, 1.0);
  const std::vector<double> probabilities = expected(logits, c.params, c.masked);
  Sampler sampler(c.params, c.masked);
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) {
    const auto token = sampler.sample(logits, static_cast<uint64_t>(i));
    ASSERT_TRUE(token.has_value());
    ++counts[static_cast<size_t>(*token)];
  }
  double chi_square = 0;
  int cells = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (probabilities[i] == 0) {
      ASSERT_EQ(counts[i], 0) << "token " << i << " was filtered out";
      continue;
    }
    const double mean = probabilities[i] * kDraws;
    chi_square += (counts[i] - mean) * (counts[i] - mean) / mean;
    ++cells;
  }
  ASSERT_GT(cells, 1);
  EXPECT_LT(chi_square, chi_square_limit(cells - 1)) << cells << " cells";
}

INSTANTIATE_TEST_SUITE_P(
    Sampler, Distribution,
    testing::Values(
        Case{"plain", {.seed = 1}, {}}, Case{"cold", {.temperature = 0.5F, .seed = 2}, {}},
        Case{"hot", {.temperature = 2.0F, .seed = 3}, {}},
        Case{"top_k", {.top_k = 5, .seed = 4}, {}}, Case{"top_p", {.top_p = 0.7F, .seed = 5}, {}},
        Case{"min_p", {.min_p = 0.2F, .seed = 6}, {}},
        Case{"all_filters",
             {.temperature = 1.3F, .top_p = 0.9F, .top_k = 9, .min_p = 0.15F, .seed = 7},
             {}},
        Case{"masked", {.top_p = 0.95F, .seed = 8}, {3, 0, 11, 3}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Sampler, TemperatureZeroTakesTheLargestAndTheLowerIdOfTies) {
  const SamplingParams greedy{.temperature = 0};
  EXPECT_EQ(sample({0, 3, 1, 3, 3}, greedy, 0), 1);
  EXPECT_EQ(sample({5, 5, 5}, greedy, 9), 0);
  EXPECT_EQ(sample({-0.0F, 0.0F}, greedy, 0), 0);
  EXPECT_EQ(sample({-1}, greedy, 0), 0);
  EXPECT_EQ(sample({0, 3, 1, 3, 3}, greedy, 0, {1}), 3);
}

TEST(Sampler, TopKOneAndTinyTopPAreGreedyWithTheLowerIdOfTies) {
  for (uint64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(sample({0, 3, 1, 3, 3}, {.top_k = 1}, position), 1);
    EXPECT_EQ(sample({0, 3, 1, 3, 3}, {.top_p = 1e-30F}, position), 1);
  }
}

TEST(Sampler, TiesAtTheEdgeOfTopKGoToTheLowerIds) {
  std::set<int32_t> seen;
  for (uint64_t position = 0; position < 500; ++position) {
    seen.insert(sample({1, 2, 1, 2, 1, 1}, {.top_k = 3}, position));
  }
  EXPECT_EQ(seen, (std::set<int32_t>{0, 1, 3}));
}

TEST(Sampler, MinPOneKeepsExactlyTheTies) {
  std::set<int32_t> seen;
  for (uint64_t position = 0; position < 500; ++position) {
    seen.insert(sample({0, 3, 1, 3, 3}, {.min_p = 1.0F}, position));
  }
  EXPECT_EQ(seen, (std::set<int32_t>{1, 3, 4}));
}

TEST(Sampler, AllButOneMaskedLeavesThatOne) {
  for (const float temperature : {0.0F, 1.0F, 2.0F}) {
    for (uint64_t position = 0; position < 50; ++position) {
      EXPECT_EQ(sample({9, 9, -20, 9}, {.temperature = temperature}, position, {3, 1, 0}), 2);
    }
  }
  const auto none = Sampler({}, std::vector<int32_t>{0, 1}).sample(std::vector<float>{1, 2}, 0);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, ErrorCode::kInternal);
}

TEST(Sampler, TinyTemperatureStaysFinite) {
  const std::vector<float> logits = {3e38F, -3e38F, 2.9e38F};
  EXPECT_EQ(sample(logits, {.temperature = 1e-45F}, 1), 0);
  EXPECT_EQ(sample(logits, {.temperature = 1e-45F, .top_p = 0.5F, .min_p = 0.5F}, 1), 0);
}

TEST(Sampler, LogitsThatAreNotFiniteAreAnError) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> logits = {0, 1, 2, 3};
    logits[2] = bad;
    for (const float temperature : {0.0F, 1.0F}) {
      const auto token = Sampler({.temperature = temperature}, {}).sample(logits, 0);
      ASSERT_FALSE(token.has_value());
      EXPECT_EQ(token.error().code, ErrorCode::kCorrupt);
      EXPECT_THAT(token.error().message, testing::HasSubstr("token 2"));
    }
    EXPECT_FALSE(log_probabilities(logits, 0, 2).has_value());
  }
}

TEST(Sampler, DependsOnSeedAndPositionAlone) {
  const std::vector<float> logits = random_logits(1000, 3);
  const SamplingParams params{.top_p = 0.99F, .seed = 42};
  Sampler in_order(params, {});
  std::vector<int32_t> forward;
  for (uint64_t p = 0; p < 64; ++p) forward.push_back(*in_order.sample(logits, p));
  Sampler backwards(params, {});
  for (uint64_t p = 64; p-- > 0;) {
    EXPECT_EQ(*backwards.sample(logits, p), forward[p]);
    ASSERT_TRUE(backwards.sample(random_logits(1000, p), 7).has_value());
  }
  int same = 0;
  for (uint64_t p = 0; p < 64; ++p) {
    same += sample(logits, {.top_p = 0.99F, .seed = 43}, p) == forward[p] ? 1 : 0;
  }
  EXPECT_LT(same, 16);
}

// The ranked prefix grows in steps: the cut must be right wherever it falls.
TEST(Sampler, TopPOverALargeVocabularyMatchesTheDefinition) {
  for (const float top_p : {0.05F, 0.5F, 0.9F, 0.999F}) {
    const std::vector<float> logits = random_logits(5000, 11, 1.0);
    const SamplingParams params{.top_p = top_p, .seed = 5};
    const std::vector<double> probabilities = expected(logits, params, {});
    Sampler sampler(params, {});
    std::set<int32_t> seen;
    for (uint64_t p = 0; p < 600; ++p) seen.insert(*sampler.sample(logits, p));
    for (const int32_t token : seen) EXPECT_GT(probabilities[token], 0) << top_p << ' ' << token;
    EXPECT_GT(seen.size(), 20u);
  }
}

TEST(Sampler, ParametersOutOfRangeAreNamed) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const auto message = [](const SamplingParams& params) {
    const auto valid = validate(params);
    return valid ? std::string("valid") : valid.error().message;
  };
  EXPECT_EQ(message({}), "valid");
  EXPECT_EQ(message({.temperature = 2, .top_p = 1e-3F, .min_p = 1}), "valid");
  EXPECT_THAT(message({.temperature = 2.5F}), testing::HasSubstr("temperature is 2.5"));
  EXPECT_THAT(message({.temperature = -1}), testing::HasSubstr("temperature"));
  EXPECT_THAT(message({.temperature = kNan}), testing::HasSubstr("temperature"));
  EXPECT_THAT(message({.top_p = 0}), testing::HasSubstr("top_p is 0"));
  EXPECT_THAT(message({.top_p = kNan}), testing::HasSubstr("top_p"));
  EXPECT_THAT(message({.min_p = 1.5F}), testing::HasSubstr("min_p"));
}

TEST(LogProbabilities, AreThoseOfTheRawDistribution) {
  const std::vector<float> logits = random_logits(300, 5);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  const auto got = log_probabilities(logits, 17, 20);
  ASSERT_TRUE(got.has_value());
  EXPECT_NEAR(got->token, logits[17] - std::log(sum), 1e-5);
  EXPECT_EQ(got->rank, 1u + std::count_if(logits.begin(), logits.end(),
                                          [&](float logit) { return logit > logits[17]; }));
  ASSERT_EQ(got->top.size(), 20u);
  for (size_t i = 0; i < got->top.size(); ++i) {
    EXPECT_NEAR(got->top[i].logprob, logits[got->top[i].token] - std::log(sum), 1e-5);
    if (i > 0) {
      EXPECT_GE(got->top[i - 1].logprob, got->top[i].logprob);
    }
  }
  EXPECT_EQ(got->top[0].token, std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST(LogProbabilities, EdgesAndTies) {
  const auto ties = log_probabilities(std::vector<float>{1, 2, 2, 1}, 3, 9);
  ASSERT_TRUE(ties.has_value());
  ASSERT_EQ(ties->top.size(), 4u);
  EXPECT_EQ(ties->top[0].token, 1);
  EXPECT_EQ(ties->top[1].token, 2);
  EXPECT_EQ(ties->top[2].token, 0);
  EXPECT_EQ(ties->rank, 4u);
  EXPECT_EQ(log_probabilities(std::vector<float>{1, 2, 2, 1}, 2, 0)->rank, 2u);
  const auto single = log_probabilities(std::vector<float>{-7}, 0, 0);
  ASSERT_TRUE(single.has_value());
  EXPECT_FLOAT_EQ(single->token, 0);
  EXPECT_TRUE(single->top.empty());
  const auto huge = log_probabilities(std::vector<float>{3e38F, -3e38F}, 1, 1);
  ASSERT_TRUE(huge.has_value());
  EXPECT_FLOAT_EQ(huge->top[0].logprob, 0);
}

TEST(SamplerBias, IsAddedToTheLogit) {
  const auto logits = random_logits(50, 3);
  SamplingParams params;
  params.logit_bias = {{7, 1.5F}, {9, -100.0F}, {7, 0.5F}};
  auto changed = logits;
  changed[7] += 2.0F;
  changed[9] -= 100.0F;
  SamplingParams plain;
  for (uint64_t position = 0; position < 2000; ++position) {
    ASSERT_EQ(sample(logits, params, position), sample(changed, plain, position));
  }
  params.temperature = 0;
  params.logit_bias = {{11, 100.0F}};
  EXPECT_EQ(sample(logits, params, 0), 11);
  EXPECT_NE(sample(logits, params, 0, {11}), 11) << "masked is masked";
}

TEST(SamplerBias, IsCheckedByRangeAndToken) {
  SamplingParams params;
  params.logit_bias = {{1, 100.5F}};
  EXPECT_THAT(validate(params).error().describe(), testing::HasSubstr("logit_bias is 100.5"));
  params.logit_bias = {{1, std::numeric_limits<float>::quiet_NaN()}};
  EXPECT_FALSE(validate(params).has_value());
  for (const int32_t token : {-1, 5}) {
    params.logit_bias = {{token, 1.0F}};
    const auto drawn = Sampler(params, {}).sample(random_logits(5, 1), 0);
    ASSERT_FALSE(drawn.has_value());
    EXPECT_EQ(drawn.error().code, ErrorCode::kInvalidArgument);
  }
}

// Greedy over two near logits: each draw lowers what it took by the penalties, worked by hand.
TEST(SamplerPenalties, CountWhatWasDrawn) {
  const std::vector<float> logits = {1.0F, 0.5F, -5.0F};
  const auto drawn = [&](float presence, float frequency) {
    SamplingParams params;
    params.temperature = 0;
    params.presence_penalty = presence;
    params.frequency_penalty = frequency;
    Sampler sampler(params, {});
    std::vector<int32_t> tokens;
    for (uint64_t position = 0; position < 6; ++position) {
      tokens.push_back(*sampler.sample(logits, position));
    }
    return tokens;
  };
  EXPECT_EQ(drawn(0, 0), (std::vector<int32_t>{0, 0, 0, 0, 0, 0}));
  // 1, 0.5 -> 0.25, 0.5 -> 0.25, -0.25 -> and so it stays.
  EXPECT_EQ(drawn(0.75F, 0), (std::vector<int32_t>{0, 1, 0, 0, 0, 0}));
  // 1, 0.5 -> 0.7, 0.5 -> 0.4, 0.5 -> 0.4, 0.2 -> 0.1, 0.2 -> 0.1, -0.1
  EXPECT_EQ(drawn(0, 0.3F), (std::vector<int32_t>{0, 0, 1, 0, 1, 0}));
  EXPECT_EQ(drawn(-1, 0), (std::vector<int32_t>{0, 0, 0, 0, 0, 0}));
  SamplingParams wrong;
  wrong.presence_penalty = 2.5F;
  EXPECT_FALSE(validate(wrong).has_value());
  wrong.presence_penalty = 0;
  wrong.frequency_penalty = -2.5F;
  EXPECT_FALSE(validate(wrong).has_value());
}

// The logits after all that changes them, by the definitions and in their order.
std::vector<float> penalized(std::vector<float> logits, const SamplingParams& params,
                             const std::vector<int32_t>& prompt,
                             const std::vector<int32_t>& drawn) {
  for (const LogitBias& bias : params.logit_bias) logits[bias.token] += bias.bias;
  for (int32_t token = 0; token < static_cast<int32_t>(logits.size()); ++token) {
    const auto times = std::count(drawn.begin(), drawn.end(), token);
    float& logit = logits[token];
    if (times + std::count(prompt.begin(), prompt.end(), token) > 0) {
      logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    }
    if (times == 0) continue;
    logit -= params.presence_penalty + params.frequency_penalty * static_cast<float>(times);
  }
  return logits;
}

TEST(SamplerPenalties, RepetitionIsOfPromptAndAnswer) {
  const std::vector<int32_t> prompt = {3, 17, 3, 39};
  for (const float penalty : {1.3F, 0.7F, 100.0F}) {
    SamplingParams params;
    params.repetition_penalty = penalty;
    params.presence_penalty = 0.3F;
    params.frequency_penalty = -0.1F;
    params.logit_bias = {{3, 2.0F}, {20, -1.5F}};
    params.seed = 11;
    SamplingParams plain;
    plain.seed = 11;
    Sampler sampler(params, {});
    sampler.see(prompt);
    std::vector<int32_t> drawn;
    for (uint64_t position = 0; position < 300; ++position) {
      const auto logits = random_logits(40, position);
      const auto token = sampler.sample(logits, position);
      ASSERT_EQ(*token, sample(penalized(logits, params, prompt, drawn), plain, position))
          << penalty << " at " << position;
      drawn.push_back(*token);
    }
  }
}

TEST(SamplerPenalties, RepetitionDividesWhatIsLikelyAndMultipliesTheRest) {
  SamplingParams params;
  params.temperature = 0;
  params.repetition_penalty = 2;
  const auto greedy = [&](const std::vector<float>& logits, std::vector<int32_t> prompt) {
    Sampler sampler(params, {});
    sampler.see(prompt);
    return *sampler.sample(logits, 0);
  };
  EXPECT_EQ(greedy({1.0F, 0.6F}, {}), 0);
  EXPECT_EQ(greedy({1.0F, 0.6F}, {0}), 1) << "0.5 and 0.6";
  EXPECT_EQ(greedy({-1.0F, -1.5F}, {0}), 1) << "-2 and -1.5";
  EXPECT_EQ(greedy({1.0F, 0.6F}, {0, 5}), 1) << "tokens beyond the logits count for nothing";
  params.repetition_penalty = 1e-38F;  // nothing becomes infinite, or not a number
  EXPECT_EQ(greedy({900.0F, 1000.0F, 900.0F}, {0, 1}), 0);
  params.temperature = 1;
  EXPECT_LT(greedy({900.0F, 1000.0F, 900.0F}, {0, 1}), 2);
  for (const float wrong : {0.0F, -1.0F, 100.5F, std::numeric_limits<float>::quiet_NaN()}) {
    params.repetition_penalty = wrong;
    const auto valid = validate(params);
    ASSERT_FALSE(valid.has_value()) << wrong;
    EXPECT_THAT(valid.error().describe(), testing::HasSubstr("repetition_penalty"));
  }
}

TEST(SamplerPenalties, TheSameSeedDrawsTheSame) {
  SamplingParams params;
  params.presence_penalty = 0.4F;
  params.frequency_penalty = 0.2F;
  params.seed = 5;
  Sampler a(params, {});
  Sampler b(params, {});
  for (uint64_t position = 0; position < 300; ++position) {
    const auto logits = random_logits(40, position);
    ASSERT_EQ(*a.sample(logits, position), *b.sample(logits, position));
  }
}

}  // namespace
}  // namespace thimble::engine
