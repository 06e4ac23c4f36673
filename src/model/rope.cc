#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace thimble::model {
namespace {

// base^(-2i/d) for each pair, float32 after the power and after the reciprocal.
std::vector<float> plain_frequencies(double base, uint32_t rope_dims) {
  std::vector<float> frequencies(rope_dims / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rope_dims);
    const auto power = static_cast<float>(
        std::pow(static_cast<double>(static_cast<float>(base)), static_cast<double>(exponent)));
    frequencies[i] = 1.0F / power;
  }
  return frequencies;
}

// The pair index whose wavelength makes `turns` turns within the original context.
double corrected_pair(double turns, double base, uint32_t rope_dims, uint32_t original) {
  return rope_dims * std::log(original / (2 * std::numbers::pi * turns)) / (2 * std::log(base));
}

// Blends each frequency with its `factor`-th part along a ramp over the pairs.
void apply_yarn(const arch::YarnScaling& yarn, double base, uint32_t rope_dims,
                std::vector<float>& frequencies) {
  if (yarn.original_max_position_embeddings == 0) return;
  const uint32_t original = yarn.original_max_position_embeddings;
  const double low =
      std::max(std::floor(corrected_pair(yarn.beta_fast, base, rope_dims, original)), 0.0);
  const double high = std::min(std::ceil(corrected_pair(yarn.beta_slow, base, rope_dims, original)),
                               static_cast<double>(rope_dims - 1));
  const auto width = static_cast<float>(std::max(high - low, 0.001));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float ramp =
        std::clamp((static_cast<float>(i) - static_cast<float>(low)) / width, 0.0F, 1.0F);
    const float stretched = frequencies[i] / static_cast<float>(yarn.factor);
    const float kept = frequencies[i] * (1.0F - ramp);
    frequencies[i] = stretched * ramp + kept;
  }
}

}  // namespace

RopeFrequencies make_rope_frequencies(const arch::Config& config) {
  RopeFrequencies out;
  out.window = plain_frequencies(config.rope_theta, config.qk_rope_head_dim);
  if (!config.has_global_cache()) return out;
  out.compressed = plain_frequencies(config.compress_rope_theta, config.qk_rope_head_dim);
  apply_yarn(config.yarn, config.compress_rope_theta, config.qk_rope_head_dim, out.compressed);
  return out;
}

void rope_row(std::span<const float> frequencies, uint64_t position, std::span<float> cos,
              std::span<float> sin) {
  CHECK_EQ(cos.size(), frequencies.size());
  CHECK_EQ(sin.size(), frequencies.size());
  for (size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies[i];
    cos[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    sin[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

void unrounded_rope_row(const arch::Config& config, bool compressed_rope, uint64_t position,
                        std::span<double> cos, std::span<double> sin) {
  const uint32_t dims = config.qk_rope_head_dim;
  const double base = compressed_rope ? config.compress_rope_theta : config.rope_theta;
  const arch::YarnScaling& yarn = config.yarn;
  const uint32_t original = yarn.original_max_position_embeddings;
  for (size_t i = 0; i < cos.size(); ++i) {
    double f = std::pow(base, -2.0 * static_cast<double>(i) / dims);
    if (compressed_rope && original > 0) {
      const double low =
          std::max(std::floor(corrected_pair(yarn.beta_fast, base, dims, original)), 0.0);
      const double high = std::min(std::ceil(corrected_pair(yarn.beta_slow, base, dims, original)),
                                   static_cast<double>(dims - 1));
      const double ramp =
          std::clamp((static_cast<double>(i) - low) / std::max(high - low, 0.001), 0.0, 1.0);
      f = f / yarn.factor * ramp + f * (1 - ramp);
    }
    cos[i] = std::cos(static_cast<double>(position) * f);
    sin[i] = std::sin(static_cast<double>(position) * f);
  }
}

}  // namespace thimble::model
