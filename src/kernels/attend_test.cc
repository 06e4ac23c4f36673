// Aim: attend() is the attention of backbone spec 5.4 over any cached formats, in list order,
// whatever shares the call. Method: double evaluation within the declared bound; the exact order of
// arithmetic spelled out once for the scalar table; bits across tables, thread counts (both ways of
// cutting) and batch company; sinks, empty selections, ring wrap, single rows, NaN and extreme
// scores.
#include <gtest/gtest.h>

#include <memory>

#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::same_bits;

uint32_t row_bytes(RowFormat format, uint32_t dims) {
  switch (format) {
    case RowFormat::kFloat:
      return 4 * dims;
    case RowFormat::kWindowFp8:
      return dims + dims / 32;
    case RowFormat::kMainFp4:
      return dims / 2 + dims / 16;
  }
  return 0;
}

// A ring and pages with random rows, and queries over them.
struct Scene {
  uint32_t heads, dims, slots, rows_per_page = 3;
  RowFormat window_format, main_format;
  std::vector<std::byte> ring;
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::byte*> page_pointers;
  std::vector<float> q, sink;
  std::vector<std::vector<int32_t>> selected;
  std::vector<std::pair<uint64_t, uint64_t>> windows;

  Scene(uint64_t seed, uint32_t heads_in, uint32_t dims_in, RowFormat window, RowFormat main)
      : heads(heads_in), dims(dims_in), slots(21), window_format(window), main_format(main) {
    base::SplitMix64 random(seed);
    ring.resize(slots * row_bytes(window, dims));
    for (uint32_t i = 0; i < slots; ++i) {
      write_row(window, test::normal_floats(random, dims), &ring[i * row_bytes(window, dims)]);
    }
    for (int p = 0; p < 40; ++p) {
      pages.emplace_back(5 + rows_per_page * row_bytes(main, dims));
      for (uint32_t i = 0; i < rows_per_page; ++i) {
        write_row(main, test::normal_floats(random, dims),
                  &pages.back()[5 + i * row_bytes(main, dims)]);
      }
    }
    for (auto& page : pages) page_pointers.push_back(page.data());
    sink = test::normal_floats(random, heads);
    add_query(random, 0, 1, {});
    add_query(random, 0, 2, {0, -1, -1});
    add_query(random, 15, 36, {0, 1, 2, 5, 90, -1});  // wraps the ring
    add_query(random, 30, 33, {3});
    std::vector<int32_t> many;
    for (int32_t e = 0; e < 110; ++e) many.push_back(e);
    add_query(random, 7, 28, many);
  }

  void add_query(base::SplitMix64& random, uint64_t begin, uint64_t end,
                 std::vector<int32_t> entries) {
    const auto values = test::normal_floats(random, uint64_t{heads} * dims);
    q.insert(q.end(), values.begin(), values.end());
    windows.emplace_back(begin, end);
    selected.push_back(std::move(entries));
  }

  AttendShape shape() const {
    return {heads, dims, 1.0f / std::sqrt(static_cast<float>(dims)), sink.data()};
  }

  AttendJob job(size_t i, float* out) {
    AttendJob job;
    job.q = &q[i * heads * dims];
    job.out = out;
    job.window = {ring.data(), slots, row_bytes(window_format, dims), dims, window_format};
    job.window_begin = windows[i].first;
    job.window_end = windows[i].second;
    job.main = {page_pointers.data(),         5,    rows_per_page,
                row_bytes(main_format, dims), dims, main_format};
    job.selected = selected[i];
    return job;
  }

  std::vector<std::vector<float>> rows_of(size_t i) {
    const AttendJob job_i = job(i, nullptr);
    std::vector<std::vector<float>> rows;
    for (uint64_t p = job_i.window_begin; p < job_i.window_end; ++p) {
      rows.emplace_back(dims);
      read_row(window_format, job_i.window.row(p), rows.back());
    }
    for (int32_t e : selected[i]) {
      if (e < 0) break;
      rows.emplace_back(dims);
      read_row(main_format, job_i.main.row(static_cast<uint64_t>(e)), rows.back());
    }
    return rows;
  }

  std::vector<float> run(std::vector<size_t> queries, uint32_t threads) {
    Bench bench(threads);
    const uint64_t size = uint64_t{heads} * dims;
    std::vector<float> out(queries.size() * size, -7.0f);
    std::vector<AttendJob> jobs;
    for (size_t j = 0; j < queries.size(); ++j) jobs.push_back(job(queries[j], &out[j * size]));
    attend(jobs, shape(), bench);
    return out;
  }

