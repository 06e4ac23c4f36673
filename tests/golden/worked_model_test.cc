// Aim: the known answers of the worked tiny model. Method: make it from its hash rules, load it as
// any checkpoint, run the reference in exact arithmetic ("Mode E"), with the published rounding
// ("Mode R"), whole, split, and with the published index-key slip.
#include "tests/golden/worked_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "arch/checkpoint.h"
#include "model/reference.h"
#include "numeric/bf16.h"
#include "tests/golden/collector.h"

namespace thimble::golden {
namespace {

using model::IndexKeys;
using model::ReferenceMode;

class WorkedModel : public ::testing::Test {
 protected:
  static constexpr size_t kVocab = 64;

  void SetUp() override {
    write_worked_model(dir_.path());
    auto opened = arch::Checkpoint::open(dir_.path());
    ASSERT_TRUE(opened) << opened.error().describe();
    checkpoint_.emplace(std::move(*opened));
  }

  std::vector<float> run(ReferenceMode mode, bool rope_in_double, size_t prefill = 15,
                         IndexKeys keys = IndexKeys::kOwn) {
    model::ReferenceOptions options;
    options.mode = mode;
    options.rope_in_double = rope_in_double;
    options.index_keys = keys;
    auto reference = model::Reference::create(*checkpoint_, options);
    CHECK(reference.has_value());
    const std::vector<int32_t> prompt = worked_prompt();
    const std::span<const int32_t> ids(prompt);
    std::vector<float> all = *(*reference)->forward(ids.first(prefill), &trace_);
    for (size_t p = prefill; p < ids.size(); ++p) {
      const auto row = *(*reference)->forward(ids.subspan(p, 1), &trace_);
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  static void expect_row(const std::vector<float>& logits, size_t position,
                         const std::vector<double>& expected, double bound = 1e-6) {
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(logits[position * kVocab + i], expected[i], bound * 1.5) << position << " " << i;
    }
  }

  static std::vector<int> argmax(const std::vector<float>& logits) {
    std::vector<int> out;
    for (size_t p = 0; p < 15; ++p) {
      const auto row = logits.begin() + static_cast<std::ptrdiff_t>(p * kVocab);
      out.push_back(static_cast<int>(std::max_element(row, row + kVocab) - row));
    }
    return out;
  }

  std::vector<int32_t> selection(const std::string& layer, size_t position) const {
    auto row = trace_.int_rows().at("topk." + layer)[position];
    return row;
  }

  base::TempDir dir_;
  std::optional<arch::Checkpoint> checkpoint_;
  Collector trace_;
};

TEST_F(WorkedModel, Generator) {
  EXPECT_EQ(worked_word("embed.weight", 0), 0x50217c966230a1b2ULL);
  EXPECT_EQ(worked_word("embed.weight", 3), 0xac093fa22185c367ULL);
  EXPECT_EQ(worked_prompt(),
            (std::vector<int32_t>{2, 61, 39, 1, 45, 29, 52, 15, 32, 52, 1, 29, 59, 39, 7}));
  const auto embed = checkpoint_->tensor("embed.weight").as<uint16_t>();
  const float expected[] = {-0.373046875F, 0.95703125F, -0.94140625F, 0.34375F};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(numeric::bf16_to_float(embed[i]), expected[i]);
}

TEST_F(WorkedModel, ExactArithmetic) {
  const auto logits = run(ReferenceMode::kNokvq, true);
  expect_row(
      logits, 14,
      {0.88966889,  1.73082493,  -1.30289532, -0.63051043, 0.39679820,  -1.17089032, 1.10962451,
       -1.56752884, 1.21084265,  -0.70332995, -2.25053530, 1.80703172,  -0.17506870, -0.07802753,
       -0.38060802, -0.50727373, -0.99104641, 1.37964915,  -0.32644723, 1.36745471,  1.15051932,
       -0.52907768, 1.14799314,  -1.49143909, -1.34947113, -1.08469817, -0.75345370, 0.19683917,
       3.47783527,  0.13673042,  1.17667197,  0.65830680,  -0.78930735, 0.99269299,  0.46395386,
       -1.23175357, 0.09415672,  0.38828605,  2.90824870,  -0.42367730, -1.31143866, -0.26549369,
       1.85791388,  0.63403367,  -0.38189812, 0.23371560,  1.24985990,  0.13852687,  1.98932802,
       -0.25650992, 0.11939280,  0.18934804,  -0.92922475, 0.37108124,  -1.20060274, 0.12694127,
       2.10753973,  -0.79837964, -0.82526705, 0.10321234,  -1.89136870, -0.63678812, -0.36881227,
       -0.09838299});
  expect_row(logits, 10,
             {-2.15782328, -0.47765964, 0.93518919, -0.32765027, 0.38690198, -3.13880377,
              1.33993839, -1.52024115});
  EXPECT_EQ(argmax(logits),
            (std::vector<int>{50, 45, 28, 38, 51, 20, 52, 3, 28, 52, 38, 17, 59, 28, 28}));
}

TEST_F(WorkedModel, LastTokenLayerByLayer) {
  run(ReferenceMode::kNokvq, true);
  struct Known {
    double sum, squares, first, pre0, attn_squares;
    int32_t expert0, expert1;
  };
  const Known known[] = {{-8.78372186, 94.8669627, -0.68009361, 0.53295389, 0.431357382, 2, 0},
                         {-10.2476520, 96.9727728, -0.60011736, 0.48692507, 0.0978890919, 1, 5},
                         {-10.5470145, 94.5966218, -0.39869944, 0.59865613, 0.116877035, 7, 6},
                         {-2.93013172, 94.7978022, -0.47804404, 0.53802834, 0.170994179, 1, 2},
                         {-3.70634684, 95.7208043, -0.55782273, 0.60748295, 0.247526011, 0, 7},
                         {-3.40900150, 93.8729296, -0.54476731, 0.65928700, 0.359594440, 6, 3},
                         {-1.96570891, 101.952523, -0.37169101, 0.24687594, 0.0876014111, 3, 4},
                         {-3.66135633, 107.944737, -0.42318402, 0.38400960, 0.0978254928, 2, 5}};
  const auto squares = [](const std::vector<float>& v) {
    return std::inner_product(v.begin(), v.end(), v.begin(), 0.0);
  };
  for (size_t l = 0; l < std::size(known); ++l) {
    const std::string layer = std::to_string(l);
    const auto& h = trace_.float_rows().at("hidden.layers." + layer)[14];
    EXPECT_NEAR(std::accumulate(h.begin(), h.end(), 0.0), known[l].sum, 2e-5) << l;
    EXPECT_NEAR(squares(h), known[l].squares, 1e-4) << l;
    EXPECT_NEAR(h[0], known[l].first, 1e-6) << l;
    EXPECT_NEAR(trace_.float_rows().at("pre_mix.layers." + layer)[14][0], known[l].pre0, 1e-6);
    EXPECT_NEAR(squares(trace_.float_rows().at("attn_out.layers." + layer)[14]),
                known[l].attn_squares, 1e-6)
        << l;
    EXPECT_EQ(trace_.int_rows().at("expert_ids.layers." + layer)[14],
              (std::vector<int32_t>{known[l].expert0, known[l].expert1}))
        << l;
  }
}

TEST_F(WorkedModel, SelectionsAndCandidates) {
  run(ReferenceMode::kNokvq, true);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(selection("2", 10), (Ids{0, 1, 3, 4}));
  EXPECT_EQ(selection("2", 14), (Ids{0, 1, 2, 6}));
  EXPECT_EQ(selection("3", 13), (Ids{2, 3, 4, 5}));
  EXPECT_EQ(selection("5", 11), (Ids{5, 6, 9, 11}));
  EXPECT_EQ(selection("5", 14), (Ids{5, 8, 11, 14}));
  EXPECT_EQ(selection("6", 12), (Ids{0, 1, 7, 12}));
  EXPECT_EQ(selection("6", 14), (Ids{8, 9, 11, 14}));
  const auto mask = [&](size_t p) {
    std::string text;
    for (const int32_t kept : trace_.int_rows().at("candidates.5")[p]) {
      text += static_cast<char>('0' + kept);
    }
    text.resize(15, '0');
    return text;
  };
  EXPECT_EQ(mask(10), "110000110011000");
  EXPECT_EQ(mask(11), "000011110011000");
  EXPECT_EQ(mask(13), "110000110000110");
  EXPECT_EQ(mask(14), "000000001111001");
}

TEST_F(WorkedModel, AnySplitGivesTheSameLogits) {
  const auto whole = run(ReferenceMode::kNokvq, true);
  for (size_t prefill = 1; prefill < 15; ++prefill) {
    EXPECT_LE(distance(run(ReferenceMode::kNokvq, true, prefill), whole).max_abs, 1e-6) << prefill;
  }
}

TEST_F(WorkedModel, StaleIndexKeys) {
  const auto logits = run(ReferenceMode::kNokvq, true, 11, IndexKeys::kStale);
  expect_row(logits, 11, {-2.10785055, 0.21474932, 1.18321270, -1.84577031});
  expect_row(logits, 12, {-0.08764153, 0.48866873, 0.93334153, -1.28728936});
  expect_row(logits, 13, {1.62288351, -0.14161223, -0.88329650, 1.16880904});
  expect_row(logits, 14, {0.95330013, 1.71039834, -1.33881492, -0.67817380});
}

TEST_F(WorkedModel, PublishedRounding) {
  const auto logits = run(ReferenceMode::kOfficial, false);
  expect_row(logits, 14,
             {1.0696827, 1.7728245, -1.4463155, -0.6178799, 0.3947660, -1.1684706, 1.1501417,
              -1.5762782, 1.2962079, -0.6476559, -2.0596075, 1.7501198, -0.1440196, -0.1474838,
              -0.6202939, -0.4734302});
  expect_row(logits, 10, {-2.19268417, -0.48328972, 1.09274316, -0.48965311});
  expect_row(logits, 13, {1.65786135, -0.10407227, -0.86764169, 1.14407122});
  EXPECT_EQ(argmax(logits),
            (std::vector<int>{50, 45, 28, 38, 51, 20, 52, 3, 28, 52, 38, 17, 59, 40, 28}));
  EXPECT_EQ(selection("3", 14), (std::vector<int32_t>{0, 2, 3, 4}));
  EXPECT_EQ(selection("6", 14), (std::vector<int32_t>{8, 9, 10, 14}));
}

}  // namespace
}  // namespace thimble::golden
