// Aim: the indexer scores and selects as backbone spec 6.3 to 6.5 says, ties to the lower index,
// and the same on every instruction set, thread count and batch. Method: selection against a full
// stable sort on scores full of ties; scores against double and against bits of the spelled-out
// order; candidate rules on hand-made rows; a batch past one score buffer.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

using test::Bench;
using test::kInf;
using test::kNan;
using test::same_bits;

// The rule in slow words: sort by score descending, NaN last, index ascending.
std::vector<int32_t> sorted_topk(const std::vector<float>& scores,
                                 const std::vector<uint8_t>* allowed, uint32_t block,
                                 uint32_t topk) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (allowed == nullptr || (*allowed)[i / block] != 0) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b])) {
      return !std::isnan(scores[a]) && std::isnan(scores[b]);
    }
    return scores[a] > scores[b];
  });
  order.resize(std::min<size_t>(order.size(), topk));
  std::sort(order.begin(), order.end());
  order.resize(topk, -1);
  return order;
}

std::vector<float> tied_scores(base::SplitMix64& random, size_t n) {
  const float odd[] = {0.0f, -0.0f, kInf, -kInf, kNan, 1e-45f, -1e-45f};
  std::vector<float> scores(n);
  for (float& s : scores) {
    s = static_cast<float>(random.below(9)) * 0.25f - 1.0f;
    if (random.below(10) == 0) s = static_cast<float>(random.normal());
    if (random.below(12) == 0) s = odd[random.below(7)];
  }
  return scores;
}

std::vector<uint32_t> maxima_of(const std::vector<float>& scores, uint32_t size) {
  std::vector<uint32_t> maxima((scores.size() + size - 1) / size);
  score_maxima(scores, size, maxima.data());
  return maxima;
}

TEST(SelectTopk, EqualsASort) {
  base::SplitMix64 random(1);
  for (size_t n : {0, 1, 2, 3, 7, 8, 9, 100, 1000}) {
    for (uint32_t topk : {1, 2, 8, 64, 512}) {
      const std::vector<float> scores = tied_scores(random, n);
      std::vector<int32_t> selected(topk);
      for (uint32_t run : {1, 3, 64}) {
        select_topk(scores, maxima_of(scores, run), run, topk, selected.data());
        EXPECT_EQ(selected, sorted_topk(scores, nullptr, 1, topk)) << n << " " << topk;
      }
      std::vector<uint8_t> allowed((n + 7) / 8);
      for (uint8_t& a : allowed) a = random.below(2) == 0;
      select_allowed(scores, allowed.data(), 8, topk, selected.data());
      EXPECT_EQ(selected, sorted_topk(scores, &allowed, 8, topk)) << n << " " << topk;
    }
  }
}

// F13: every score exactly zero, of either sign. The lowest entries win.
TEST(SelectTopk, AllTied) {
  std::vector<float> scores(600, 0.0f);
  for (size_t i = 0; i < 600; i += 3) scores[i] = -0.0f;
  std::vector<int32_t> selected(512), expected(512);
  std::iota(expected.begin(), expected.end(), 0);
  for (uint32_t run : {1, 64}) {
    select_topk(scores, maxima_of(scores, run), run, 512, selected.data());
    EXPECT_EQ(selected, expected);
  }
}

std::vector<uint8_t> blocks_of(const std::vector<float>& scores, uint32_t size, uint32_t keep) {
  std::vector<uint8_t> blocks((scores.size() + size - 1) / size, 9);
  select_blocks(maxima_of(scores, size), keep, blocks.data());
  return blocks;
}

TEST(SelectBlocks, NewestAlwaysTakesASlot) {
  // Three blocks of two and the newest with one entry, the worst score of all.
  const std::vector<float> scores = {5, 0, 4, 0, 6, 0, -9};
  EXPECT_EQ(blocks_of(scores, 2, 1), (std::vector<uint8_t>{0, 0, 0, 1}));
  EXPECT_EQ(blocks_of(scores, 2, 2), (std::vector<uint8_t>{0, 0, 1, 1}));
  EXPECT_EQ(blocks_of(scores, 2, 3), (std::vector<uint8_t>{1, 0, 1, 1}));
  EXPECT_EQ(blocks_of(scores, 2, 9), (std::vector<uint8_t>{1, 1, 1, 1}));
  // Spec 10.4: 17 entries in blocks of 8 force block 2.
  EXPECT_EQ(blocks_of(std::vector<float>(17, 1.0f), 8, 1), (std::vector<uint8_t>{0, 0, 1}));
}

