// Random numbers that replay from a seed.
//
// entropy_u64() alone does not replay: it is for names and seeds that nobody should guess.
// SplitMix64 is a plain sequential stream for tests and initial weights. counter_uniform() is a
// pure function of (seed, stream, counter): a sample does not depend on what else is running.
#pragma once

#include <cstdint>

namespace thimble::base {

// The SplitMix64 finaliser: a bijection of 64-bit words.
constexpr uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

__extension__ using Uint128 = unsigned __int128;

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}
  uint64_t next() { return mix64(state_ += 0x9E3779B97F4A7C15ULL); }
  // Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, bound); REQUIRES bound > 0. The bias is below bound / 2^64.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<Uint128>(next()) * bound) >> 64);
  }
  // Standard normal (Box-Muller, one of the pair).
  double normal();

 private:
  uint64_t state_;
};

// From the operating system.
uint64_t entropy_u64();

// Uniform in [0, 1), 53 bits, as a pure function of its arguments.
constexpr double counter_uniform(uint64_t seed, uint64_t stream, uint64_t counter) {
  const uint64_t a = mix64(seed + 0x9E3779B97F4A7C15ULL);
  const uint64_t b = mix64(a ^ mix64(stream + 0xD1B54A32D192ED03ULL));
  return static_cast<double>(mix64(b + counter * 0x9E3779B97F4A7C15ULL) >> 11) * 0x1.0p-53;
}

}  // namespace thimble::base
