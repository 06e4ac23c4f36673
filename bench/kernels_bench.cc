// Times linear layers, attention of one query and index scores, single precision throughout, on
// every instruction set. JSON lines on standard output, one a case: GFLOP/s, GB/s of weights or
// cached rows, and the share of this machine's measured roof (fused multiply-adds in registers or a
// plain read of memory, whichever binds). Each result is checked before it is timed.
//
//   kernels_bench [threads]
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"
#include "kernels/roofs.h"
#include "kernels/table.h"

namespace thimble {
namespace {

using kernels::Rows;
using kernels::WeightFormat;
using kernels::WeightView;

constexpr double kSecondsPerCase = 0.5;

// Best time of one call. On one thread processor time, which a busy machine disturbs least; on
// several the wall clock, and then the machine should have nothing else to do.
template <class Body>
double best_seconds(uint32_t threads, Body body) {
  const auto now = [threads] {
    if (threads > 1) return 1e-6 * static_cast<double>(base::monotonic_us());
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  };
  double best = 1e30;
  double total = 0;
  do {
    const double begin = now();
    body();
    const double seconds = now() - begin;
    best = std::min(best, seconds);
    total += seconds;
  } while (total < kSecondsPerCase);
  return best;
}

double row_bytes(WeightFormat format, uint32_t cols) {
  switch (format) {
    case WeightFormat::kF32:
      return 4.0 * cols;
    case WeightFormat::kBF16:
      return 2.0 * cols;
    case WeightFormat::kFp8Block32:
      return cols * (1 + 1.0 / 1024);
    case WeightFormat::kFp4Group32:
      return cols * (0.5 + 1.0 / 32);
  }
  return 0;
}

const char* format_name(WeightFormat format) {
  const char* names[] = {"f32", "bf16", "fp8", "fp4"};
  return names[static_cast<int>(format)];
}

std::vector<float> random_floats(uint64_t n) {
  base::SplitMix64 random(1);
  std::vector<float> out(n);
  for (float& x : out) x = static_cast<float>(random.uniform() - 0.5);
  return out;
}

struct Weights {
  std::vector<std::byte> codes;
  std::vector<std::byte> scales;
  WeightView view;
};

Weights make_weights(WeightFormat format, uint32_t rows, uint32_t cols) {
  Weights w;
  w.codes.resize(uint64_t{rows} * cols * 4);
  if (format == WeightFormat::kF32 || format == WeightFormat::kBF16) {
    // Cutting a float32 in two gives a BF16 and, as the low half, a harmless second one.
    const std::vector<float> values = random_floats(uint64_t{rows} * cols);
    std::memcpy(w.codes.data(), values.data(), w.codes.size());
    for (size_t i = 0; format == WeightFormat::kBF16 && i < w.codes.size(); i += 4) {
      w.codes[i] = w.codes[i + 2];
      w.codes[i + 1] = w.codes[i + 3];
    }
  } else {
    base::SplitMix64 random(1);
    for (std::byte& b : w.codes) b = static_cast<std::byte>(random.below(0x78));  // no NaN
  }
  w.scales.assign(uint64_t{rows} * cols / 32, std::byte{120});
  w.view = {format, w.codes.data(), w.scales.data(), rows, cols};
  return w;
}

struct Roofs {
  double gflops;
  double gbytes;
};

// One line of output. `shape` is a piece of JSON.
void report(const std::string& shape, double flops, double bytes, double seconds, Roofs roofs,
            kernels::Context context) {
  const double gflops = 1e-9 * flops / seconds;
  const double gbytes = 1e-9 * bytes / seconds;
  fmt::print("{{{},\"table\":\"{}\",\"threads\":{},\"us\":{:.1f},\"gflops\":{:.1f},", shape,
             kernels::name(kernels::kernels()), context.pool.size(), 1e6 * seconds, gflops);
  fmt::print("\"gbytes\":{:.2f},\"roof\":{:.2f}}}\n", gbytes,
             std::max(gflops / roofs.gflops, gbytes / roofs.gbytes));
  std::fflush(stdout);
}

// Result 0 of row 0 against plain double arithmetic.
void check_result(const WeightView& w, std::span<const float> x, float y) {
  std::vector<float> row(w.cols);
  kernels::decode_weight_row(w, 0, row);
  double exact = 0, size = 0;
  for (uint32_t k = 0; k < w.cols; ++k) {
    exact += double{x[k]} * row[k];
    size += std::fabs(double{x[k]} * row[k]);
  }
  CHECK(std::fabs(y - exact) <= (w.cols / 512 + 37) * 0x1p-24 * size);
}

void bench_linear(WeightFormat format, uint64_t n, Roofs roofs, kernels::Context context) {
  const uint32_t rows = 4096, cols = 5120;
  const Weights w = make_weights(format, rows, cols);
  // Activations lie in the workspace, as in a forward step.
  const kernels::Workspace::Mark mark(context.workspace);
  const std::span<float> x = context.workspace.take<float>(n * cols);
  const std::span<float> y = context.workspace.take<float>(n * rows);
  std::ranges::copy(random_floats(n * cols), x.begin());
  auto body = [&] { kernels::linear(w.view, {x.data(), n, cols}, {y.data(), n, rows}, context); };
  body();
  check_result(w.view, x, y[0]);
  report(fmt::format("\"case\":\"linear\",\"format\":\"{}\",\"n\":{},\"rows\":{},\"cols\":{}",
                     format_name(format), n, rows, cols),
         2.0 * static_cast<double>(n) * rows * cols, row_bytes(format, cols) * rows,
         best_seconds(context.pool.size(), body), roofs, context);
}

// Queries of the released sizes: 64 heads over 128 window rows and 512 selected of 4,096 entries.
void bench_attend(uint64_t n, Roofs roofs, kernels::Context context) {
  const uint32_t heads = 64, dims = 512, window = 128, topk = 512, entries = 4096;
  const std::vector<float> q = random_floats(n * heads * dims);
  const std::vector<float> sink(heads, 0.0f), row = random_floats(dims);
  std::vector<std::byte> ring(window * 528), page(entries * 288);
  for (uint32_t i = 0; i < window; ++i) {
    kernels::write_row(kernels::RowFormat::kWindowFp8, row, &ring[i * 528]);
  }
  for (uint32_t i = 0; i < entries; ++i) {
    kernels::write_row(kernels::RowFormat::kMainFp4, row, &page[i * 288]);
  }
  std::vector<int32_t> selected(topk);
  for (uint32_t i = 0; i < topk; ++i) selected[i] = static_cast<int32_t>(8 * i);
  std::byte* pages = page.data();
  std::vector<float> out(q.size());
  std::vector<kernels::AttendJob> jobs(n);
  for (uint64_t i = 0; i < n; ++i) {
    jobs[i].q = &q[i * heads * dims];
    jobs[i].out = &out[i * heads * dims];
    jobs[i].window = {ring.data(), window, 528, dims, kernels::RowFormat::kWindowFp8};
    jobs[i].window_end = window;
    jobs[i].main = {&pages, 0, entries, 288, dims, kernels::RowFormat::kMainFp4};
    jobs[i].selected = selected;
  }
  const kernels::AttendShape shape{heads, dims, 0.044194f, sink.data()};
  auto body = [&] { kernels::attend(jobs, shape, context); };
  body();
  // All rows hold about the same vector, so that the answer is about that vector.
  for (uint32_t d = 0; d < dims; ++d) CHECK(std::fabs(out[d] - row[d]) < 0.1f);
  report(fmt::format("\"case\":\"attend\",\"n\":{}", n),
         4.0 * static_cast<double>(n) * heads * dims * (window + topk),
         static_cast<double>(n) * (window * 528 + topk * 288),
         best_seconds(context.pool.size(), body), roofs, context);
}

// One query of 32 heads against 65,536 index keys, top 512.
void bench_index(Roofs roofs, kernels::Context context) {
  const uint32_t heads = 32, dims = 128, topk = 512, entries = 65536;
  std::vector<float> q = random_floats(heads * dims);
  kernels::round_mxfp4(q);
  const std::vector<float> weights(heads, 1.0f);
  std::vector<std::byte> page(entries * 68);
  std::byte* pages = page.data();
  const kernels::PagedTiles keys{&pages, 0, entries / 16, 1088, dims, kernels::TileFormat::kMxfp4};
  // One entry is the first query itself and must win.
  kernels::write_tile_entry(keys.format, {q.data(), dims}, keys.tile(1000), 7);
  std::vector<int32_t> selected(topk);
  const kernels::SelectJob job{q.data(), weights.data(),  keys,   entries, nullptr,
                               nullptr,  selected.data(), nullptr};
  auto body = [&] { kernels::index_select({&job, 1}, {heads, dims, topk, 0, 0}, context); };
  body();
  CHECK_EQ(std::count(selected.begin(), selected.end(), 16007), 1);
  report(fmt::format("\"case\":\"index\",\"entries\":{}", entries), 2.0 * entries * heads * dims,
         entries * 68.0, best_seconds(context.pool.size(), body), roofs, context);
}

int run(uint32_t threads) {
  base::ThreadPool pool(threads);
  kernels::Workspace workspace;
  const kernels::Context context{pool, workspace};
  for (const kernels::Table* table : kernels::runnable()) {
    if (std::string(kernels::name(*table)) == "scalar") continue;
    const kernels::ScopedTable scope(*table);
    const auto measured = kernels::measure_roofs(pool);
    CHECK(measured.has_value());
    const Roofs roofs{measured->fma_gflops, measured->read_gbps};
    fmt::print("{{\"case\":\"roof\",\"gflops\":{:.0f},\"gbytes\":{:.1f}}}\n", roofs.gflops,
               roofs.gbytes);
    for (WeightFormat format : {WeightFormat::kFp4Group32, WeightFormat::kFp8Block32,
                                WeightFormat::kBF16, WeightFormat::kF32}) {
      for (uint64_t n : {1, 4, 16, 512}) bench_linear(format, n, roofs, context);
    }
    for (uint64_t n : {1, 16}) bench_attend(n, roofs, context);
    bench_index(roofs, context);
  }
  return 0;
}

}  // namespace
}  // namespace thimble

int main(int argc, char** argv) {
  uint32_t threads = 0;  // one per CPU
  if (argc > 1) {
    const std::string_view text = argv[1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
    if (error != std::errc() || end != text.data() + text.size()) {
      fmt::print(stderr, "usage: kernels_bench [THREADS]\n");
      return 2;
    }
  }
  return thimble::run(threads);
}
