// Aim: a directory opens only when its files say exactly what its configuration says (F08, F16).
// Method: the golden models, and copies of the smallest with one thing wrong, each refused by name.
#include "arch/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include <nlohmann/json.hpp>

#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSmall = "t2_text_minimal/model";

std::string describe_open(const Path& directory) {
  const auto checkpoint = Checkpoint::open(directory);
  return checkpoint ? "opened" : checkpoint.error().describe();
}

// The small model's tensors with owned bytes, to be changed and written again.
class SmallModel {
 public:
  SmallModel() : source_(golden::open(std::string(kSmall) + "/model.safetensors")) {
    for (const auto& [name, view] : source_.tensors()) {
      bytes_.emplace_back(view.data.begin(), view.data.end());
      tensors_.push_back({name, view.dtype, view.shape, {}});
    }
  }

  TensorToWrite& tensor(std::string_view name) { return tensors_[index(name)]; }
  std::vector<std::byte>& bytes(std::string_view name) { return bytes_[index(name)]; }
  void remove(std::string_view name) {
    const size_t i = index(name);
    tensors_.erase(tensors_.begin() + static_cast<ptrdiff_t>(i));
    bytes_.erase(bytes_.begin() + static_cast<ptrdiff_t>(i));
  }
  void add(std::string name, DType dtype, std::vector<uint64_t> shape, size_t count) {
    tensors_.push_back({std::move(name), dtype, std::move(shape), {}});
    bytes_.emplace_back(count);
  }

  std::string write_and_open() {
    const base::TempDir dir;
    write(dir.path());
    return describe_open(dir.path());
  }

  void write(const Path& directory) {
    std::filesystem::copy(golden::path(kSmall) / "config.json", directory / "config.json");
    write_part(directory, "model.safetensors", 0, tensors_.size());
  }

  // Two shards and an index, which `edit` may spoil before it is written.
  void write_shards(const Path& directory, const std::function<void(json&)>& edit) {
    std::filesystem::copy(golden::path(kSmall) / "config.json", directory / "config.json");
    const size_t half = tensors_.size() / 2;
    write_part(directory, "a.safetensors", 0, half);
    write_part(directory, "b.safetensors", half, tensors_.size());
    json index;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      index["weight_map"][tensors_[i].name] = i < half ? "a.safetensors" : "b.safetensors";
    }
    edit(index);
    ASSERT_TRUE(base::write_file_atomic(directory / "model.safetensors.index.json", index.dump()));
  }

 private:
  size_t index(std::string_view name) const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].name == name) return i;
    }
    ADD_FAILURE() << "no tensor " << name;
    return 0;
  }

  void write_part(const Path& directory, const char* name, size_t begin, size_t end) {
    std::vector<TensorToWrite> part(tensors_.begin() + static_cast<ptrdiff_t>(begin),
                                    tensors_.begin() + static_cast<ptrdiff_t>(end));
    for (size_t i = begin; i < end; ++i) part[i - begin].data = bytes_[i];
    ASSERT_TRUE(write_safetensors(directory / name, part));
  }

  SafetensorsFile source_;
  std::vector<TensorToWrite> tensors_;
  std::vector<std::vector<std::byte>> bytes_;
};

std::string open_sharded(const std::function<void(json&)>& edit) {
  const base::TempDir dir;
  SmallModel().write_shards(dir.path(), edit);
  return describe_open(dir.path());
}

TEST(Checkpoint, OpensGoldenModels) {
  for (const char* name : {"t1_mini/model", kSmall, "t3_everything/model"}) {
    const auto checkpoint = Checkpoint::open(golden::path(name));
    ASSERT_TRUE(checkpoint) << checkpoint.error().describe();
    EXPECT_EQ(checkpoint->bytes(), totals(expected_tensors(checkpoint->config())).bytes);
    EXPECT_NE(checkpoint->find("layers.0.attn.wq_a.weight"), nullptr);
    EXPECT_EQ(checkpoint->tensor("embed.weight").dtype, DType::kBF16);
    EXPECT_EQ(checkpoint->find("layers.0.ffn.gate.bias_vl") != nullptr,
              checkpoint->config().vision.has_value());
  }
}

