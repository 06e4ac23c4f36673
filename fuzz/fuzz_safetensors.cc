// Files that call themselves safetensors, from strangers.
//
// The first byte chooses: the input is a whole file; or it is a header, and the length before it
// and the data after it fit; or tensors are made up and a few of their numbers spoilt. Whatever is
// accepted covers the file's data exactly once, in order, with sizes that follow from shapes.
#include <nlohmann/json.hpp>
#include <set>

#include "arch/safetensors.h"
#include "base/check.h"
#include "fuzz/input.h"

namespace thimble::arch {
namespace {

using fuzz::Input;

void check_entries(const std::vector<TensorEntry>& entries, const std::string& file) {
  uint64_t covered = 8 + base::load<uint64_t>(file.data());
  std::set<std::string> names;
  for (const TensorEntry& entry : entries) {
    CHECK_EQ(entry.begin, covered);
    CHECK_LE(entry.end, file.size());
    uint64_t bytes = element_bytes(entry.dtype);
    for (const uint64_t extent : entry.shape) {
      CHECK(extent == 0 || bytes <= UINT64_MAX / extent);
      bytes *= extent;
    }
    CHECK_EQ(entry.end - entry.begin, bytes);
    CHECK(names.insert(entry.name).second);
    covered = entry.end;
  }
  CHECK_EQ(covered, file.size());
}

void check_file(const std::string& file) {
  const Bytes bytes = std::as_bytes(std::span(file));
  const auto entries = parse_safetensors_header(bytes, file.size());
  if (entries) {
    check_entries(*entries, file);
  } else {
    CHECK(!entries.error().message.empty());
  }
  // A reader that has only the head of a longer file must not look beyond it.
  const std::string head = file.substr(0, file.size() / 2);
  const auto cut = parse_safetensors_header(std::as_bytes(std::span(head)), file.size());
  CHECK(!cut || entries);
}

std::string with_length(std::string header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  return file + std::move(header) + std::string(data_bytes, '\0');
}

void header_alone(Input& input) {
  const size_t data_bytes = input.below(300);
  check_file(with_length(std::string(input.rest()), data_bytes));
}

// Numbers a header must not be believed for.
nlohmann::json take_number(Input& input) {
  switch (input.below(8)) {
    case 0:
      return -1;
    case 1:
      return UINT64_MAX;
    case 2:
      return 1ULL << 32;
    case 3:
      return 0.5;
    case 4:
      return nullptr;
    case 5:
      return input.text(4);
    default:
      return input.below(300);
  }
}

void made_header(Input& input) {
  constexpr const char* kDTypes[] = {"F32", "BF16", "F8_E4M3", "F8_E8M0", "I8", "I64", "F33"};
  auto header = nlohmann::ordered_json::object();
  uint64_t offset = 0;
  for (size_t count = input.below(6); count > 0; --count) {
    const char* dtype = kDTypes[input.below(std::size(kDTypes))];
    const uint64_t rows = input.below(4), columns = input.below(4);
    const uint64_t bytes = rows * columns * element_bytes(parse_dtype(dtype).value_or(DType::kU8));
    auto& tensor = header[fmt::format("t{}", input.below(8))];
    tensor = {
        {"dtype", dtype}, {"shape", {rows, columns}}, {"data_offsets", {offset, offset + bytes}}};
    offset += bytes;
    if (input.below(4) == 0) tensor["data_offsets"][input.below(2)] = take_number(input);
    if (input.below(8) == 0) tensor["shape"][input.below(2)] = take_number(input);
    if (input.below(16) == 0) tensor[input.text(6)] = take_number(input);
  }
  if (input.below(8) == 0) header["__metadata__"] = {{"k", take_number(input)}};
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  check_file(with_length(header.dump(-1, ' ', false, replace), offset));
}

}  // namespace
}  // namespace thimble::arch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::fuzz::Input input(data, size);
  switch (input.below(3)) {
    case 0:
      thimble::arch::check_file(std::string(input.rest()));
      break;
    case 1:
      thimble::arch::header_alone(input);
      break;
    default:
      thimble::arch::made_header(input);
  }
  return 0;
}
