// Aim: a safetensors header is believed only when every range is right. Method: one hostile header
// per rule, each refused with the tensor's name; files written and read back; the goldens.
#include "arch/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/golden/golden.h"

namespace thimble::arch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A whole file: length, header, `data_bytes` zero bytes.
std::string file_with(std::string_view header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string out(reinterpret_cast<const char*>(&length), sizeof(length));
  return out + std::string(header) + std::string(data_bytes, '\0');
}

std::string error_of(const std::string& file) {
  const auto entries = parse_safetensors_header(std::as_bytes(std::span(file)), file.size());
  return entries ? "accepted" : entries.error().describe();
}

std::string error_with(std::string_view header, size_t data_bytes) {
  return error_of(file_with(header, data_bytes));
}

TEST(SafetensorsHeader, AcceptsWhatTheFormatAllows) {
  EXPECT_EQ(error_with("{}", 0), "accepted");
  EXPECT_EQ(error_with(R"({"__metadata__":{"format":"pt"}}   )", 0), "accepted");
  EXPECT_EQ(error_with(R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4), "accepted");
  EXPECT_EQ(error_with(R"({"a":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]}})", 0),
            "accepted");
  const std::string file = file_with(R"({"b":{"dtype":"U8","shape":[3],"data_offsets":[2,5]},)"
                                     R"("a":{"dtype":"BF16","shape":[1,1],"data_offsets":[0,2]}})",
                                     5);
  const auto entries = parse_safetensors_header(std::as_bytes(std::span(file)), file.size());
  ASSERT_TRUE(entries) << entries.error().describe();
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_THAT((*entries)[0].shape, ElementsAre(1, 1));
  EXPECT_EQ((*entries)[1].end, file.size());
}

TEST(SafetensorsHeader, RefusesBadLengths) {
  EXPECT_THAT(error_of("1234567"), HasSubstr("has 7 bytes"));
  EXPECT_THAT(error_of(std::string(8, '\xff')), HasSubstr("at most 100000000"));
  std::string longer = file_with("{}", 0);
  longer[0] = 3;
  EXPECT_THAT(error_of(longer), HasSubstr("claims 3 bytes"));
  EXPECT_THAT(error_with("", 0), HasSubstr("does not start with {"));
  EXPECT_THAT(error_with(" {}", 0), HasSubstr("does not start with {"));
  // The file is as long as it says, but only a part of it was handed over.
  const std::string cut = file_with("{}", 0).substr(0, 9);
  EXPECT_FALSE(parse_safetensors_header(std::as_bytes(std::span(cut)), 1000));
}

TEST(SafetensorsHeader, RefusesBadJson) {
  EXPECT_THAT(error_with("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_with("{\"\xff\":1}", 0), HasSubstr("not valid JSON"));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100; ++i) deep += "{\"a\":";
  EXPECT_THAT(error_with(deep, 0), HasSubstr("JSON"));
  std::string wide = "{\"a\":[";
  for (int i = 0; i < (1 << 22); ++i) wide += "1,";
  EXPECT_THAT(error_with(wide + "1]}", 0), HasSubstr("more than 4194304 values"));
  EXPECT_THAT(error_with(R"({"a":1})", 0), HasSubstr("\"a\": is 1; expected an object"));
  EXPECT_THAT(error_with(R"({"__metadata__":{"a":1}})", 0), HasSubstr("expected a string"));
  EXPECT_THAT(error_with(R"({"__metadata__":[]})", 0), HasSubstr("expected an object"));
  EXPECT_THAT(error_with(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                         R"("a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                         2),
              HasSubstr("\"a\" appears twice"));
}