TEST(CheckpointDeathTest, AskingForAnUnknownTensorIsOurMistake) {
  const auto checkpoint = Checkpoint::open(golden::path(kSmall));
  EXPECT_DEATH(checkpoint->tensor("layers.9.nothing"), "layers.9.nothing");
}

TEST(Checkpoint, RewrittenAndShardedCopiesOpen) {
  EXPECT_EQ(SmallModel().write_and_open(), "opened");
  EXPECT_EQ(open_sharded([](json&) {}), "opened");
}

TEST(Checkpoint, ViewsSurviveAMove) {
  auto first = Checkpoint::open(golden::path(kSmall));
  ASSERT_TRUE(first);
  const auto before = first->tensor("layers.1.attn.attn_sink").as<float>()[0];
  const Checkpoint second = std::move(*first);
  EXPECT_EQ(second.tensor("layers.1.attn.attn_sink").as<float>()[0], before);
}

TEST(Checkpoint, RefusesAMissingTensor) {
  SmallModel model;
  model.remove("layers.1.ffn.shared_experts.w2.scale");
  EXPECT_THAT(model.write_and_open(),
              AllOf(HasSubstr("missing \"layers.1.ffn.shared_experts.w2.scale\""),
                    HasSubstr("expected F8_E8M0 [2, 1]"), HasSubstr("(1 mismatch)")));
}

TEST(Checkpoint, RefusesARenamedTensorTwice) {
  SmallModel model;
  model.tensor("layers.1.ffn.experts.3.w1.weight").name = "layers.1.ffn.expert.3.w1.weight";
  EXPECT_THAT(model.write_and_open(),
              AllOf(HasSubstr("missing \"layers.1.ffn.experts.3.w1.weight\""),
                    HasSubstr("unexpected \"layers.1.ffn.expert.3.w1.weight\"")));
}

TEST(Checkpoint, RefusesAnAdditionalTensor) {
  SmallModel model;
  model.add("layers.0.attn.compressor.wkv.weight", DType::kBF16, {32, 64}, 4096);
  EXPECT_THAT(model.write_and_open(),
              AllOf(HasSubstr("unexpected \"layers.0.attn.compressor.wkv.weight\""),
                    HasSubstr("BF16 [32, 64] in \"model.safetensors\"")));
}

TEST(Checkpoint, RefusesAWrongShape) {
  SmallModel model;
  model.tensor("layers.2.attn.wq_b.weight").shape = {32, 128};
  EXPECT_THAT(model.write_and_open(),
              AllOf(HasSubstr("wrong shape \"layers.2.attn.wq_b.weight\""),
                    HasSubstr("found [32, 128]"), HasSubstr("expected [128, 32]")));
}

TEST(Checkpoint, RefusesAWrongDType) {
  SmallModel model;
  model.tensor("norm.weight").dtype = DType::kF16;
  model.tensor("layers.0.attn.wkv.scale").dtype = DType::kU8;
  EXPECT_THAT(model.write_and_open(),
              AllOf(HasSubstr("wrong dtype \"norm.weight\""), HasSubstr("found F16"),
                    HasSubstr("wrong dtype \"layers.0.attn.wkv.scale\": found U8")));
}

TEST(Checkpoint, RefusesValuesThatAreNoNumbers) {
  const std::tuple<const char*, size_t, int> cases[] = {
      {"layers.0.attn.wkv.scale", 1, 0xFF},           // E8M0 NaN
      {"layers.3.ffn.experts.7.w2.scale", 63, 0xFF},  // of a routed expert
      {"layers.0.attn.wo_b.weight", 4095, 0x7F},      // E4M3 NaN
      {"layers.0.attn.wo_b.weight", 0, 0xFF},         // negative E4M3 NaN
      {"norm.weight", 11, 0x7F},                      // BF16: 0x7Fxx, made infinite below
      {"layers.1.hc_ffn_fn", 7, 0x7F}};               // F32 likewise
  for (const auto& [name, at, value] : cases) {
    SmallModel model;
    auto& bytes = model.bytes(name);
    bytes[at] = static_cast<std::byte>(value);
    const bool wide = element_bytes(model.tensor(name).dtype) > 1;
    if (wide) bytes[at - 1] = std::byte{0x80};
    EXPECT_THAT(model.write_and_open(),
                AllOf(HasSubstr(std::string("bad value \"") + name), HasSubstr("no finite number")))
        << name;
  }
}

