// What the kernel tests share: random data with awkward values, weights in every format, comparison
// of bits, and a loop over tables.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"
#include "numeric/bf16.h"

namespace thimble::kernels::avx2_wide_tiles {

// Of the two-halves vector with the tiles of AVX-512, or null where no AVX2 runs.
const Table* table();

}  // namespace thimble::kernels::avx2_wide_tiles

namespace thimble::kernels::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A pool, a workspace and their context.
struct Bench {
  explicit Bench(uint32_t threads = 2) : pool(threads) {}
  base::ThreadPool pool;
  Workspace workspace;
  operator Context() { return {pool, workspace}; }  // NOLINT: tests read better
};

inline std::vector<float> normal_floats(base::SplitMix64& random, uint64_t n, double scale = 1.0) {
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random.normal() * scale);
  return out;
}

// Mostly ordinary numbers; one in eight is a zero of either sign, a denormal, huge or tiny.
inline std::vector<float> awkward_floats(base::SplitMix64& random, uint64_t n) {
  const float odd[] = {0.0f, -0.0f, 1e-42f, -0x1p-149f, 0x1p-126f, 3e18f, -2e-19f, 1.0f};
  std::vector<float> out = normal_floats(random, n);
  for (float& x : out) {
    if (random.below(8) == 0) x = odd[random.below(8)];
  }
  return out;
}

inline std::vector<std::byte> random_bytes(base::SplitMix64& random, uint64_t n) {
  std::vector<std::byte> out(n);
  for (std::byte& b : out) b = static_cast<std::byte>(random.next() >> 56);
  return out;
}

inline std::vector<std::byte> bf16_bytes(const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() * 2);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = numeric::float_to_bf16(values[i]);
    std::memcpy(&out[2 * i], &bits, 2);
  }
  return out;
}

// A weight matrix with its bytes, which begin at an odd address.
struct Weight {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  WeightView view;
};

inline constexpr WeightFormat kWeightFormats[] = {
    WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block32, WeightFormat::kFp4Group32};

inline bool is_scaled(WeightFormat format) {
  return format == WeightFormat::kFp8Block32 || format == WeightFormat::kFp4Group32;
}

// Codes of every kind; E4M3 without NaN. Scale bytes in [low, high].
inline Weight make_weight(base::SplitMix64& random, WeightFormat format, uint32_t rows,
                          uint32_t cols, uint32_t low = 120, uint32_t high = 124) {
  Weight w;
  const uint64_t n = uint64_t{rows} * cols;
  std::vector<std::byte> bytes;
  if (format == WeightFormat::kF32) {
    const std::vector<float> values = awkward_floats(random, n);
    bytes.resize(4 * n);
    if (n > 0) std::memcpy(bytes.data(), values.data(), 4 * n);
  } else if (format == WeightFormat::kBF16) {
    bytes = bf16_bytes(awkward_floats(random, n));
  } else {
    bytes = random_bytes(random, format == WeightFormat::kFp8Block32 ? n : n / 2);
    const uint64_t scale_rows = format == WeightFormat::kFp8Block32 ? (rows + 31) / 32 : rows;
    w.scales.resize(scale_rows * (cols / 32));
    for (std::byte& s : w.scales) s = static_cast<std::byte>(low + random.below(high - low + 1));
  }
  if (format == WeightFormat::kFp8Block32) {
    for (std::byte& b : bytes) {
      if ((b & std::byte{0x7F}) == std::byte{0x7F}) b ^= std::byte{1};
    }
  }
  w.codes.assign(1, std::byte{0});
  w.codes.insert(w.codes.end(), bytes.begin(), bytes.end());
  w.view = {format, w.codes.data() + 1, w.scales.empty() ? nullptr : w.scales.data(), rows, cols};
  return w;
}

// Whether two results are the same bits; any NaN equals any NaN.
inline bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

inline testing::AssertionResult same_bits(const std::vector<float>& a,
                                          const std::vector<float>& b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << "sizes differ";
  for (size_t i = 0; i < a.size(); ++i) {
    if (!same_bits(a[i], b[i])) {
      return testing::AssertionFailure() << "element " << i << ": " << a[i] << " and " << b[i];
    }
  }
  return testing::AssertionSuccess();
}

// The tree that closes 16 lanes.
inline float close_lanes(const float* lane) {
  const float even =
      ((lane[0] + lane[8]) + (lane[4] + lane[12])) + ((lane[2] + lane[10]) + (lane[6] + lane[14]));
  const float odd =
      ((lane[1] + lane[9]) + (lane[5] + lane[13])) + ((lane[3] + lane[11]) + (lane[7] + lane[15]));
  return even + odd;
}

// The sum of the canonical order: 16 lanes over the elements, then the tree.
inline float lane_dot(const float* a, const float* b, uint64_t n) {
  float lane[16] = {};
  for (uint64_t i = 0; i < n; ++i) lane[i % 16] = std::fma(a[i], b[i], lane[i % 16]);
  return close_lanes(lane);
}

// The same in blocks of 512 elements, whose lanes join those of the blocks before.
inline float block_dot(const float* a, const float* b, uint64_t n) {
  float total[16] = {};
  for (uint64_t begin = 0; begin < n; begin += 512) {
    float lane[16] = {};
    for (uint64_t i = begin; i < std::min<uint64_t>(n, begin + 512); ++i) {
      lane[i % 16] = std::fma(a[i], b[i], lane[i % 16]);
    }
    for (int j = 0; j < 16; ++j) total[j] = begin == 0 ? lane[j] : total[j] + lane[j];
  }
  return close_lanes(total);
}

// Every table this CPU can run, and that one; the last one is scalar.
inline std::vector<const Table*> tables() {
  std::vector<const Table*> out(runnable().begin(), runnable().end());
  if (avx2_wide_tiles::table() != nullptr) out.insert(out.begin(), avx2_wide_tiles::table());
  return out;
}

// Runs body() under each.
template <class Body>
void with_each_table(Body body) {
  for (const Table* table : tables()) {
    const ScopedTable scope(*table);
    SCOPED_TRACE(table == avx2_wide_tiles::table() ? "avx2 with wide tiles" : name(*table));
    body();
  }
}

}  // namespace thimble::kernels::test
