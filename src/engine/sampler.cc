#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/random.h"

namespace thimble::engine {
namespace {

constexpr uint64_t kSampleStream = 0x5A;  // keeps these draws apart from others of the same seed
constexpr size_t kFirstRanked = 256;      // top_p usually ends among the first few hundred tokens

Result<void> check_finite(std::span<const float> logits) {
  // Any NaN or infinity makes the sum of x - x a NaN; one branch for the usual case.
  float sum = 0;
  for (const float logit : logits) sum += logit - logit;
  if (sum == 0) return {};
  for (size_t token = 0; token < logits.size(); ++token) {
    if (std::isfinite(logits[token])) continue;
    return base::fail(ErrorCode::kCorrupt, "the logit of token {} is {}, not a finite number",
                      token, logits[token]);
  }
  return {};
}

template <class T>
Result<void> check_range(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return {};
  return base::fail(ErrorCode::kInvalidArgument, "{} is {}, expected {} to {}", name, value, low,
                    high);
}

}  // namespace

Result<void> validate(const SamplingParams& params) {
  THIMBLE_TRY(check_range("temperature", params.temperature, 0.0F, 2.0F));
  THIMBLE_TRY(check_range("min_p", params.min_p, 0.0F, 1.0F));
  THIMBLE_TRY(check_range("presence_penalty", params.presence_penalty, -2.0F, 2.0F));
  THIMBLE_TRY(check_range("frequency_penalty", params.frequency_penalty, -2.0F, 2.0F));
  if (!(params.repetition_penalty > 0.0F && params.repetition_penalty <= kRepetitionPenaltyMax)) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "repetition_penalty is {}, expected above 0 and at most {}",
                      params.repetition_penalty, kRepetitionPenaltyMax);
  }
  for (const LogitBias& bias : params.logit_bias) {
    THIMBLE_TRY(check_range("logit_bias", bias.bias, -100.0F, 100.0F));
  }
  if (!(params.top_p > 0.0F && params.top_p <= 1.0F)) {
    return base::fail(ErrorCode::kInvalidArgument, "top_p is {}, expected above 0 and at most 1",
                      params.top_p);
  }
  return {};
}

Sampler::Sampler(const SamplingParams& params, std::span<const int32_t> masked)
    : params_(params), masked_(masked.begin(), masked.end()) {
  CHECK(validate(params).has_value());
  std::sort(masked_.begin(), masked_.end());
}

bool Sampler::is_masked(int32_t token) const {
  return !is_allowed(static_cast<size_t>(token)) ||
         std::binary_search(masked_.begin(), masked_.end(), token);
}

Result<std::span<const float>> Sampler::adjusted(std::span<const float> logits) {
  if (params_.logit_bias.empty() && drawn_.empty() && seen_.empty()) return logits;
  adjusted_.assign(logits.begin(), logits.end());
  for (const LogitBias& bias : params_.logit_bias) {
    const auto at = static_cast<size_t>(bias.token);
    if (at >= logits.size()) {  // negative ones too
      return base::fail(ErrorCode::kInvalidArgument, "logit_bias is for token {}, expected 0 to {}",
                        bias.token, logits.size() - 1);
    }
    adjusted_[at] += bias.bias;
  }
  penalize_repetition();
  for (const auto& [token, times] : drawn_) {
    adjusted_[static_cast<size_t>(token)] -=
        params_.presence_penalty + params_.frequency_penalty * static_cast<float>(times);
  }
  return std::span<const float>(adjusted_);
}

void Sampler::see(std::span<const int32_t> prompt) {
  if (params_.repetition_penalty == 1.0F) return;
  for (const int32_t token : prompt) {
    const auto at = static_cast<size_t>(token);
    if (at >= seen_.size()) seen_.resize(at + 1);
    seen_[at] = true;
  }
}

// Stays finite, however small the divisor.
void Sampler::penalize_repetition() {
  constexpr float kMost = std::numeric_limits<float>::max();
  const float penalty = params_.repetition_penalty;
  for (size_t token = 0; token < std::min(seen_.size(), adjusted_.size()); ++token) {
    if (!seen_[token]) continue;
    const float logit = adjusted_[token];
    adjusted_[token] = std::clamp(logit > 0 ? logit / penalty : logit * penalty, -kMost, kMost);
  }
}

int32_t Sampler::count(int32_t token) {
  see({&token, 1});
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) ++drawn_[token];
  return token;
}