TEST(SelectBlocks, TiesAndMinusInfinity) {
  EXPECT_EQ(blocks_of({1, 1, 1, 1, 1}, 1, 3), (std::vector<uint8_t>{1, 1, 0, 0, 1}));
  EXPECT_EQ(blocks_of({0.0f, -0.0f, 0.0f, -1}, 1, 2), (std::vector<uint8_t>{1, 0, 0, 1}));
  // Blocks without a finite score are dropped even when slots are left; the newest is not.
  EXPECT_EQ(blocks_of({-kInf, 2, kNan, -kInf}, 1, 4), (std::vector<uint8_t>{0, 1, 0, 1}));
  EXPECT_TRUE(blocks_of({}, 4, 4).empty());
}

// --- index_select over tiles.

struct Keys {
  TileFormat format;
  uint32_t dims;
  uint64_t entries;
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::byte*> pointers;
  PagedTiles view;

  Keys(base::SplitMix64& random, TileFormat format_in, uint32_t dims_in, uint64_t n)
      : format(format_in), dims(dims_in), entries(n) {
    const uint32_t tiles_per_page = 3;
    const uint32_t tile_bytes =
        format == TileFormat::kFloat ? dims * 64 : dims * 8 + dims / 32 * 16;
    const uint64_t tiles = (n + 15) / 16;
    for (uint64_t p = 0; p * tiles_per_page < tiles; ++p) {
      // Entries never written hold anything, NaN included.
      pages.push_back(test::random_bytes(random, 3 + tiles_per_page * tile_bytes));
    }
    for (auto& page : pages) pointers.push_back(page.data());
    view = {pointers.data(), 3, tiles_per_page, tile_bytes, dims, format};
    for (uint64_t e = 0; e < n; ++e) {
      write_tile_entry(format, test::normal_floats(random, dims), view.tile(e / 16), e % 16);
    }
  }

  std::vector<float> row(uint64_t e) const {
    std::vector<float> out(dims);
    read_tile_entry(format, view.tile(e / 16), e % 16, out);
    return out;
  }
};

using Floats = std::span<const float>;

// Groups of 32 dimensions, then groups in order, then heads in order. add_group(dot, q, key): dot
// with a group's products.
template <class AddGroup>
float score_by(Floats q, Floats weights, Floats key, AddGroup&& add_group) {
  float score = 0;
  for (size_t h = 0; h < weights.size(); ++h) {
    const Floats head = q.subspan(h * key.size(), key.size());
    float dot = 0;
    for (size_t begin = 0; begin < key.size(); begin += 32) {
      const size_t n = std::min<size_t>(32, key.size() - begin);
      dot = add_group(dot, head.subspan(begin, n), key.subspan(begin, n));
    }
    score = std::fma(weights[h], dot < 0 ? 0.0f : dot, score);
  }
  return score;
}

float ordered_score(Floats q, Floats weights, Floats key) {
  return score_by(q, weights, key, [](float dot, Floats a, Floats b) {
    float part = 0;
    for (size_t d = 0; d < a.size(); ++d) part = std::fma(a[d], b[d], part);
    return dot + part;
  });
}

// Where all operands are MXFP4: a group's dot is exact, whatever its size; what it is added to is
// rounded.
float exact_score(Floats q, Floats weights, Floats key) {
  return score_by(q, weights, key, [](float dot, Floats a, Floats b) {
    double part = 0;
    for (size_t d = 0; d < a.size(); ++d) part += double{a[d]} * b[d];
    int exponent = 0;
    const auto fraction = static_cast<float>(std::frexp(part, &exponent));
    // As two floats, because the power of two may be none.
    return std::fma(std::ldexp(fraction, exponent / 2), std::ldexp(1.0f, exponent - exponent / 2),
                    dot);
  });
}

