// The safetensors container: read by mapping, written for `init`, `logits` and tests.
//
// A header is believed only after every range is checked: inside the file, not overlapping, byte
// count equal to shape times element size. Nothing is copied; views live as long as the file object.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "base/result.h"

namespace thimble::arch {

enum class DType { kF32, kBF16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64 };

const char* to_string(DType dtype);                      // as safetensors spells it: "F8_E4M3"
std::optional<DType> parse_dtype(std::string_view name);
uint32_t element_bytes(DType dtype);

struct TensorView {
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  Bytes data;

  uint64_t elements() const;
  // REQUIRES: the dtype matches T's size and the data is aligned for T.
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T)};
  }
};

// Where a tensor lies, as a header says it. Ranges are relative to the file's start.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Parses and checks a header: `file_head` starts at byte 0 of a file of `file_bytes` bytes and holds
// at least the whole header (or all of the file). Fuzzed; never reads outside `file_head`.
Result<std::vector<TensorEntry>> parse_safetensors_header(Bytes file_head, uint64_t file_bytes);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const Path& path);
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  Result<TensorView> get(std::string_view name) const;  // kNotFound names file and tensor
  const Path& path() const { return file_.path(); }

 private:
  explicit SafetensorsFile(base::MappedFile file) : file_(std::move(file)) {}
  base::MappedFile file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

// A tensor to be written; `data` must stay valid until write_safetensors() returns.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  Bytes data;
};

// Writes atomically (temporary sibling, then rename), tensors in the given order, 8-byte aligned.
Result<void> write_safetensors(const Path& path, const std::vector<TensorToWrite>& tensors);

}  // namespace thimble::arch
