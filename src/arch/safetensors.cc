#include "arch/safetensors.h"

#include <algorithm>

#include "arch/internal/json.h"
#include "base/bytes.h"

namespace thimble::arch {
namespace {

constexpr uint64_t kLengthBytes = 8;  // the header's length, before it
constexpr size_t kMaxRank = 16;

struct DTypeInfo {
  DType dtype;
  const char* name;
  uint32_t bytes;
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kF32, "F32", 4},        {DType::kBF16, "BF16", 2}, {DType::kF8E4M3, "F8_E4M3", 1},
    {DType::kF8E8M0, "F8_E8M0", 1}, {DType::kI8, "I8", 1},     {DType::kU8, "U8", 1},
    {DType::kI16, "I16", 2},        {DType::kU16, "U16", 2},   {DType::kI32, "I32", 4},
    {DType::kU32, "U32", 4},        {DType::kI64, "I64", 8},   {DType::kU64, "U64", 8},
    {DType::kF16, "F16", 2},        {DType::kF64, "F64", 8},   {DType::kF8E5M2, "F8_E5M2", 1},
    {DType::kBool, "BOOL", 1},
};

const DTypeInfo& info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

static_assert([] {
  for (size_t i = 0; i < std::size(kDTypes); ++i) {
    if (static_cast<size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}());

// Product of `shape` times `element` bytes; empty where it exceeds 64 bits.
std::optional<uint64_t> byte_count(std::span<const uint64_t> shape, uint64_t element) {
  uint64_t bytes = element;
  for (const uint64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::nullopt;
  }
  return bytes;
}

tl::unexpected<Error> corrupt(std::string message) {
  return fail(ErrorCode::kCorrupt, "{}", std::move(message));
}

Result<std::vector<uint64_t>> parse_integers(const Json* list, std::string_view what) {
  const auto* array = list == nullptr ? nullptr : list->get<Json::Array>();
  if (array == nullptr || array->size() > kMaxRank) {
    return corrupt(fmt::format("{} is {}; expected a list of at most {} integers", what,
                               list == nullptr ? "missing" : brief(*list), kMaxRank));
  }
  std::vector<uint64_t> out;
  for (const Json& item : *array) {
    const auto* number = item.get<uint64_t>();
    if (number == nullptr) {
      return corrupt(fmt::format("{}[{}] is {}; expected a non-negative 64-bit integer", what,
                                 out.size(), brief(item)));
    }
    out.push_back(*number);
  }
  return out;
}

Result<DType> parse_dtype_field(const Json* field) {
  const auto* name = field == nullptr ? nullptr : field->get<std::string>();
  if (name == nullptr) {
    return corrupt(fmt::format("dtype is {}; expected a string",
                               field == nullptr ? "missing" : brief(*field)));
  }
  const auto dtype = parse_dtype(*name);
  if (!dtype) return fail(ErrorCode::kUnsupported, "dtype {} is unknown", in_quotes(*name));
  return *dtype;
}

// `data_begin` is the file offset that data_offsets count from.
Result<TensorEntry> parse_entry(std::string_view name, const Json& json, uint64_t data_begin,
                                uint64_t file_bytes) {
  const auto* object = json.get<Json::Object>();
  if (object == nullptr) return corrupt(fmt::format("is {}; expected an object", brief(json)));
  for (const auto& [key, value] : *object) {
    if (key != "dtype" && key != "shape" && key != "data_offsets") {
      return corrupt(fmt::format("has the unknown key {}", in_quotes(key)));
    }
  }
  TensorEntry entry;
  entry.name = name;
  entry.dtype = THIMBLE_TRY(parse_dtype_field(json.find("dtype")));
  entry.shape = THIMBLE_TRY(parse_integers(json.find("shape"), "shape"));
  const auto range = THIMBLE_TRY(parse_integers(json.find("data_offsets"), "data_offsets"));
  if (range.size() != 2 || range[0] > range[1]) {
    return corrupt(
        fmt::format("data_offsets is {}; expected begin and end, ascending", to_string(range)));
  }
  if (range[1] > file_bytes - data_begin) {
    return corrupt(fmt::format("data_offsets {} leave the file: {} bytes of data are there",
                               to_string(range), file_bytes - data_begin));
  }
  const auto bytes = byte_count(entry.shape, element_bytes(entry.dtype));
  if (!bytes || *bytes != range[1] - range[0]) {
    return corrupt(fmt::format("{} {} takes {} bytes, but data_offsets {} hold {}",
                               to_string(entry.dtype), to_string(entry.shape),
                               bytes ? fmt::format("{}", *bytes) : "more than 2^64",
                               to_string(range), range[1] - range[0]));
  }
  entry.begin = data_begin + range[0];
  entry.end = data_begin + range[1];
  return entry;
}

Result<void> check_metadata(const Json& json) {
  const auto* object = json.get<Json::Object>();
  if (object == nullptr) {
    return corrupt(fmt::format("__metadata__ is {}; expected an object", brief(json)));
  }
  for (const auto& [key, value] : *object) {
    if (value.get<std::string>() == nullptr) {
      return corrupt(
          fmt::format("__metadata__ {} is {}; expected a string", in_quotes(key), brief(value)));
    }
  }
  return {};
}

// No byte belongs to two tensors. Asked before coverage: a tensor that was moved onto another also
// leaves a gap, which says less.
Result<void> check_overlaps(std::span<const TensorEntry> sorted) {
  for (size_t i = 1; i < sorted.size(); ++i) {
    const TensorEntry& first = sorted[i - 1];
    const TensorEntry& second = sorted[i];
    if (second.begin >= first.end) continue;
    return corrupt(
        fmt::format("tensors {} and {} overlap: they are bytes {} to {} and {} to {} of the file",
                    in_quotes(first.name), in_quotes(second.name), first.begin, first.end,
                    second.begin, second.end));
  }
  return {};
}

// The format wants the data covered from first to last byte. REQUIRES: no overlaps.
Result<void> check_coverage(std::span<const TensorEntry> sorted, uint64_t data_begin,
                            uint64_t file_bytes) {
  uint64_t covered = data_begin;
  const auto bytes = [](uint64_t count) { return base::counted(count, "byte", "bytes"); };
  for (const TensorEntry& entry : sorted) {
    if (entry.begin > covered) {
      return corrupt(fmt::format("no tensor covers {} before tensor {} (from byte {} on)",
                                 bytes(entry.begin - covered), in_quotes(entry.name), covered));
    }
    covered = entry.end;
  }
  if (covered != file_bytes) {
    return corrupt(fmt::format("no tensor covers {} at the end (from byte {} on)",
                               bytes(file_bytes - covered), covered));
  }
  return {};
}

// The header's text, once its length is believable.
Result<std::string_view> header_text(Bytes file_head, uint64_t file_bytes) {
  if (file_bytes < kLengthBytes || file_head.size() < kLengthBytes) {
    return corrupt(fmt::format("the file has {} bytes; a safetensors file has at least {}",
                               file_bytes, kLengthBytes));
  }
  const auto length = base::load<uint64_t>(file_head.data());
  if (length > kMaxHeaderBytes) {
    return corrupt(fmt::format("the header claims {} bytes; at most {} are accepted", length,
                               kMaxHeaderBytes));
  }
  if (length > file_bytes - kLengthBytes || length > file_head.size() - kLengthBytes) {
    return corrupt(
        fmt::format("the header claims {} bytes, but the file has only {}", length, file_bytes));
  }
  const std::string_view text(reinterpret_cast<const char*>(file_head.data()) + kLengthBytes,
                              length);
  if (!text.starts_with('{')) return corrupt("the header does not start with {");
  return text;
}

}  // namespace

const char* to_string(DType dtype) { return info(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& entry : kDTypes) {
    if (name == entry.name) return entry.dtype;
  }
  return std::nullopt;
}

uint32_t element_bytes(DType dtype) { return info(dtype).bytes; }

std::string to_string(std::span<const uint64_t> shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

uint64_t TensorView::elements() const { return data.size() / element_bytes(dtype); }

Result<std::vector<TensorEntry>> parse_safetensors_header(Bytes file_head, uint64_t file_bytes) {
  const std::string_view text = THIMBLE_TRY(header_text(file_head, file_bytes));
  const uint64_t data_begin = kLengthBytes + text.size();
  const Json root = THIMBLE_TRY(base::in(parse_json(text), "header"));
  std::vector<TensorEntry> entries;
  for (const auto& [name, value] : *root.get<Json::Object>()) {
    if (name == "__metadata__") {
      THIMBLE_TRY(check_metadata(value));
    } else {
      entries.push_back(THIMBLE_TRY(base::in(parse_entry(name, value, data_begin, file_bytes),
                                             fmt::format("tensor {}", in_quotes(name)))));
    }
  }
  std::ranges::stable_sort(entries, {},
                           [](const TensorEntry& e) { return std::pair(e.begin, e.end); });
  THIMBLE_TRY(check_overlaps(entries));
  THIMBLE_TRY(check_coverage(entries, data_begin, file_bytes));
  return entries;
}

Result<SafetensorsFile> SafetensorsFile::open(const Path& path) {
  SafetensorsFile file(THIMBLE_TRY(base::MappedFile::open(path)));
  const Bytes bytes = file.file_.bytes();
  file.entries_ =
      THIMBLE_TRY(base::in(parse_safetensors_header(bytes, bytes.size()), path.string()));
  for (const TensorEntry& entry : file.entries_) {
    TensorView view{entry.dtype, entry.shape, bytes.subspan(entry.begin, entry.end - entry.begin)};
    if (entry.begin % element_bytes(entry.dtype) != 0) {
      auto& copy =
          file.copies_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(view.data.size()));
      std::ranges::copy(view.data, copy.get());
      view.data = {copy.get(), view.data.size()};
    }
    file.tensors_.emplace(entry.name, std::move(view));
  }
  return file;
}

Result<TensorView> SafetensorsFile::get(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it != tensors_.end()) return it->second;
  return fail(ErrorCode::kNotFound, "{} has no tensor {}", path().string(), in_quotes(name));
}

}  // namespace thimble::arch