// The same in double, with the sum of magnitudes that the error bound of ops.h refers to.
void expect_score_close(float score, const std::vector<float>& q, const std::vector<float>& weights,
                        const std::vector<float>& key, bool mxfp4) {
  const size_t dims = key.size(), heads = weights.size();
  double exact = 0, size = 0;
  for (size_t h = 0; h < heads; ++h) {
    double dot = 0, magnitude = 0;
    for (size_t d = 0; d < dims; ++d) {
      dot += double{q[h * dims + d]} * key[d];
      magnitude += std::fabs(double{q[h * dims + d]} * key[d]);
    }
    exact += weights[h] * std::max(0.0, dot);
    size += std::fabs(weights[h]) * magnitude;
  }
  const double units = static_cast<double>(dims / 32 + heads + (mxfp4 ? 2 : 34));
  EXPECT_LE(std::fabs(score - exact), units * 0x1p-24 * size);
}

TEST(IndexSelect, ScoresAreExactInBitsAndClose) {
  base::SplitMix64 random(2);
  for (uint32_t heads : {1, 3, 8, 12, 32, 33, 70}) {
    for (uint32_t dims : {32, 48, 128}) {
      for (TileFormat format : {TileFormat::kFloat, TileFormat::kMxfp4}) {
        if (format == TileFormat::kMxfp4 && dims % 32 != 0) continue;
        const Keys keys(random, format, dims, 53);
        std::vector<float> q = test::normal_floats(random, heads * dims);
        if (format == TileFormat::kMxfp4) round_mxfp4(q);
        const std::vector<float> weights = test::normal_floats(random, heads);
        test::with_each_table([&] {
          Bench bench;
          std::vector<float> scores(53);
          std::vector<int32_t> selected(8);
          const SelectJob job{q.data(), weights.data(), keys.view,       53,
                              nullptr,  nullptr,        selected.data(), scores.data()};
          index_select({&job, 1}, {heads, dims, 8, 0, 0}, bench);
          for (uint64_t e = 0; e < 53; ++e) {
            ASSERT_TRUE(same_bits(scores[e], ordered_score(q, weights, keys.row(e))));
            expect_score_close(scores[e], q, weights, keys.row(e), format == TileFormat::kMxfp4);
          }
          EXPECT_EQ(selected, sorted_topk(scores, nullptr, 1, 8));
        });
      }
    }
  }
}

// F12: half of the heads have a negative dot product; each is rectified before its weight.
TEST(IndexSelect, RectifiesEachHeadBeforeTheWeight) {
  std::vector<std::byte> page(32 * 64);
  std::byte* pointer = page.data();
  const PagedTiles keys{&pointer, 0, 1, 32 * 64, 32, TileFormat::kFloat};
  std::vector<float> key(32, 0.0f);
  key[0] = 1.0f;
  write_tile_entry(TileFormat::kFloat, key, keys.tile(0), 0);
  std::vector<float> q(4 * 32, 0.0f);
  const float dots[] = {2, -3, 5, -7};
  for (int h = 0; h < 4; ++h) q[h * 32] = dots[h];
  const std::vector<float> weights = {1, 10, -1, -10};
  float score = 0;
  int32_t selected = 7;
  const SelectJob job{q.data(), weights.data(), keys, 1, nullptr, nullptr, &selected, &score};
  Bench bench;
  index_select({&job, 1}, {4, 32, 1, 0, 0}, bench);
  EXPECT_EQ(score, 2.0f * 1 + 5.0f * -1);
  EXPECT_EQ(selected, 0);
}

struct Picked {
  std::vector<std::vector<int32_t>> selected;
  std::vector<std::vector<uint8_t>> blocks;
  bool operator==(const Picked&) const = default;
};

// A candidate source and a restricted layer, several queries with different reach.
Picked pick(const Keys& keys, const std::vector<float>& q, const std::vector<float>& weights,
            const std::vector<uint64_t>& visible, uint32_t threads) {
  const SelectShape shape{4, keys.dims, 16, 4, 6};
  const size_t n = visible.size();
  Picked out;
  out.selected.assign(2 * n, std::vector<int32_t>(shape.topk, -5));
  for (uint64_t v : visible) out.blocks.emplace_back((v + 3) / 4 + 1, 9);
  std::vector<SelectJob> jobs;
  for (size_t i = 0; i < n; ++i) {
    jobs.push_back({&q[i * 4 * keys.dims], &weights[i * 4], keys.view, visible[i], nullptr,
                    out.blocks[i].data(), out.selected[i].data(), nullptr});
  }
  Bench source(threads);
  index_select(jobs, shape, source);
  for (size_t i = 0; i < n; ++i) {
    jobs[i].allowed_blocks = out.blocks[i].data();
    jobs[i].candidate_blocks = nullptr;
    jobs[i].selected = out.selected[n + i].data();
  }
  // Not the same workspace, where the scores of the source still lie.
  Bench later(threads);
  index_select(jobs, shape, later);
  return out;
}

