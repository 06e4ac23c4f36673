#include "arch/engram_tables.h"

#include <bit>
#include <numeric>

#include "base/random.h"

namespace thimble::arch {
namespace {

uint64_t multiply_mod(uint64_t a, uint64_t b, uint64_t modulus) {
  return static_cast<uint64_t>(static_cast<base::Uint128>(a) * b % modulus);
}

uint64_t power_mod(uint64_t value, uint64_t exponent, uint64_t modulus) {
  uint64_t result = 1;
  for (; exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = multiply_mod(result, value, modulus);
    value = multiply_mod(value, value, modulus);
  }
  return result;
}

// Miller-Rabin; these twelve bases decide every 64-bit number.
bool is_prime(uint64_t n) {
  constexpr uint64_t kBases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (const uint64_t base : kBases) {
    if (n % base == 0) return n == base;
  }
  const int twos = std::countr_zero(n - 1);
  const uint64_t odd = (n - 1) >> twos;
  for (const uint64_t base : kBases) {
    uint64_t x = power_mod(base, odd, n);
    bool composite = x != 1 && x != n - 1;
    for (int i = 1; composite && i < twos; ++i) {
      x = multiply_mod(x, x, n);
      composite = x != n - 1;
    }
    if (composite) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<uint64_t>> engram_primes(const EngramConfig& engram) {
  std::vector<std::vector<uint64_t>> primes(engram.layer_ids.size());
  // Each n-gram size restarts its search at vocab_size but may not take a prime that any size of
  // any layer has; since the search takes the smallest each time, that is one ascending sequence.
  uint64_t tried = engram.vocab_size - 1;
  for (auto& layer : primes) {
    for (uint32_t lookup = 0; lookup < engram.lookups(); ++lookup) {
      do {
        ++tried;
      } while (!is_prime(tried));
      layer.push_back(tried);
    }
  }
  return primes;
}

std::vector<uint64_t> engram_row_offsets(std::span<const uint64_t> primes) {
  std::vector<uint64_t> offsets(primes.size());
  std::exclusive_scan(primes.begin(), primes.end(), offsets.begin(), uint64_t{0});
  return offsets;
}

uint64_t engram_rows(std::span<const uint64_t> primes) {
  return std::accumulate(primes.begin(), primes.end(), uint64_t{0});
}

}  // namespace thimble::arch
