// Aim: element formats, block quantisers, the operations that need no model and Engram hashes equal
// the numbers the published implementation gave (golden/formats). Method: codes byte for byte;
// operations within float32 rounding of the float64 values, decisions exactly; everything on each
// instruction set this CPU runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "arch/engram_tables.h"
#include "kernels/ops.h"
#include "kernels/table.h"
#include "model/engram.h"
#include "numeric/block_fp8.h"
#include "numeric/e8m0.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"
#include "numeric/kv_fp4.h"
#include "numeric/mxfp4.h"
#include "tests/golden/golden.h"

namespace thimble::golden {
namespace {

using kernels::Rows;

// A tensor's values, copied out.
template <class T = float>
std::vector<T> values(const arch::SafetensorsFile& file, const std::string& name) {
  const auto data = view(file, name).as<T>();
  return {data.begin(), data.end()};
}

template <class Body>
void with_each_table(Body body) {
  for (const kernels::Table* table : kernels::runnable()) {
    const kernels::ScopedTable scope(*table);
    SCOPED_TRACE(kernels::name(*table));
    body();
  }
}

struct Machine {
  base::ThreadPool pool{2};
  kernels::Workspace workspace;
  kernels::Context context{pool, workspace};
};

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected,
                 double absolute, double relative) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], absolute + relative * std::fabs(expected[i])) << i;
  }
}

void expect_decoder(const std::vector<float>& expected, float (*decode)(uint8_t)) {
  for (size_t code = 0; code < expected.size(); ++code) {
    const float value = decode(static_cast<uint8_t>(code));
    if (std::isnan(expected[code])) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected[code])) << code;
    }
  }
}

TEST(GoldenFormats, Decoders) {
  const auto file = open("formats/codes.safetensors");
  expect_decoder(values(file, "e4m3.decode"), numeric::e4m3_to_float);
  expect_decoder(values(file, "e8m0.decode"), numeric::e8m0_to_float);
  expect_decoder(values(file, "e2m1.decode"), numeric::e2m1_to_float);
}

TEST(GoldenFormats, Encoders) {
  const auto file = open("formats/codes.safetensors");
  const auto e4m3 = values(file, "e4m3.encode_in");
  const auto e4m3_codes = values<uint8_t>(file, "e4m3.encode_code");
  for (size_t i = 0; i < e4m3.size(); ++i) {
    EXPECT_EQ(numeric::float_to_e4m3(e4m3[i]), e4m3_codes[i]) << e4m3[i];
  }
  const auto e2m1 = values(file, "e2m1.encode_in");
  const auto e2m1_codes = values<uint8_t>(file, "e2m1.encode_code");
  for (size_t i = 0; i < e2m1.size(); ++i) {
    EXPECT_EQ(numeric::float_to_e2m1(e2m1[i]), e2m1_codes[i]) << e2m1[i];
  }
}