TEST(IndexSelect, CandidatesThreadsAndTables) {
  base::SplitMix64 random(3);
  const Keys keys(random, TileFormat::kMxfp4, 64, 700);
  const std::vector<uint64_t> visible = {0, 1, 5, 16, 17, 24, 25, 300, 699, 700};
  std::vector<float> q = test::normal_floats(random, visible.size() * 4 * 64);
  round_mxfp4(q);
  const std::vector<float> weights = test::normal_floats(random, visible.size() * 4);
  const Picked expected = pick(keys, q, weights, visible, 1);
  for (size_t i = 0; i < visible.size(); ++i) {
    std::vector<float> scores;
    for (uint64_t e = 0; e < visible[i]; ++e) {
      scores.push_back(ordered_score({&q[i * 256], &q[i * 256] + 256},
                                     {&weights[i * 4], &weights[i * 4] + 4}, keys.row(e)));
    }
    const std::vector<uint8_t>& blocks = expected.blocks[i];
    EXPECT_EQ(blocks.back(), 9) << "wrote past the blocks of the visible entries";
    EXPECT_EQ(std::vector<uint8_t>(blocks.begin(), blocks.end() - 1), blocks_of(scores, 4, 6));
    // The source's own selection is not restricted; the later layer's is.
    EXPECT_EQ(expected.selected[i], sorted_topk(scores, nullptr, 4, 16));
    EXPECT_EQ(expected.selected[visible.size() + i], sorted_topk(scores, &blocks, 4, 16));
  }
  for (uint32_t threads : {2, 4}) EXPECT_EQ(pick(keys, q, weights, visible, threads), expected);
  test::with_each_table([&] { EXPECT_EQ(pick(keys, q, weights, visible, 1), expected); });
}

// Tiles without an allowed block are skipped, but not those that one touches or covers.
TEST(IndexSelect, TilesOfTheAllowedBlocksAreScored) {
  base::SplitMix64 random(4);
  const Keys keys(random, TileFormat::kFloat, 32, 200);
  const std::vector<float> q = test::normal_floats(random, 32);
  const std::vector<float> weight = {1.0f};
  for (uint32_t size : {1, 4, 7, 16, 40}) {
    const uint64_t blocks = (200 + size - 1) / size;
    for (uint64_t only = 0; only < blocks; ++only) {
      std::vector<uint8_t> allowed(blocks, 0);
      allowed[only] = 1;
      std::vector<float> scores;
      for (uint64_t e = 0; e < 200; ++e) scores.push_back(ordered_score(q, weight, keys.row(e)));
      std::vector<int32_t> selected(3);
      Bench bench(1);
      // Memory that was never scored holds large numbers.
      {
        const Workspace::Mark mark(bench.workspace);
        std::ranges::fill(bench.workspace.take<float>(1 << 12), 1e9f);
      }
      const SelectJob job{q.data(),       weight.data(), keys.view,       200,
                          allowed.data(), nullptr,       selected.data(), nullptr};
      index_select({&job, 1}, {1, 32, 3, size, 1}, bench);
      EXPECT_EQ(selected, sorted_topk(scores, &allowed, size, 3)) << size << " " << only;
    }
  }
}

// Queries that are no MXFP4 values, in all heads or only in later ones, keep every bit over keys
// that are.
TEST(IndexSelect, UnroundedQueriesAreNotCutToCodes) {
  base::SplitMix64 random(6);
  const Keys keys(random, TileFormat::kMxfp4, 64, 40);
  for (const size_t rounded : {size_t{0}, size_t{32}, size_t{64}, size_t{2 * 64}}) {
    std::vector<float> q = test::normal_floats(random, 3 * 64);
    round_mxfp4(std::span(q).first(rounded));
    const std::vector<float> weights = {1.0f, -0.5f, 2.0f};
    test::with_each_table([&] {
      Bench bench;
      std::vector<float> scores(40);
      std::vector<int32_t> selected(4);
      const SelectJob job{q.data(), weights.data(), keys.view,       40,
                          nullptr,  nullptr,        selected.data(), scores.data()};
      index_select({&job, 1}, {3, 64, 4, 0, 0}, bench);
      for (uint64_t e = 0; e < 40; ++e) {
        ASSERT_TRUE(same_bits(scores[e], ordered_score(q, weights, keys.row(e)))) << rounded;
      }
    });
  }
}