TEST(SafetensorsHeader, RefusesBadFieldsByTensorName) {
  const auto with = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return error_with(fmt::format(R"({{"w.x":{{"dtype":{},"shape":{},"data_offsets":{}}}}})", dtype,
                                  shape, offsets),
                      8);
  };
  EXPECT_EQ(with("\"F32\"", "[2]", "[0,8]"), "accepted");
  EXPECT_THAT(with("\"F33\"", "[2]", "[0,8]"), HasSubstr("\"w.x\": dtype \"F33\" is unknown"));
  EXPECT_THAT(with("4", "[2]", "[0,8]"), HasSubstr("dtype is 4"));
  EXPECT_THAT(with("\"F32\"", "[-2]", "[0,8]"), HasSubstr("shape[0] is -2"));
  EXPECT_THAT(with("\"F32\"", "[2.0]", "[0,8]"), HasSubstr("shape[0] is 2"));
  EXPECT_THAT(with("\"F32\"", "\"2\"", "[0,8]"), HasSubstr("shape is \"2\""));
  EXPECT_THAT(with("\"F32\"", "[2]", "[-8,8]"), HasSubstr("data_offsets[0] is -8"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[8,0]"), HasSubstr("expected begin and end, ascending"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0,8,8]"), HasSubstr("expected begin and end"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0,9]"), HasSubstr("leave the file: 8 bytes"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0,18446744073709551615]"), HasSubstr("leave the file"));
  EXPECT_THAT(with("\"F32\"", "[2]", "[0,18446744073709551616]"),
              HasSubstr("w.x.data_offsets[1] is 18446744073709551616"));
  EXPECT_THAT(with("\"F32\"", "[3]", "[0,8]"), HasSubstr("F32 [3] takes 12 bytes"));
  EXPECT_THAT(with("\"F32\"", "[4294967296,4294967296]", "[0,8]"), HasSubstr("more than 2^64"));
  EXPECT_THAT(with("\"F32\"", "[0,4294967296,4294967296,4]", "[0,8]"), HasSubstr("takes 0 bytes"));
  EXPECT_THAT(error_with(R"({"w":{"dtype":"U8","shape":[0]}})", 0),
              HasSubstr("data_offsets is missing"));
  EXPECT_THAT(error_with(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"q":1}})", 0),
              HasSubstr("unknown key \"q\""));
}