Result<int32_t> Sampler::sample(std::span<const float> raw, uint64_t position,
                                std::span<const uint64_t> allowed) {
  CHECK(!raw.empty());
  CHECK(allowed.empty() || allowed.size() * 64 >= raw.size());
  allowed_ = allowed;
  THIMBLE_TRY(check_finite(raw));
  const std::span<const float> logits = THIMBLE_TRY(adjusted(raw));
  const int32_t best = THIMBLE_TRY(most_likely(logits));
  if (params_.temperature == 0.0F || params_.top_k == 1) return count(best);
  weigh(logits, logits[static_cast<size_t>(best)]);
  keep_top_k();
  keep_top_p();
  keep_min_p();
  return count(draw(position));
}

Result<int32_t> Sampler::most_likely(std::span<const float> logits) const {
  int32_t best = -1;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (best >= 0 && logits[i] <= logits[static_cast<size_t>(best)]) continue;
    if (!is_masked(static_cast<int32_t>(i))) best = static_cast<int32_t>(i);
  }
  if (best < 0) {
    return base::fail(ErrorCode::kInternal, "all {} tokens are masked", logits.size());
  }
  return best;
}

// Candidates in id order with their weights; `largest` is the largest logit among them.
void Sampler::weigh(std::span<const float> logits, float largest) {
  candidates_.clear();
  ranked_ = 0;
  const double temperature = params_.temperature;
  auto masked = masked_.begin();
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    while (masked != masked_.end() && *masked < token) ++masked;
    if ((masked != masked_.end() && *masked == token) || !is_allowed(i)) continue;
    const double below = static_cast<double>(logits[i]) - static_cast<double>(largest);
    candidates_.push_back({token, std::exp(below / temperature)});
  }
}

// Makes the first min(count, all) candidates the most likely ones, most likely first.
void Sampler::rank(size_t count) {
  count = std::min(count, candidates_.size());
  if (count <= ranked_) return;
  const auto at = [&](size_t i) { return candidates_.begin() + static_cast<std::ptrdiff_t>(i); };
  const auto likelier = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.token < b.token;
  };
  if (count < candidates_.size()) {
    std::nth_element(at(ranked_), at(count), candidates_.end(), likelier);
  }
  std::sort(at(ranked_), at(count), likelier);
  ranked_ = count;
}

void Sampler::keep_top_k() {
  if (params_.top_k == 0 || params_.top_k >= candidates_.size()) return;
  rank(params_.top_k);
  candidates_.resize(params_.top_k);
}

void Sampler::keep_top_p() {
  if (params_.top_p >= 1.0F) return;
  const double total =
      std::accumulate(candidates_.begin(), candidates_.end(), 0.0,
                      [](double sum, const Candidate& c) { return sum + c.weight; });
  const double wanted = static_cast<double>(params_.top_p) * total;
  double sum = 0;
  for (size_t kept = 0; kept < candidates_.size();) {
    if (kept == ranked_) rank(std::max(kFirstRanked, 4 * ranked_));
    sum += candidates_[kept++].weight;
    if (sum >= wanted) candidates_.resize(kept);
  }
  ranked_ = std::min(ranked_, candidates_.size());
}

void Sampler::keep_min_p() {
  if (params_.min_p <= 0.0F) return;
  const double least = params_.min_p;  // the largest weight is 1
  std::erase_if(candidates_, [least](const Candidate& c) { return c.weight < least; });
}

// The candidate at which the running sum of weights passes a uniform share of their total.
int32_t Sampler::draw(uint64_t position) const {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double share = base::counter_uniform(params_.seed, kSampleStream, position) * total;
  double sum = 0;
  int32_t last = candidates_.front().token;  // where rounding ends up when no sum passes
  for (const Candidate& candidate : candidates_) {
    if (candidate.weight == 0) continue;
    sum += candidate.weight;
    last = candidate.token;
    if (sum > share) break;
  }
  return last;
}

Result<LogProbabilities> log_probabilities(std::span<const float> logits, int32_t token,
                                           uint32_t top) {
  CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  THIMBLE_TRY(check_finite(logits));
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  const double log_sum = largest + std::log(sum);
  const auto of = [&](int32_t id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - log_sum);
  };

  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)];
    const float y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  LogProbabilities result;
  result.token = of(token);
  const auto likelier = std::ranges::count_if(ids, [&](int32_t id) { return before(id, token); });
  result.rank = 1 + static_cast<uint64_t>(likelier);
  const auto count = static_cast<std::ptrdiff_t>(std::min<size_t>(top, ids.size()));
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(), before);
  for (std::ptrdiff_t i = 0; i < count; ++i) {
    const int32_t id = ids[static_cast<size_t>(i)];
    result.top.push_back({id, of(id)});
  }
  return result;
}

}  // namespace thimble::engine