// Multiplies each group of 32 by a power of two of its own, from 2^low on, `spread` of them.
void spread_groups(base::SplitMix64& random, std::span<float> values, int low, uint64_t spread) {
  for (size_t g = 0; g < values.size(); g += 32) {
    const int exponent = low + static_cast<int>(random.below(spread));
    for (float& value : values.subspan(g, 32)) value = std::ldexp(value, exponent);
  }
}

void overwrite(const Keys& keys, uint64_t entry, const std::vector<float>& values) {
  write_tile_entry(keys.format, values, keys.view.tile(entry / 16), entry % 16);
}

// Raw scores on every table against the spelled-out order, of all entries and of each beginning.
void expect_scores(const Keys& keys, const std::vector<float>& q,
                   const std::vector<float>& weights) {
  std::vector<float> expected;
  for (uint64_t e = 0; e < keys.entries; ++e) {
    expected.push_back(exact_score(q, weights, keys.row(e)));
  }
  const auto heads = static_cast<uint32_t>(weights.size());
  test::with_each_table([&] {
    for (uint64_t visible = 1; visible <= keys.entries; visible += 15) {
      Bench bench(2);
      std::vector<float> scores(visible + 1, 7.0f);
      std::vector<int32_t> selected(4);
      const SelectJob job{q.data(), weights.data(), keys.view,       visible,
                          nullptr,  nullptr,        selected.data(), scores.data()};
      index_select({&job, 1}, {heads, keys.dims, 4, 0, 0}, bench);
      for (uint64_t e = 0; e < visible; ++e) {
        ASSERT_TRUE(same_bits(scores[e], expected[e])) << e << " of " << visible;
      }
      EXPECT_EQ(scores[visible], 7.0f);
    }
  });
}

// Scales of one head or one entry that are alike, at the edge of what codes can take up, and past
// it; tiles of both kinds beside each other; groups and heads of zeros.
TEST(IndexSelect, GroupsOfAnyScale) {
  base::SplitMix64 random(11);
  for (const uint64_t of_keys : {1, 3, 4, 5, 9}) {
    for (const uint64_t of_queries : {1, 4, 5}) {
      for (const uint32_t heads : {3, 8, 17}) {
        const Keys keys(random, TileFormat::kMxfp4, 128, 106);
        for (uint64_t e = 0; e < keys.entries; ++e) {
          std::vector<float> row = test::normal_floats(random, 128);
          if (e / 16 % 3 != 1) spread_groups(random, row, -1, of_keys);
          if (e == 40) std::fill_n(row.begin() + 64, 32, 0.0f);
          if (e == 90) std::ranges::fill(row, 0.0f);
          overwrite(keys, e, row);
        }
        std::vector<float> q = test::normal_floats(random, heads * 128);
        spread_groups(random, q, -2, of_queries);
        std::fill_n(q.begin() + 32, 32, 0.0f);
        std::fill_n(q.begin() + 128, 128, 0.0f);
        round_mxfp4(q);
        std::vector<float> weights = test::normal_floats(random, heads);
        weights.back() = 0.0f;
        expect_scores(keys, q, weights);
      }
    }
  }
}

// Numbers so small or so large that a product with a scale too early, or too late, would be zero,
// subnormal or infinite; scales that are none.
TEST(IndexSelect, ScoresNearTheEndsOfFloat) {
  base::SplitMix64 random(12);
  for (const int of_key : {-124, -75, -60, 0, 60, 120}) {
    for (const int of_query : {-90, -75, -40, 0, 40, 90}) {
      for (const float weight : {1e-38f, 1e-20f, -1.0f, 1e20f, 1e38f, kInf, kNan}) {
        const Keys keys(random, TileFormat::kMxfp4, 64, 34);
        for (uint64_t e = 0; e < keys.entries; ++e) {
          std::vector<float> row = test::normal_floats(random, 64);
          spread_groups(random, row, of_key, 2);
          overwrite(keys, e, row);
        }
        keys.view.tile(0)[64 * 8 + 5] = std::byte{255};
        std::vector<float> q = test::normal_floats(random, 3 * 64);
        spread_groups(random, q, of_query, 2);
        round_mxfp4(q);
        expect_scores(keys, q, {weight, 0.5f * weight, -weight});
      }
    }
  }
}

