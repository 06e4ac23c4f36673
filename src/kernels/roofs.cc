#include "kernels/roofs.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/huge_memory.h"
#include "kernels/internal/fetch.h"
#include "kernels/table.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace thimble::kernels {
namespace {

constexpr int kSteps = 1 << 16;
constexpr int64_t kMeasuredUs = 200'000;
constexpr int kRunsMin = 3;
constexpr uint64_t kFillTasks = 64;

// Each runs kSteps times a loop over independent chains and returns something that depends on all
// of them; `ops` says how many operations that is.
struct Loop {
  float (*run)(float seed);
  double ops;
};

constexpr int kScalarChains = 8;

float burn_scalar(float seed) {
  std::array<float, kScalarChains> chain{};
  chain.fill(seed);
  for (int step = 0; step < kSteps; ++step) {
    for (float& c : chain) c = c * 0.5F + 0.5F;
  }
  float sum = 0;
  for (const float c : chain) sum += c;
  return sum;
}

constexpr Loop kScalarBurn = {burn_scalar, 2.0 * kSteps* kScalarChains};

#if defined(__x86_64__)
constexpr int kChains = 10;  // enough to cover the latency, few enough for the registers

[[gnu::target("avx2,fma"), gnu::noinline]] float burn_fma_avx2(float seed) {
  __m256 chain[kChains];
  for (__m256& c : chain) c = _mm256_set1_ps(seed);
  const __m256 half = _mm256_set1_ps(0.5F);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m256& c : chain) c = _mm256_fmadd_ps(c, half, half);
  }
  __m256 sum = _mm256_setzero_ps();
  for (const __m256& c : chain) sum = _mm256_add_ps(sum, c);
  return _mm256_cvtss_f32(sum);
}

// Something that depends on every chain.
[[gnu::target("avx2"), gnu::always_inline]] inline float joined(const __m256i (&chain)[kChains]) {
  __m256i sum = _mm256_setzero_si256();
  for (const __m256i& c : chain) sum = _mm256_add_epi32(sum, c);
  return static_cast<float>(_mm256_extract_epi32(sum, 0));
}

// Products of bytes, pairs of them to 16 bits, pairs of those to 32.
[[gnu::target("avx2"), gnu::noinline]] float burn_int8_avx2(float seed) {
  __m256i chain[kChains];
  for (__m256i& c : chain) c = _mm256_set1_epi32(static_cast<int>(seed));
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i byte = _mm256_set1_epi8(3);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m256i& c : chain) {
      c = _mm256_add_epi32(c, _mm256_madd_epi16(_mm256_maddubs_epi16(byte, c), ones));
    }
  }
  return joined(chain);
}

[[gnu::target("avx2"), gnu::noinline]] float burn_int8_sat_avx2(float seed) {
  __m256i chain[kChains];
  for (__m256i& c : chain) c = _mm256_set1_epi32(static_cast<int>(seed));
  const __m256i byte = _mm256_set1_epi8(3);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m256i& c : chain) c = _mm256_add_epi16(c, _mm256_maddubs_epi16(byte, c));
  }
  return joined(chain);
}

[[gnu::target("avx512f"), gnu::noinline]] float burn_fma_avx512(float seed) {
  __m512 chain[kChains];
  for (__m512& c : chain) c = _mm512_set1_ps(seed);
  const __m512 half = _mm512_set1_ps(0.5F);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m512& c : chain) c = _mm512_fmadd_ps(c, half, half);
  }
  __m512 sum = _mm512_setzero_ps();
  for (const __m512& c : chain) sum = _mm512_add_ps(sum, c);
  return _mm512_cvtss_f32(sum);
}

[[gnu::target("avx512f"), gnu::always_inline]] inline float joined(
    const __m512i (&chain)[kChains]) {
  __m512i sum = _mm512_setzero_si512();
  for (const __m512i& c : chain) sum = _mm512_add_epi32(sum, c);
  alignas(64) int32_t lanes[16];
  _mm512_store_si512(lanes, sum);
  return static_cast<float>(lanes[0]);
}

