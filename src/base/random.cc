#include "base/random.h"

#include <cmath>
#include <numbers>
#include <random>

namespace thimble::base {

double SplitMix64::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

uint64_t entropy_u64() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

}  // namespace thimble::base