// As many groups as the integers of one chain hold, and more, so that sums are rounded on the way.
// All products are positive and many are odd.
TEST(IndexSelect, WideKeys) {
  base::SplitMix64 random(13);
  const auto positive = [&](uint32_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = random.below(2) == 0 ? 1.5f : 6.0f;
    for (uint32_t g = 0; g < n; g += 32) {
      const float factor = random.below(2) == 0 ? 1.0f : 8.0f;
      for (uint32_t i = g; i < g + 32; ++i) values[i] *= factor;
      values[g] = 6.0f * factor;  // so that none changes as it is rounded
    }
    return values;
  };
  for (const uint32_t groups : {56, 57, 900}) {
    const Keys keys(random, TileFormat::kMxfp4, groups * 32, 17);
    for (uint64_t e = 0; e < keys.entries; ++e) overwrite(keys, e, positive(groups * 32));
    expect_scores(keys, positive(groups * 32), {1.0f});
  }
}

// Candidate blocks that are no divisor of a task's entries, and some that are.
TEST(IndexSelect, CandidateBlocksOfAnySize) {
  base::SplitMix64 random(7);
  const Keys keys(random, TileFormat::kFloat, 32, 700);
  const std::vector<float> q = test::normal_floats(random, 32);
  const std::vector<float> weight = {1.0f};
  std::vector<float> scores;
  for (uint64_t e = 0; e < 700; ++e) scores.push_back(ordered_score(q, weight, keys.row(e)));
  for (uint32_t size : {1, 7, 40, 48, 128, 300, 1000}) {
    for (uint32_t threads : {1, 3}) {
      std::vector<int32_t> selected(16);
      std::vector<uint8_t> blocks((700 + size - 1) / size, 9);
      const SelectJob job{q.data(), weight.data(), keys.view,       700,
                          nullptr,  blocks.data(), selected.data(), nullptr};
      Bench bench(threads);
      index_select({&job, 1}, {1, 32, 16, size, 3}, bench);
      EXPECT_EQ(blocks, blocks_of(scores, size, 3)) << size;
      EXPECT_EQ(selected, sorted_topk(scores, nullptr, 1, 16)) << size;
    }
  }
}

// Blocks restrict even where all visible entries would fit, and wanted scores are all there.
TEST(IndexSelect, AllowedBlocksOfFewEntries) {
  base::SplitMix64 random(8);
  const Keys keys(random, TileFormat::kFloat, 32, 40);
  const std::vector<float> q = test::normal_floats(random, 32);
  const std::vector<float> weight = {1.0f};
  const std::vector<uint8_t> allowed = {0, 0, 1, 0, 0};
  std::vector<int32_t> selected(64);
  std::vector<float> scores(40, -7.0f);
  for (float* out : {static_cast<float*>(nullptr), scores.data()}) {
    const SelectJob job{q.data(),       weight.data(), keys.view,       40,
                        allowed.data(), nullptr,       selected.data(), out};
    Bench bench(1);
    index_select({&job, 1}, {1, 32, 64, 8, 1}, bench);
    std::vector<int32_t> expected(64, -1);
    std::iota(expected.begin(), expected.begin() + 8, 16);
    EXPECT_EQ(selected, expected);
  }
  for (uint64_t e = 0; e < 40; ++e) {
    EXPECT_TRUE(same_bits(scores[e], ordered_score(q, weight, keys.row(e)))) << e;
  }
}