  std::vector<float> run_all(uint32_t threads) { return run({0, 1, 2, 3, 4}, threads); }
};

// The way back is that of rope(), bit for bit, however the heads are shared out.
TEST(Attend, TurnsItsOutputBack) {
  for (const uint32_t heads : {1u, 5u, 16u}) {
    Scene scene(5, heads, 48, RowFormat::kFloat, RowFormat::kFloat);
    for (const uint32_t threads : {1u, 4u}) {
      std::vector<float> expected = scene.run({1}, threads);
      Bench bench(threads);
      base::SplitMix64 random(3);
      const std::vector<float> cos = test::normal_floats(random, 8);
      const std::vector<float> sin = test::normal_floats(random, 8);
      rope({expected.data(), 1, expected.size()}, heads, {cos.data(), 1, 8}, {sin.data(), 1, 8},
           Rotation::kBackward, bench);
      std::vector<float> out(expected.size());
      AttendJob job = scene.job(1, out.data());
      job.cos = cos.data();
      job.sin = sin.data();
      AttendShape shape = scene.shape();
      shape.pairs = 8;
      attend({&job, 1}, shape, bench);
      EXPECT_TRUE(test::same_bits(out, expected)) << heads << " " << threads;
    }
  }
}

// attend()'s definition: double arithmetic gives `exact`, the size of the terms `bound`.
void expect_close(Scene& scene, size_t i, const std::vector<float>& out, uint64_t at) {
  const auto rows = scene.rows_of(i);
  for (uint32_t h = 0; h < scene.heads; ++h) {
    const float* q = &scene.q[(i * scene.heads + h) * scene.dims];
    std::vector<double> a;
    double top = -1e30, size = 0;
    for (const auto& row : rows) {
      double dot = 0, magnitude = 0;
      for (uint32_t d = 0; d < scene.dims; ++d) {
        dot += double{q[d]} * row[d];
        magnitude += std::fabs(double{q[d]} * row[d]);
      }
      a.push_back(dot * scene.shape().scale);
      top = std::max(top, a.back());
      size = std::max(size, magnitude * scene.shape().scale);
    }
    double total = std::exp(scene.sink[h] - top);
    for (double v : a) total += std::exp(v - top);
    for (uint32_t d = 0; d < scene.dims; ++d) {
      double exact = 0, magnitude = 0;
      for (size_t r = 0; r < rows.size(); ++r) {
        exact += std::exp(a[r] - top) * rows[r][d] / total;
        magnitude += std::exp(a[r] - top) * std::fabs(rows[r][d]) / total;
      }
      const double relative =
          2 * (scene.dims / 16.0 + 8) * size + 2.0 * static_cast<double>(rows.size()) + 8;
      EXPECT_LE(std::fabs(out[at + h * scene.dims + d] - exact), relative * 0x1p-24 * magnitude)
          << "query " << i << " head " << h << " dim " << d;
    }
  }
}

const std::pair<RowFormat, RowFormat> kFormats[] = {{RowFormat::kFloat, RowFormat::kFloat},
                                                    {RowFormat::kWindowFp8, RowFormat::kMainFp4}};

TEST(Attend, EqualsDoubleWithinTheBound) {
  for (const auto& [window, main] : kFormats) {
    Scene scene(1, 5, 64, window, main);
    const std::vector<float> out = scene.run_all(1);
    for (size_t i = 0; i < 5; ++i) expect_close(scene, i, out, i * 5 * 64);
  }
}

// Sequence of operations as ops.h has it: lanes for the dots, list order for both sums.
TEST(Attend, ArithmeticOrder) {
  for (uint32_t dims : {32u, 40u}) {
    Scene scene(2, 3, dims, RowFormat::kFloat, RowFormat::kFloat);
    const ScopedTable scalar(*runnable().back());
    const std::vector<float> out = scene.run_all(1);
    for (size_t i = 0; i < 5; ++i) {
      const auto rows = scene.rows_of(i);
      for (uint32_t h = 0; h < 3; ++h) {
        std::vector<float> p;
        float top = -1e30f;
        for (const auto& row : rows) {
          p.push_back(test::lane_dot(&scene.q[(i * 3 + h) * dims], row.data(), dims) *
                      scene.shape().scale);
          top = std::max(top, p.back());
        }
        for (float& v : p) v -= top;
        float sink = scene.sink[h] - top;
        kernels().exp(p.data(), p.size(), p.data());
        kernels().exp(&sink, 1, &sink);
        float total = 0;
        for (float v : p) total += v;
        total += sink;
        for (uint32_t d = 0; d < dims; ++d) {
          float sum = 0;
          for (size_t r = 0; r < rows.size(); ++r) sum = std::fma(p[r], rows[r][d], sum);
          ASSERT_EQ(out[(i * 3 + h) * dims + d], sum / total);
        }
      }
    }
  }
}

