// Aim: the tensor table that a configuration implies. Method: the published totals of the released
// checkpoint, counts per dtype and part of backbone spec section 2, and the goldens' file headers.
#include "arch/weight_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

const std::vector<ExpectedTensor>& released() {
  static const auto table = expected_tensors(released_config());
  return table;
}

uint64_t count_ending(std::string_view suffix) {
  return static_cast<uint64_t>(std::ranges::count_if(
      released(), [&](const ExpectedTensor& t) { return t.name.ends_with(suffix); }));
}

TEST(WeightTable, ReleasedTotals) {
  const WeightTotals sum = totals(released());
  EXPECT_EQ(sum.tensors, 96'085u);
  EXPECT_EQ(sum.bytes, 510'286'023'000u);
  EXPECT_EQ(sum.parameters, 763'205'315'794u);
  std::set<std::string> names;
  for (const auto& tensor : released()) {
    names.insert(tensor.name);
    EXPECT_FALSE(tensor.optional) << tensor.name;
  }
  EXPECT_EQ(names.size(), released().size());
}

TEST(WeightTable, ReleasedCountsPerDType) {
  std::map<DType, WeightTotals> sums;
  for (const auto& tensor : released()) {
    ++sums[tensor.dtype].tensors;
    sums[tensor.dtype].bytes += tensor.bytes();
  }
  const auto expect = [&](DType dtype, uint64_t tensors, uint64_t bytes) {
    EXPECT_EQ(sums[dtype].tensors, tensors) << to_string(dtype);
    EXPECT_EQ(sums[dtype].bytes, bytes) << to_string(dtype);
  };
  expect(DType::kBF16, 520, 3'952'883'712);
  expect(DType::kF32, 387, 169'229'128);
  expect(DType::kF8E4M3, 357, 204'015'223'296);
  expect(DType::kF8E8M0, 47'589, 23'563'015'184);
  expect(DType::kI8, 47'232, 278'585'671'680);
}

TEST(WeightTable, ReleasedCountsPerRole) {
  std::map<WeightPart, WeightTotals> sums;
  WeightTotals tables;
  for (const auto& tensor : released()) {
    ++sums[tensor.part].tensors;
    sums[tensor.part].bytes += tensor.bytes();
    if (tensor.name.find("engram.embed") == std::string::npos) continue;
    ++tables.tensors;
    tables.bytes += tensor.bytes();
  }
  EXPECT_EQ(sums[WeightPart::kExperts].tensors, 94'464u);
  EXPECT_EQ(tables.tensors, 4u);
  EXPECT_EQ(tables.bytes, 98'305'579'008u + 3'072'049'344u + 98'308'270'592u + 3'072'133'456u);
  EXPECT_EQ(sums[WeightPart::kDraft].tensors, 97u);
  EXPECT_EQ(sums[WeightPart::kVision].tensors, 266u);
  EXPECT_EQ(sums[WeightPart::kEngram].tensors - tables.tensors +
                sums[WeightPart::kAttention].tensors + sums[WeightPart::kBackboneOther].tensors +
                sums[WeightPart::kEmbedding].tensors,
            1'254u);
  EXPECT_EQ(sums[WeightPart::kVision].bytes, 2u * 485'268'480u);
}

// The absence of a tensor is a statement too: no gate on layer 20 is the ratio-1 path.
TEST(WeightTable, ReleasedContracts) {
  EXPECT_EQ(count_ending("compressor.wkv.weight"), 4u);
  EXPECT_EQ(count_ending("compressor.wgate.weight"), 3u);
  EXPECT_EQ(count_ending("indexer.wq_b.weight"), 8u);
  EXPECT_EQ(count_ending("indexer.wk.weight"), 4u);
  EXPECT_EQ(count_ending("engram.embed.weight"), 2u);
  EXPECT_EQ(
      std::ranges::count_if(released(), [](const auto& t) { return t.name.starts_with("mtp."); }),
      2'401);
}

// The table equals the headers of files written elsewhere, name by name.
TEST(WeightTable, GoldenFilesHoldExactlyTheTable) {
  const std::pair<const char*, std::vector<const char*>> models[] = {
      {"t1_mini", {"model.safetensors"}},
      {"t2_text_minimal", {"model.safetensors"}},
      {"t3_everything",
       {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors"}}};
  for (const auto& [name, files] : models) {
    std::map<std::string, std::string> found, expected;
    const std::string folder = std::string(name) + "/model/";
    for (const char* file : files) {
      const auto opened = golden::open(folder + file);
      for (const auto& [tensor, view] : opened.tensors()) {
        found[tensor] = std::string(to_string(view.dtype)) + " " + to_string(view.shape);
      }
    }
    const auto config = load_config(golden::path(folder + "config.json"));
    ASSERT_TRUE(config) << config.error().describe();
    for (const auto& tensor : expected_tensors(*config)) {
      if (tensor.optional) continue;
      expected[tensor.name] = std::string(to_string(tensor.dtype)) + " " + to_string(tensor.shape);
    }
    EXPECT_EQ(found, expected) << name;
  }
}

TEST(WeightTable, WideModelTotals) {
  const auto config = load_config(golden::path("wide/config.json"));
  ASSERT_TRUE(config) << config.error().describe();
  const WeightTotals sum = totals(expected_tensors(*config));
  EXPECT_EQ(sum.tensors, 425u);
  EXPECT_EQ(sum.bytes, 1'642'075'680u);
}

}  // namespace
}  // namespace thimble::arch