// More entries than scores are kept at a time. Every page is the same one.
TEST(IndexSelect, ABatchPastOneScoreBuffer) {
  base::SplitMix64 random(9);
  Keys keys(random, TileFormat::kFloat, 32, 48);
  constexpr uint64_t kVisible = kScoreFloats / 2 + 1;
  const std::vector<std::byte*> pages(kVisible / 48 + 1, keys.pointers[0]);
  keys.view.pages = pages.data();
  const std::vector<float> q = test::normal_floats(random, 32);
  const std::vector<float> weight = {1.0f};
  constexpr uint32_t kBlock = 16;
  std::vector<std::vector<uint8_t>> allowed(3, std::vector<uint8_t>(kVisible / kBlock + 1));
  std::vector<std::vector<int32_t>> selected(3, std::vector<int32_t>(16, -7));
  std::vector<SelectJob> jobs;
  for (size_t i = 0; i < 3; ++i) {
    allowed[i][1000 * i] = 1;
    jobs.push_back({q.data(), weight.data(), keys.view, kVisible, allowed[i].data(), nullptr,
                    selected[i].data(), nullptr});
  }
  Bench bench(2);
  index_select(jobs, {1, 32, 16, kBlock, 1}, bench);
  for (int32_t i = 0; i < 3; ++i) {
    for (int32_t k = 0; k < 16; ++k) EXPECT_EQ(selected[i][k], 16000 * i + k);
  }
}

TEST(IndexSelect, AllVisibleNeedsNoKeys) {
  // With no more entries than topk nothing is read: the keys may not even be there.
  std::vector<int32_t> selected(4);
  const SelectJob job{nullptr, nullptr, {}, 3, nullptr, nullptr, selected.data(), nullptr};
  Bench bench;
  index_select({&job, 1}, {4, 32, 4, 0, 0}, bench);
  EXPECT_EQ(selected, (std::vector<int32_t>{0, 1, 2, -1}));
}

// A key that is no number has a score that is none, and comes last.
TEST(IndexSelect, ANanStaysOne) {
  base::SplitMix64 random(16);
  const Keys keys(random, TileFormat::kFloat, 48, 20);
  overwrite(keys, 7, std::vector<float>(48, kNan));
  const std::vector<float> q = test::normal_floats(random, 11 * 48);  // eight heads, and three
  const std::vector<float> weights(11, 1.0f);
  test::with_each_table([&] {
    std::vector<float> scores(20);
    std::vector<int32_t> selected(19);
    const SelectJob job{q.data(), weights.data(), keys.view,       20,
                        nullptr,  nullptr,        selected.data(), scores.data()};
    index_select({&job, 1}, {11, 48, 19, 0, 0}, Bench(1));
    EXPECT_TRUE(std::isnan(scores[7]));
    EXPECT_EQ(std::ranges::count(selected, 7), 0);
  });
}

// One entry more than are taken is the first length at which scores decide.
TEST(IndexSelect, OneMoreThanAreTaken) {
  base::SplitMix64 random(15);
  const Keys keys(random, TileFormat::kFloat, 32, 17);
  for (const float weight : {1.0f, -1.0f}) {
    std::vector<float> scores, q = test::normal_floats(random, 32);
    for (uint64_t e = 0; e < 17; ++e) scores.push_back(ordered_score(q, {&weight, 1}, keys.row(e)));
    std::vector<int32_t> selected(16);
    const SelectJob job{q.data(), &weight, keys.view, 17, nullptr, nullptr, selected.data()};
    index_select({&job, 1}, {1, 32, 16, 0, 0}, Bench(1));
    EXPECT_EQ(selected, sorted_topk(scores, nullptr, 1, 16)) << weight;
  }
}

// A query's scale times a key's may be no float32; the product is.
TEST(IndexSelect, ScalesThatOverflowTogether) {
  base::SplitMix64 random(6);
  Keys keys(random, TileFormat::kMxfp4, 32, 16);
  std::vector<float> key(32, 0.0f), q(32, 0.0f);
  key[1] = 0x1p60f;
  for (uint32_t e = 0; e < 16; ++e) write_tile_entry(TileFormat::kMxfp4, key, keys.view.tile(0), e);
  q[0] = 0x1p90f;
  const std::vector<float> weight = {1.0f};
  std::vector<float> scores(16);
  std::vector<int32_t> selected(4);
  Bench bench;
  const SelectJob job{q.data(), weight.data(), keys.view,       16,
                      nullptr,  nullptr,       selected.data(), scores.data()};
  index_select({&job, 1}, {1, 32, 4, 0, 0}, bench);
  EXPECT_TRUE(same_bits(scores[0], ordered_score(q, weight, keys.row(0)))) << scores[0];
}

}  // namespace
}  // namespace thimble::kernels