[[gnu::target("avx512f,avx512bw"), gnu::noinline]] float burn_int8_avx512(float seed) {
  __m512i chain[kChains];
  for (__m512i& c : chain) c = _mm512_set1_epi32(static_cast<int>(seed));
  const __m512i ones = _mm512_set1_epi16(1);
  const __m512i byte = _mm512_set1_epi8(3);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m512i& c : chain) {
      c = _mm512_add_epi32(c, _mm512_madd_epi16(_mm512_maddubs_epi16(byte, c), ones));
    }
  }
  return joined(chain);
}

[[gnu::target("avx512f,avx512bw"), gnu::noinline]] float burn_int8_sat_avx512(float seed) {
  __m512i chain[kChains];
  for (__m512i& c : chain) c = _mm512_set1_epi32(static_cast<int>(seed));
  const __m512i byte = _mm512_set1_epi8(3);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m512i& c : chain) c = _mm512_add_epi16(c, _mm512_maddubs_epi16(byte, c));
  }
  return joined(chain);
}

// Four products a lane in one instruction.
[[gnu::target("avx512f,avx512bw,avx512vnni"), gnu::noinline]] float burn_int8_vnni(float seed) {
  __m512i chain[kChains];
  for (__m512i& c : chain) c = _mm512_set1_epi32(static_cast<int>(seed));
  const __m512i byte = _mm512_set1_epi8(3);
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 16
    for (__m512i& c : chain) c = _mm512_dpbusd_epi32(c, byte, byte);
  }
  return joined(chain);
}

constexpr double kPerStep = 2.0 * kSteps * kChains;  // one multiply-add a chain and step
#endif

struct Loops {
  Loop fma = kScalarBurn;
  Loop int8 = kScalarBurn;
  Loop int8_sat = kScalarBurn;
};

Loops loops_of(std::string_view isa) {
  Loops loops;
#if defined(__x86_64__)
  if (isa != "scalar") {
    loops = {{burn_fma_avx2, 8 * kPerStep},
             {burn_int8_avx2, 32 * kPerStep},
             {burn_int8_sat_avx2, 32 * kPerStep}};
  }
  if (isa.starts_with("avx512")) {
    loops = {{burn_fma_avx512, 16 * kPerStep},
             {burn_int8_avx512, 64 * kPerStep},
             {burn_int8_sat_avx512, 64 * kPerStep}};
  }
  if (isa == "avx512vnni") loops.int8 = {burn_int8_vnni, 64 * kPerStep};
#endif
  return loops;
}

// Best time of one call, in microseconds.
template <class Body>
double best_us(Body body) {
  double best = 1e30;
  const int64_t begun = base::monotonic_us();
  for (int run = 0; run < kRunsMin || base::monotonic_us() - begun < kMeasuredUs; ++run) {
    const int64_t begin = base::monotonic_us();
    body();
    best = std::min(best, static_cast<double>(std::max<int64_t>(base::monotonic_us() - begin, 1)));
  }
  return best;
}

// 1e9 operations a second of all threads together.
double giga_ops(const Loop& burn, base::ThreadPool& pool) {
  std::vector<float> results(pool.size());
  const double us = best_us([&] {
    pool.parallel_for(pool.size(), [&](uint64_t i, uint32_t) { results[i] = burn.run(1); });
  });
  CHECK(results[0] == results[0]);
  return 1e-3 * burn.ops * pool.size() / us;
}

// The words of every piece, in chains of their own, so that the adding never waits for itself.
uint64_t sum_words(const std::byte* at, uint64_t bytes, const Reader& reader) {
  constexpr uint64_t kPiece = 128;
  std::array<uint64_t, kPiece / sizeof(uint64_t)> sums{};
  const uint64_t stream = bytes / reader.streams / kPiece * kPiece;
  for (uint64_t i = 0; i < stream; i += kPiece) {
    for (uint32_t k = 0; k < reader.streams; ++k) {
      const std::byte* const piece = at + k * stream + i;
      if (reader.ahead != 0) internal::fetch(piece + reader.ahead, kPiece);
      std::array<uint64_t, sums.size()> words;
      std::memcpy(words.data(), piece, kPiece);
      for (size_t lane = 0; lane < sums.size(); ++lane) sums[lane] += words[lane];
    }
  }
  return std::accumulate(sums.begin(), sums.end(), uint64_t{0});
}

}  // namespace

