// Engram: which rows of its tables belong to which lookup, from the configuration alone.
//
// A lookup is one (n-gram size, head) pair, n-gram sizes ascending, heads inside. It owns as many
// consecutive rows as its prime says. Source: engram-dspark-vision spec section 2.4.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/config.h"

namespace thimble::arch {

// Row counts of every lookup, [engram layers][lookups]. One set of used primes is shared by all
// layers and sizes; each size starts its search at vocab_size again. REQUIRES: a validated config,
// or at least its ranges.
std::vector<std::vector<uint64_t>> engram_primes(const EngramConfig& engram);

// First row of each lookup: exclusive prefix sums of one layer's primes. [lookups]
std::vector<uint64_t> engram_row_offsets(std::span<const uint64_t> primes);

// Rows that one layer's lookups address: the sum of its primes.
uint64_t engram_rows(std::span<const uint64_t> primes);

}  // namespace thimble::arch