// One quantiser of the file, float and double inputs.
template <class T>
void expect_groups(const std::string& name, uint32_t group, uint8_t (*quantize)(const T*, uint8_t*),
                   void (*round)(T*, uint64_t)) {
  const auto file = open("formats/group_quant.safetensors");
  for (const std::string kind : {".bf16in", ".f32in"}) {
    const auto in = values(file, name + kind + ".in");
    const auto codes = values<uint8_t>(file, name + kind + ".code");
    const auto scales = values<uint8_t>(file, name + kind + ".scale");
    const auto decoded = values(file, name + kind + ".dequant");
    ASSERT_EQ(in.size(), scales.size() * group);
    std::vector<T> x(in.begin(), in.end());
    std::vector<uint8_t> own(group);
    for (size_t g = 0; g < scales.size(); ++g) {
      EXPECT_EQ(quantize(&x[g * group], own.data()), scales[g]) << name << kind << " " << g;
      for (uint32_t i = 0; i < group; ++i) ASSERT_EQ(own[i], codes[g * group + i]) << g;
    }
    round(x.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(x[i], T{decoded[i]}) << name << kind << i;
  }
}

TEST(GoldenFormats, BlockQuantisers) {
  expect_groups<float>("swa_fp8", 32, numeric::quantize_fp8_group, numeric::round_fp8);
  expect_groups<double>("swa_fp8", 32, numeric::quantize_fp8_group, numeric::round_fp8);
  expect_groups<float>("index_mxfp4", 32, numeric::quantize_mxfp4_group, numeric::round_mxfp4);
  expect_groups<double>("index_mxfp4", 32, numeric::quantize_mxfp4_group, numeric::round_mxfp4);
  expect_groups<float>("main_kv_fp4", 16, numeric::quantize_kv_fp4_group, numeric::round_kv_fp4);
  expect_groups<double>("main_kv_fp4", 16, numeric::quantize_kv_fp4_group, numeric::round_kv_fp4);
}

// The same groups through the cache's row and tile formats, bytes included.
TEST(GoldenFormats, CachedRows) {
  const auto file = open("formats/group_quant.safetensors");
  const auto window = values(file, "swa_fp8.f32in.dequant");
  const auto main = values(file, "main_kv_fp4.f32in.dequant");
  const auto index = values(file, "index_mxfp4.f32in.dequant");
  const auto window_in = values(file, "swa_fp8.f32in.in");
  const auto main_in = values(file, "main_kv_fp4.f32in.in");
  const auto index_in = values(file, "index_mxfp4.f32in.in");
  with_each_table([&] {
    std::vector<std::byte> row(window_in.size() * 2);
    std::vector<float> back(window_in.size());
    kernels::write_row(kernels::RowFormat::kWindowFp8, window_in, row.data());
    kernels::read_row(kernels::RowFormat::kWindowFp8, row.data(), back);
    EXPECT_EQ(back, window);
    back.resize(main_in.size());
    kernels::write_row(kernels::RowFormat::kMainFp4, main_in, row.data());
    kernels::read_row(kernels::RowFormat::kMainFp4, row.data(), back);
    EXPECT_EQ(back, main);
    std::vector<std::byte> tile(index_in.size() * 9);
    back.resize(index_in.size());
    kernels::write_tile_entry(kernels::TileFormat::kMxfp4, index_in, tile.data(), 9);
    kernels::read_tile_entry(kernels::TileFormat::kMxfp4, tile.data(), 9, back);
    EXPECT_EQ(back, index);
  });
}

TEST(GoldenFormats, Rope) {
  const auto file = open("formats/rope.safetensors");
  const auto frequencies = values(file, "release.compressed.inv_freq");
  const auto positions = values<int32_t>(file, "apply.positions");
  const auto in = values(file, "apply.in");
  const uint64_t rows = positions.size(), pairs = frequencies.size();
  std::vector<float> cos, sin;
  for (int32_t p : positions) {
    for (float f : frequencies) {
      const float angle = static_cast<float>(p) * f;
      cos.push_back(static_cast<float>(std::cos(double{angle})));
      sin.push_back(static_cast<float>(std::sin(double{angle})));
    }
  }
  const uint64_t width = in.size() / rows;
  Machine run;
  for (auto rotation : {kernels::Rotation::kForward, kernels::Rotation::kBackward}) {
    std::vector<float> x = in;
    kernels::rope({x.data(), rows, width}, static_cast<uint32_t>(width / 64),
                  {cos.data(), rows, pairs}, {sin.data(), rows, pairs}, rotation, run.context);
    const bool forward = rotation == kernels::Rotation::kForward;
    expect_near(x, values(file, forward ? "apply.forward" : "apply.inverse"), 1e-6, 1e-6);
  }
}

TEST(GoldenFormats, Sinkhorn) {
  const auto file = open("formats/sinkhorn.safetensors");
  const auto mixes = values(file, "mixes");  // [64, 24]
  const auto scale = values(file, "scale");
  const auto base = values(file, "base");
  // The projections are given: a stream whose token i is the mix itself, padded so that its mean
  // square is not one, would be scaled. Each row of fn picks its value, and the norm is undone
  // beforehand.
  with_each_table([&] {
    Machine run;
    for (size_t i = 0; i < 64; ++i) {
      std::vector<float> fn(24 * 4);
      for (size_t k = 0; k < 24; ++k) fn[k * 4] = mixes[i * 24 + k];
      const std::vector<float> ones(4, 1.0f);
      const kernels::HcWeights weights{fn.data(), scale.data(), base.data(), 4, 20, 1e-6f, 1e-20f};
      std::vector<float> pre(4), post(4), comb(16);
      kernels::hc_mix(weights, {ones.data(), 1, 4},
                      {{pre.data(), 1, 4}, {post.data(), 1, 4}, {comb.data(), 1, 16}}, run.context);
      auto row = [&](const char* name, size_t n) {
        const auto all = values(file, name);
        return std::vector<float>(all.begin() + i * n, all.begin() + (i + 1) * n);
      };
      expect_near(pre, row("f64.pre", 4), 3e-7, 3e-7);
      expect_near(post, row("f64.post", 4), 3e-7, 3e-7);
      expect_near(comb, row("f64.comb", 16), 1e-6, 1e-6);
    }
  });
}

TEST(GoldenFormats, HyperConnectionSums) {
  const auto file = open("formats/sinkhorn.safetensors");
  auto pre = values(file, "f64.pre");
  auto post = values(file, "f64.post");
  auto comb = values(file, "f64.comb");
  const auto branch = values(file, "apply.branch");
  with_each_table([&] {
    Machine run;
    auto stream = values(file, "apply.stream");
    std::vector<float> x(64 * 24);
    kernels::hc_collapse({stream.data(), 64, 96}, {pre.data(), 64, 4}, {x.data(), 64, 24},
                         run.context);
    expect_near(x, values(file, "apply.collapsed"), 1e-6, 1e-6);
    const kernels::HcMix mix{{pre.data(), 64, 4}, {post.data(), 64, 4}, {comb.data(), 64, 16}};
    kernels::hc_post({stream.data(), 64, 96}, {branch.data(), 64, 24}, mix, run.context);
    expect_near(stream, values(file, "apply.expanded"), 1e-6, 1e-6);
  });
}

TEST(GoldenFormats, Router) {
  const auto file = open("formats/router.safetensors");
  const auto logits = values(file, "router_logits");
  const auto bias = values(file, "bias");
  with_each_table([&] {
    std::vector<int32_t> ids(40 * 3);
    std::vector<float> weights(40 * 3);
    kernels::route({logits.data(), 40, 12}, bias.data(), 1.5f, {ids.data(), 40, 3},
                   {weights.data(), 40, 3}, {});
    EXPECT_EQ(ids, values<int32_t>(file, "ids"));
    expect_near(weights, values(file, "weights"), 0, 1e-6);
  });
}

// Ids of the file are compressed already, so the map sends every id to itself as far as there are
// classes. Rows come in the order [sequence, position, engram layer, lookup].
TEST(GoldenFormats, EngramHash) {
  const auto file = open("formats/engram_hash.safetensors");
  arch::Config config = arch::released_config();
  const arch::EngramConfig& engram = config.engram;
  const auto layers = values<int32_t>(file, "layer_ids");
  ASSERT_EQ(std::vector<int32_t>(engram.layer_ids.begin(), engram.layer_ids.end()), layers);
  config.engram.pad_token_id = static_cast<uint32_t>(values<int32_t>(file, "pad_id")[0]);
  std::vector<int32_t> map(config.vocab_size);
  const auto last = static_cast<int32_t>(engram.compressed_vocab_size - 1);
  for (size_t id = 0; id < map.size(); ++id) map[id] = std::min(static_cast<int32_t>(id), last);
  const auto hasher = model::EngramHasher::create(config, map);
  ASSERT_TRUE(hasher) << hasher.error().describe();

  const auto ids = values<int32_t>(file, "ids");  // [4, 96]
  const auto alive = values<uint8_t>(file, "alive");
  const auto decode_ids = values<int32_t>(file, "decode_ids");  // [4, 5]
  const auto rows = values<int64_t>(file, "rows");
  const auto decode_rows = values<int64_t>(file, "decode_rows");
  const uint32_t lookups = engram.lookups();
  for (size_t s = 0; s < 4; ++s) {
    std::vector<int32_t> past(hasher->history_tokens(), model::kDeadToken);
    for (size_t i = 0; i < 96 + 5; ++i) {
      const bool prompt = i < 96;
      const size_t at = prompt ? s * 96 + i : s * 5 + i - 96;
      past.push_back(!prompt ? decode_ids[at] : alive[at] > 0 ? ids[at] : model::kDeadToken);
      const auto recent = std::span(past).last(hasher->history_tokens() + 1);
      const auto expected = std::span(prompt ? rows : decode_rows);
      for (uint32_t e = 0; e < layers.size(); ++e) {
        std::vector<int64_t> own(lookups);
        hasher->row_ids(e, recent, own);
        const auto theirs = expected.subspan((at * layers.size() + e) * lookups, lookups);
        ASSERT_TRUE(std::ranges::equal(own, theirs)) << s << " " << i << " layer " << e;
      }
    }
  }
}

TEST(GoldenFormats, EngramTables) {
  const auto file = open("formats/engram_hash.safetensors");
  const arch::EngramConfig& engram = arch::released_config().engram;
  const auto flat = [](const std::vector<std::vector<uint64_t>>& lists) {
    std::vector<int64_t> out;
    for (const auto& list : lists) out.insert(out.end(), list.begin(), list.end());
    return out;
  };
  const auto primes = arch::engram_primes(engram);
  EXPECT_EQ(flat(primes), values<int64_t>(file, "primes"));
  EXPECT_EQ(flat({arch::engram_row_offsets(primes[0]), arch::engram_row_offsets(primes[1])}),
            values<int64_t>(file, "offsets"));
  std::vector<int64_t> multipliers;
  for (const uint32_t layer : engram.layer_ids) {
    const auto own = model::engram_multipliers(layer, engram.compressed_vocab_size, 4);
    multipliers.insert(multipliers.end(), own.begin(), own.end());
    for (const uint32_t vocab : {5, 97, 512, 50'000}) {
      const auto name = "multipliers.layer" + std::to_string(layer);
      EXPECT_EQ(model::engram_multipliers(layer, vocab, 4),
                values<int64_t>(file, name + ".vocab" + std::to_string(vocab)));
    }
  }
  EXPECT_EQ(multipliers, values<int64_t>(file, "multipliers"));
}

// candidates.N: query i sees i + 1 entries; the mask covers whole blocks.
TEST(GoldenFormats, CandidateBlocks) {
  const auto file = open("formats/selection.safetensors");
  for (int n = 0; n < 4; ++n) {
    const std::string name = "candidates." + std::to_string(n);
    const auto params = values<int32_t>(file, name + ".params");
    const auto scores = values(file, name + ".scores");
    const auto mask = values<uint8_t>(file, name + ".mask");
    const uint32_t keep = static_cast<uint32_t>(params[0]);
    const uint32_t size = static_cast<uint32_t>(params[1]);
    const uint64_t entries = view(file, name + ".scores").shape[1];
    for (uint64_t i = 0; i < entries; ++i) {
      std::vector<uint8_t> blocks((entries + size - 1) / size, 0);
      std::vector<uint32_t> maxima(i / size + 1);
      kernels::score_maxima({&scores[i * entries], i + 1}, size, maxima.data());
      kernels::select_blocks(maxima, keep, blocks.data());
      for (uint64_t e = 0; e < entries; ++e) {
        ASSERT_EQ(blocks[e / size], mask[i * entries + e]) << name << " query " << i << " " << e;
      }
    }
  }
}

TEST(GoldenFormats, SparseAttention) {
  const auto file = open("formats/sparse_attn.safetensors");
  const auto q = values(file, "q");        // [6, 3, 32]
  const auto kv = values(file, "kv");      // [20, 32]
  const auto sink = values(file, "sink");  // [3]
  const auto idx = values<int32_t>(file, "idx");
  std::vector<std::byte> page(kv.size() * sizeof(float));
  std::memcpy(page.data(), kv.data(), page.size());
  std::byte* pages = page.data();
  std::vector<std::vector<int32_t>> lists(6);
  for (size_t i = 0; i < idx.size(); ++i) {
    if (idx[i] >= 0) lists[i / 9].push_back(idx[i]);
  }
  const kernels::AttendShape shape{3, 32, 1 / std::sqrt(32.0f), sink.data()};
  with_each_table([&] {
    Machine run;
    std::vector<float> out(q.size());
    std::vector<kernels::AttendJob> jobs(6);
    for (size_t i = 0; i < 6; ++i) {
      jobs[i].q = &q[i * 96];
      jobs[i].out = &out[i * 96];
      jobs[i].window.dims = 32;
      jobs[i].main = {&pages, 0, 20, 128, 32, kernels::RowFormat::kFloat};
      jobs[i].selected = lists[i];
    }
    kernels::attend(jobs, shape, run.context);
    expect_near(out, values(file, "out"), 1e-6, 2e-6);
  });
}

}  // namespace
}  // namespace thimble::golden
