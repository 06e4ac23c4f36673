// Aim: Engram row ids are those of the published model. Method: the spec's known answers
// (multipliers, hashes and rows of the released sizes, a tiny fixture with a dead span, a failing
// token map).
#include "model/engram.h"

#include <gtest/gtest.h>

namespace thimble::model {
namespace {

arch::Config released_engram() {
  arch::Config config = arch::released_config();
  return config;
}

// A token map with the released class count that sends the ids of the spec's example where it does.
std::vector<int32_t> example_map(const arch::Config& config) {
  std::vector<int32_t> map(config.vocab_size);
  for (size_t id = 0; id < map.size(); ++id) {
    map[id] = static_cast<int32_t>(std::min<size_t>(id, 99'091));
  }
  const std::pair<int, int> known[] = {{0, 0},     {671, 237},   {6102, 5095},
                                       {294, 251}, {8760, 7208}, {344, 242}};
  for (const auto& [raw, compressed] : known) map[static_cast<size_t>(raw)] = compressed;
  return map;
}

std::vector<int64_t> rows_at(const EngramHasher& hasher, uint32_t engram,
                             const std::vector<int32_t>& compressed, size_t at, uint32_t lookups) {
  std::vector<int32_t> recent;
  for (size_t back = hasher.history_tokens() + 1; back-- > 0;) {
    recent.push_back(at >= back ? compressed[at - back] : kDeadToken);
  }
  std::vector<int64_t> rows(lookups);
  hasher.row_ids(engram, recent, rows);
  return rows;
}

TEST(EngramHasher, MultipliersOfTheReleasedModel) {
  EXPECT_EQ(engram_multipliers(1, 99'092, 4),
            (std::vector<int64_t>{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(engram_multipliers(14, 99'092, 4),
            (std::vector<int64_t>{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
}

TEST(EngramHasher, MultipliersOfTheTinyFixture) {
  EXPECT_EQ(engram_multipliers(1, 6, 4),
            (std::vector<int64_t>{1265604610235772205, 79932166973103877, 593885974911493955,
                                  1221925540571170885}));
  EXPECT_EQ(engram_multipliers(14, 6, 4),
            (std::vector<int64_t>{1118365701629147841, 850718144586061385, 510676356168679127,
                                  1364484065151725665}));
}

// Engram spec 2.10 (1): "The capital of France is" with BOS.
TEST(EngramHasher, RowsOfTheReleasedModel) {
  const arch::Config config = released_engram();
  const auto hasher = EngramHasher::create(config, example_map(config));
  ASSERT_TRUE(hasher) << hasher.error().describe();
  const std::vector<int32_t> compressed = {0, 237, 5095, 251, 7208, 242};
  EXPECT_EQ(
      rows_at(*hasher, 0, compressed, 0, 24),
      (std::vector<int64_t>{5702652,   24393184,  39183301,  61503783,  78984481,  90144770,
                            103724983, 121476532, 131476717, 152385926, 164143652, 191599181,
                            198145581, 217419202, 238329687, 247482304, 257520185, 283540304,
                            288689443, 315264704, 322314652, 348890037, 367865216, 380066193}));
  EXPECT_EQ(
      rows_at(*hasher, 1, compressed, 0, 24),
      (std::vector<int64_t>{14361964,  29977809,  32716444,  61209771,  67456205,  84275051,
                            108494439, 120604547, 132225184, 150270452, 174805952, 178895254,
                            193207923, 211610196, 226280582, 252505246, 261362261, 279862797,
                            301364059, 312864848, 328367036, 349372619, 363873742, 372375971}));
  EXPECT_EQ(
      rows_at(*hasher, 0, compressed, 5, 24),
      (std::vector<int64_t>{8434518,   28335418,  33056762,  54845833,  79590735,  82522014,
                            107990915, 114522034, 130425857, 150965795, 160866148, 176873966,
                            204352630, 218104334, 238747352, 249482421, 265625474, 283863772,
                            292296123, 304668435, 328974802, 341520388, 359388308, 379106837}));
}

// Engram spec 2.10 (3): ids [7,1,4,3,8,7] with the third and fourth position dead.
TEST(EngramHasher, DeadPositionsLatch) {
  arch::Config config;
  config.vocab_size = 9;
  config.engram.layer_ids = {1, 14};
  config.engram.num_embeddings = {113, 253};
  config.engram.max_ngram_size = 4;
  config.engram.vocab_size = 11;
  config.engram.n_heads = 2;
  config.engram.head_dim = 4;
  config.engram.pad_token_id = 2;
  config.engram.compressed_vocab_size = 6;
  const std::vector<int32_t> map = {0, 1, 1, 1, 2, 2, 3, 4, 5};
  const auto hasher = EngramHasher::create(config, map);
  ASSERT_TRUE(hasher) << hasher.error().describe();
  const std::vector<int32_t> row_a = {4, 1, kDeadToken, kDeadToken, 5, 4};
  const int64_t expected[6][12] = {{10, 13, 39, 43, 71, 100, 3, 34, 100, 141, 191, 245},
                                   {9, 11, 32, 43, 72, 88, 11, 65, 95, 111, 164, 244},
                                   {6, 13, 35, 57, 80, 103, 22, 42, 98, 150, 171, 200},
                                   {6, 13, 35, 57, 80, 103, 22, 42, 98, 150, 171, 200},
                                   {1, 19, 37, 51, 80, 83, 25, 60, 102, 116, 153, 214},
                                   {6, 12, 32, 56, 61, 93, 25, 58, 85, 135, 163, 214}};
  for (size_t p = 0; p < 6; ++p) {
    for (uint32_t e = 0; e < 2; ++e) {
      const auto rows = rows_at(*hasher, e, row_a, p, 6);
      EXPECT_EQ(rows, std::vector<int64_t>(expected[p] + 6 * e, expected[p] + 6 * e + 6)) << p;
    }
  }
}

TEST(EngramHasher, RefusesAnotherTokenizersMap) {
  const arch::Config config = released_engram();
  std::vector<int32_t> map = example_map(config);
  map.back() = 99'092;
  const auto hasher = EngramHasher::create(config, map);
  ASSERT_FALSE(hasher);
  EXPECT_NE(hasher.error().message.find("99093"), std::string::npos) << hasher.error().message;
  EXPECT_NE(hasher.error().message.find("99092"), std::string::npos) << hasher.error().message;
  EXPECT_FALSE(EngramHasher::create(config, std::span(map).first(5)));
}

}  // namespace
}  // namespace thimble::model