double read_gbps(base::ThreadPool& pool, Bytes bytes, const Reader& reader) {
  // Pieces so large that their beginnings do not count, and the same number for every thread.
  constexpr uint64_t kPiece = 1 << 20;
  const uint64_t rounds = std::max<uint64_t>(1, bytes.size() / kPiece / pool.size());
  std::vector<uint64_t> sums(rounds * pool.size());
  const uint64_t share = bytes.size() / sums.size();
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  pool.parallel_for(sums.size(), [&](uint64_t task, uint32_t) {
    sums[task] = sum_words(bytes.data() + task * share, share, reader);
  });
  const double us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  // The sums are used, so that the reading is not left out.
  static std::atomic<uint64_t> sink;
  for (const uint64_t sum : sums) sink.fetch_xor(sum, std::memory_order_relaxed);
  return 1e-3 * static_cast<double>(share * sums.size()) / std::max(us, 1e-3);
}

ReadRoof best_read(base::ThreadPool& pool, Bytes bytes) {
  constexpr Reader kReaders[] = {{1, 0}, {1, 2048}, {2, 2048}, {4, 1024}, {4, 2048}};
  ReadRoof best;
  const int64_t begun = base::monotonic_us();
  for (int run = 0; run < kRunsMin || base::monotonic_us() - begun < kMeasuredUs; ++run) {
    for (const Reader& reader : kReaders) {
      const double gbps = read_gbps(pool, bytes, reader);
      if (gbps > best.gbps) best = {gbps, reader};
    }
  }
  return best;
}

double mean_gops(base::ThreadPool& pool, Burn burn, int64_t at_least_us) {
  const Loops loops = loops_of(name(kernels()));
  const Loop& loop = burn == Burn::kFma ? loops.fma : loops.int8;
  std::vector<float> results(pool.size());
  const int64_t begin = base::monotonic_us();
  int64_t end = begin;
  int runs = 0;
  for (; end - begin < at_least_us; end = base::monotonic_us(), ++runs) {
    pool.parallel_for(pool.size(), [&](uint64_t i, uint32_t) { results[i] = loop.run(1); });
  }
  CHECK(results[0] == results[0]);
  return 1e-3 * loop.ops * pool.size() * runs / static_cast<double>(end - begin);
}

uint64_t uncached_bytes() {
  const int64_t cache = std::max<int64_t>(0, ::sysconf(_SC_LEVEL3_CACHE_SIZE));
  return std::clamp<uint64_t>(static_cast<uint64_t>(cache) / 4 * 5, 288ULL << 20, 1ULL << 30);
}

Result<Roofs> measure_roofs(base::ThreadPool& pool, uint64_t buffer_bytes) {
  const auto buffer = THIMBLE_TRY(base::HugeMemory::create(buffer_bytes, "a buffer"));
  pool.parallel_for(kFillTasks, [&](uint64_t task, uint32_t) {
    const uint64_t share = buffer.size() / kFillTasks;
    std::fill_n(buffer.data() + task * share, share, static_cast<std::byte>(task));
  });
  Roofs roofs;
  roofs.isa = name(kernels());
  roofs.threads = pool.size();
  const Loops loops = loops_of(roofs.isa);
  roofs.read_gbps = best_read(pool, buffer.bytes()).gbps;
  roofs.fma_gflops = giga_ops(loops.fma, pool);
  roofs.int8_gops = giga_ops(loops.int8, pool);
  roofs.int8_sat_gops = giga_ops(loops.int8_sat, pool);
  return roofs;
}

}  // namespace thimble::kernels