TEST(Checkpoint, ListsTheFirstMismatchesAndCountsTheRest) {
  SmallModel model;
  for (int e = 0; e < 8; ++e) {
    for (const char* w : {"w1", "w2"}) {
      model.remove(fmt::format("layers.2.ffn.experts.{}.{}.weight", e, w));
    }
  }
  EXPECT_THAT(model.write_and_open(), AllOf(HasSubstr("(16 mismatches)"), HasSubstr("and 8 more")));
  const base::TempDir dir;
  model.write(dir.path());
  const auto report = inspect_checkpoint(dir.path());
  ASSERT_TRUE(report);
  EXPECT_EQ(report->mismatches.size(), 16u);
  EXPECT_EQ(report->found.size(), 330u - 1 - 16);  // the golden header counts __metadata__
}

// F08: nothing but a configuration.
TEST(Checkpoint, NamesTheFileThatIsNotThere) {
  const base::TempDir dir;
  EXPECT_THAT(describe_open(dir.path()), HasSubstr("config.json"));
  std::filesystem::copy(golden::path(kSmall) / "config.json", dir.path() / "config.json");
  EXPECT_THAT(describe_open(dir.path()), HasSubstr("bad file \"model.safetensors\""));
}

TEST(Checkpoint, RefusesTruncatedAndPaddedFiles) {
  for (const int delta : {-1, -100'000, 1}) {
    const base::TempDir dir;
    SmallModel().write(dir.path());
    const Path file = dir.path() / "model.safetensors";
    std::filesystem::resize_file(file,
                                 std::filesystem::file_size(file) + static_cast<size_t>(delta));
    EXPECT_THAT(describe_open(dir.path()),
                HasSubstr(delta < 0 ? "leave the file" : "1 byte at the end"));
  }
}

// A file that cannot be read is one mismatch, not one more for every tensor in it.
TEST(Checkpoint, BlamesAnUnreadableFileOnce) {
  const auto shorten = [](const Path& file) {
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  };
  const auto overwrite = [](const Path& file) {
    ASSERT_TRUE(base::write_file_atomic(file, std::string(16, '\xFF')));
  };
  for (const auto& spoil : std::initializer_list<std::function<void(const Path&)>>{
           shorten, overwrite, [](const Path& file) { std::filesystem::remove(file); }}) {
    for (const char* name : {"b.safetensors", "model.safetensors"}) {
      const base::TempDir dir;
      SmallModel model;
      if (name[0] == 'b') {
        model.write_shards(dir.path(), [](json&) {});
      } else {
        model.write(dir.path());
      }
      spoil(dir.path() / name);
      const auto report = inspect_checkpoint(dir.path());
      ASSERT_TRUE(report);
      ASSERT_EQ(report->mismatches.size(), 1u) << report->mismatches[1].tensor;
      EXPECT_EQ(report->mismatches[0].kind, Mismatch::Kind::kFile);
      EXPECT_EQ(report->mismatches[0].tensor, name);
    }
  }
}

// What the index puts elsewhere, or nowhere, is still missing.
TEST(Checkpoint, AnUnreadableFileExcusesOnlyItsOwnTensors) {
  const base::TempDir dir;
  SmallModel model;
  model.remove("norm.weight");
  model.remove("embed.weight");
  model.write_shards(dir.path(), [](json& index) {
    index["weight_map"]["embed.weight"] = "a.safetensors";
    index["weight_map"]["norm.weight"] = "c.safetensors";
  });
  EXPECT_THAT(describe_open(dir.path()),
              AllOf(HasSubstr("bad file \"c.safetensors\""), HasSubstr("missing \"embed.weight\""),
                    Not(HasSubstr("\"norm.weight\""))));
  EXPECT_THAT(open_sharded([](json& index) { index["weight_map"] = json::object(); }),
              HasSubstr("missing \"embed.weight\""));
}

TEST(Checkpoint, RefusesAnIndexThatDisagreesWithItsShards) {
  EXPECT_THAT(
      open_sharded([](json& index) { index["weight_map"]["norm.weight"] = "c.safetensors"; }),
      AllOf(HasSubstr("bad file \"c.safetensors\""), HasSubstr("bad file \"norm.weight\"")));
  EXPECT_THAT(
      open_sharded([](json& index) { index["weight_map"]["norm.weight"] = "a.safetensors"; }),
      HasSubstr("the index puts it into \"a.safetensors\", but it is in \"b.safetensors\""));
  EXPECT_THAT(
      open_sharded([](json& index) { index["weight_map"].erase("norm.weight"); }),
      HasSubstr("\"norm.weight\": it is in \"b.safetensors\", but the index does not list"));
  EXPECT_THAT(open_sharded([](json& index) { index["weight_map"]["ghost"] = "a.safetensors"; }),
              HasSubstr("\"ghost\": the index puts it into \"a.safetensors\", which lacks it"));
  EXPECT_THAT(open_sharded([](json& index) { index.erase("weight_map"); }),
              HasSubstr("weight_map is missing"));
}

TEST(Checkpoint, RefusesAnIndexThatLeavesTheDirectory) {
  for (const char* name : {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ""}) {
    EXPECT_THAT(open_sharded([&](json& index) { index["weight_map"]["norm.weight"] = name; }),
                HasSubstr("expected the name of a file in the same directory"))
        << name;
  }
  EXPECT_THAT(open_sharded([](json& index) { index["weight_map"]["norm.weight"] = 3; }),
              HasSubstr("expected the name of a file"));
}

TEST(Checkpoint, RefusesATensorStoredTwice) {
  const base::TempDir dir;
  SmallModel model;
  model.write_shards(dir.path(),
                     [](json& index) { index["weight_map"]["copy"] = "c.safetensors"; });
  std::filesystem::copy(dir.path() / "a.safetensors", dir.path() / "c.safetensors");
  EXPECT_THAT(describe_open(dir.path()), HasSubstr("stored twice"));
}

// Download caches keep files elsewhere and link to them.
TEST(Checkpoint, FollowsSymbolicLinks) {
  const base::TempDir dir;
  for (const char* name : {"config.json", "model.safetensors"}) {
    std::filesystem::create_symlink(golden::path(kSmall) / name, dir.path() / name);
  }
  EXPECT_EQ(describe_open(dir.path()), "opened");
}

TEST(CheckValues, KnowsEveryFormat) {
  const auto check = [](DType dtype, std::vector<uint8_t> bytes) {
    const uint64_t count = bytes.size() / element_bytes(dtype);
    return check_values({dtype, {count}, std::as_bytes(std::span(bytes))}).has_value();
  };
  for (int code = 0; code < 256; ++code) {
    const auto byte = static_cast<uint8_t>(code);
    EXPECT_EQ(check(DType::kF8E8M0, {byte}), code != 0xFF) << code;
    EXPECT_EQ(check(DType::kF8E4M3, {byte}), code != 0x7F && code != 0xFF) << code;
    EXPECT_TRUE(check(DType::kI8, {byte}));
  }
  EXPECT_TRUE(check(DType::kBF16, {0x7F, 0x7F}));
  EXPECT_FALSE(check(DType::kBF16, {0x80, 0x7F}));
  EXPECT_FALSE(check(DType::kBF16, {0xC1, 0xFF}));
  EXPECT_TRUE(check(DType::kF32, {0xFF, 0xFF, 0x7F, 0x7F}));
  EXPECT_FALSE(check(DType::kF32, {0, 0, 0x80, 0xFF}));
}

}  // namespace
}  // namespace thimble::arch