TEST(Attend, SameBitsOnEveryTableForAllHeadCountsAndWidths) {
  for (uint32_t heads : {1, 2, 3, 4, 5, 7, 8, 64}) {
    for (uint32_t dims : {16, 17, 32, 64, 100, 160}) {
      for (const auto& [window, main] : kFormats) {
        if (window != RowFormat::kFloat && dims % 32 != 0) continue;
        Scene scene(heads * 1000 + dims, heads, dims, window, main);
        std::vector<float> expected;
        {
          const ScopedTable scalar(*runnable().back());
          expected = scene.run_all(1);
        }
        test::with_each_table(
            [&] { ASSERT_TRUE(same_bits(scene.run_all(1), expected)) << heads << " x " << dims; });
      }
    }
  }
}

TEST(Attend, CompanyAndThreadsDoNotMatter) {
  Scene scene(3, 9, 128, RowFormat::kWindowFp8, RowFormat::kMainFp4);
  const std::vector<float> all = scene.run_all(1);
  for (uint32_t threads : {2, 3, 4}) EXPECT_TRUE(same_bits(scene.run_all(threads), all));
  for (size_t i = 0; i < 5; ++i) {
    const std::vector<float> own(all.begin() + i * 9 * 128, all.begin() + (i + 1) * 9 * 128);
    for (uint32_t threads : {1, 4}) EXPECT_TRUE(same_bits(scene.run({i}, threads), own));
  }
  std::vector<size_t> crowd;
  for (int r = 0; r < 12; ++r) crowd.push_back(static_cast<size_t>(r % 5));
  const std::vector<float> many = scene.run(crowd, 3);
  EXPECT_TRUE(same_bits({many.begin(), many.begin() + 5 * 9 * 128}, all));
}

// The workspace hands out memory as it was left: NaN there must not leak through padded columns.
TEST(Attend, ScratchMayHoldAnything) {
  for (uint32_t dims : {17u, 40u}) {
    Scene scene(7, 3, dims, RowFormat::kFloat, RowFormat::kFloat);
    const std::vector<float> expected = scene.run({4}, 1);
    test::with_each_table([&] {
      Bench bench(1);
      {
        const Workspace::Mark mark(bench.workspace);
        std::ranges::fill(bench.workspace.take<float>(1 << 16), test::kNan);
      }
      std::vector<float> out(3 * dims);
      const AttendJob job = scene.job(4, out.data());
      attend({&job, 1}, scene.shape(), bench);
      EXPECT_TRUE(same_bits(out, expected)) << dims;
      EXPECT_FALSE(std::isnan(out[0]));
    });
  }
}

TEST(Attend, SinkExtremes) {
  Scene scene(4, 2, 32, RowFormat::kFloat, RowFormat::kFloat);
  scene.sink = {-test::kInf, 1000.0f};
  const std::vector<float> out = scene.run({0}, 1);
  // One row, no sink: the row itself. An overwhelming sink: nothing is left.
  const auto rows = scene.rows_of(0);
  for (uint32_t d = 0; d < 32; ++d) {
    EXPECT_FLOAT_EQ(out[d], rows[0][d]);
    EXPECT_EQ(out[32 + d], 0.0f);
  }
}

TEST(Attend, NoRowsAtAllGiveZero) {
  Scene scene(5, 2, 32, RowFormat::kFloat, RowFormat::kFloat);
  scene.windows[0] = {4, 4};
  test::with_each_table(
      [&] { EXPECT_TRUE(same_bits(scene.run({0}, 1), std::vector<float>(64, 0.0f))); });
}

TEST(Attend, HugeScoresStayFiniteAndNanStaysNan) {
  Scene scene(6, 2, 32, RowFormat::kFloat, RowFormat::kFloat);
  for (float& x : scene.q) x *= 1e15f;
  for (float x : scene.run({4}, 1)) EXPECT_TRUE(std::isfinite(x));
  scene.q[4 * 64] = test::kNan;
  test::with_each_table([&] {
    const std::vector<float> out = scene.run({4}, 1);
    for (uint32_t d = 0; d < 32; ++d) EXPECT_TRUE(std::isnan(out[d]));
    for (uint32_t d = 32; d < 64; ++d) EXPECT_TRUE(std::isfinite(out[d]));
  });
}

}  // namespace
}  // namespace thimble::kernels