TEST(SafetensorsHeader, RefusesOverlapsHolesAndLeftovers) {
  const auto two = [](std::string_view a, std::string_view b, size_t bytes) {
    return error_with(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                                  R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                                  a, b),
                      bytes);
  };
  EXPECT_EQ(two("[0,4]", "[4,8]", 8), "accepted");
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "accepted");
  EXPECT_THAT(two("[0,4]", "[3,7]", 7), HasSubstr("tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(two("[0,4]", "[0,4]", 4), HasSubstr("tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(two("[0,4]", "[5,9]", 9), HasSubstr("1 byte before tensor \"b\""));
  EXPECT_THAT(two("[1,5]", "[5,9]", 9), HasSubstr("1 byte before tensor \"a\""));
  EXPECT_THAT(two("[0,4]", "[4,8]", 10), HasSubstr("2 bytes at the end"));
}

// A tensor moved onto another leaves a gap where it was; the overlap is what went wrong.
TEST(SafetensorsHeader, NamesBothOfAnOverlapBeforeTheGapItLeaves) {
  const auto three = [](std::string_view a, std::string_view b, std::string_view c) {
    return error_with(fmt::format(R"({{"a":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                                  R"("b":{{"dtype":"U8","shape":[4],"data_offsets":{}}},)"
                                  R"("c":{{"dtype":"U8","shape":[4],"data_offsets":{}}}}})",
                                  a, b, c),
                      12);
  };
  EXPECT_EQ(three("[0,4]", "[4,8]", "[8,12]"), "accepted");
  EXPECT_THAT(three("[4,8]", "[4,8]", "[8,12]"), HasSubstr("tensors \"a\" and \"b\" overlap"));
  EXPECT_THAT(three("[0,4]", "[8,12]", "[6,10]"), HasSubstr("tensors \"c\" and \"b\" overlap"));
  EXPECT_THAT(three("[0,4]", "[6,10]", "[7,11]"), HasSubstr("tensors \"b\" and \"c\" overlap"));
}

TEST(SafetensorsHeader, EscapesNamesInMessages) {
  EXPECT_THAT(error_with("{\"\\u001b[2J\":1}", 0), HasSubstr("\"\\x1b[2J\""));
}

TEST(Safetensors, WritesWhatItReads) {
  const base::TempDir dir;
  const Path path = dir.path() / "x.safetensors";
  const std::vector<float> floats = {1.5f, -2.0f, 3.25f};
  const std::vector<uint8_t> bytes = {1, 2, 3, 4, 5};
  const std::vector<int64_t> wide = {-1};
  ASSERT_TRUE(
      write_safetensors(path, {{"bytes", DType::kU8, {5}, std::as_bytes(std::span(bytes))},
                               {"floats", DType::kF32, {3}, std::as_bytes(std::span(floats))},
                               {"empty", DType::kF32, {0, 7}, {}},
                               {"wide", DType::kI64, {}, std::as_bytes(std::span(wide))}}));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file) << file.error().describe();
  EXPECT_THAT(file->get("bytes")->as<uint8_t>(), ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(file->get("floats")->as<float>(), ElementsAre(1.5f, -2.0f, 3.25f));
  EXPECT_THAT(file->get("wide")->as<int64_t>(), ElementsAre(-1));
  EXPECT_EQ(file->get("empty")->elements(), 0u);
  EXPECT_THAT(file->get("nothing").error().describe(), HasSubstr("x.safetensors has no tensor"));
  // Wide elements first, so that everything is aligned where it lies.
  EXPECT_EQ(file->entries().front().name, "wide");
  EXPECT_EQ(file->entries().front().begin % 8, 0u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(Safetensors, FillsInPieces) {
  const base::TempDir dir;
  const Path path = dir.path() / "x.safetensors";
  const uint64_t count = kFillBytes / 4 * 2 + 3;
  std::vector<uint64_t> offsets;
  ASSERT_TRUE(write_safetensors(path, std::vector<TensorSpec>{{"n", DType::kU32, {count}}},
                                [&](size_t, uint64_t offset, std::span<std::byte> out) {
                                  offsets.push_back(offset);
                                  auto* to = reinterpret_cast<uint32_t*>(out.data());
                                  for (size_t i = 0; i < out.size() / 4; ++i) {
                                    to[i] = static_cast<uint32_t>(offset / 4 + i);
                                  }
                                }));
  EXPECT_THAT(offsets, ElementsAre(0, kFillBytes, 2 * kFillBytes));
  const auto file = SafetensorsFile::open(path);
  ASSERT_TRUE(file);
  const auto view = *file->get("n");
  const auto values = view.as<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(values[i], i);
}

TEST(Safetensors, ReportsWhereItCannotWriteOrRead) {
  EXPECT_THAT(
      write_safetensors("/nowhere/x.safetensors", std::vector<TensorToWrite>{}).error().describe(),
      HasSubstr("/nowhere/x.safetensors"));
  EXPECT_EQ(SafetensorsFile::open("/nowhere/x").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(SafetensorsFile::open("/tmp"));
  const base::TempDir dir;
  ASSERT_TRUE(base::write_file_atomic(dir.path() / "e", ""));
  EXPECT_THAT(SafetensorsFile::open(dir.path() / "e").error().describe(), HasSubstr("0 bytes"));
}

// The format promises no alignment: these files hold floats at odd addresses.
TEST(Safetensors, MisalignedTensorsAreSafeToRead) {
  const auto file = golden::open("t2_text_minimal/model/model.safetensors");
  size_t misaligned = 0;
  for (const TensorEntry& entry : file.entries()) {
    misaligned += entry.begin % element_bytes(entry.dtype) != 0 ? 1 : 0;
    const TensorView& view = file.tensors().at(entry.name);
    const auto address = reinterpret_cast<uintptr_t>(view.data.data());
    EXPECT_EQ(address % element_bytes(entry.dtype), 0u) << entry.name;
  }
  EXPECT_EQ(misaligned, 16u);
  const auto sink = golden::view(file, "layers.1.attn.attn_sink").as<float>();
  EXPECT_EQ(sink.size(), 4u);
  for (const float value : sink) EXPECT_LT(std::abs(value), 10.0f);
}

}  // namespace
}  // namespace thimble::arch
