// The safetensors container: read by mapping, written for `init`, `logits` and tests.
//
// A header is believed only after every range is checked: inside the file, no overlap, no hole, no
// byte left over, byte count equal to shape times element size. Views point into the mapping and
// live as long as the file object; the one exception are tensors that do not lie on a multiple of
// their element size, which the format allows: those are copied at open, so that as<T>() is always
// safe. Open files may be read from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"
#include "base/file.h"
#include "base/result.h"

namespace thimble::arch {

// All that the format knows; a checkpoint uses the first five.
enum class DType {
  kF32,
  kBF16,
  kF8E4M3,
  kF8E8M0,
  kI8,
  kU8,
  kI16,
  kU16,
  kI32,
  kU32,
  kI64,
  kU64,
  kF16,
  kF64,
  kF8E5M2,
  kBool,
};

const char* to_string(DType dtype);  // as safetensors spells it: "F8_E4M3"
std::optional<DType> parse_dtype(std::string_view name);
uint32_t element_bytes(DType dtype);

// "[1280, 5120]"
std::string to_string(std::span<const uint64_t> shape);

struct TensorView {
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  Bytes data;

  uint64_t elements() const;
  // REQUIRES: T has the size of the dtype's elements.
  template <class T>
  std::span<const T> as() const {
    CHECK_EQ(sizeof(T), element_bytes(dtype));
    CHECK_EQ(reinterpret_cast<uintptr_t>(data.data()) % alignof(T), 0u);
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

// Headers beyond this are refused, as by the format's own library.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

// Parses and checks a header: `file_head` starts at byte 0 of a file of `file_bytes` bytes and
// holds at least the whole header (or all of the file). The entries come in file order. Fuzzed;
// never reads outside `file_head`.
Result<std::vector<TensorEntry>> parse_safetensors_header(Bytes file_head, uint64_t file_bytes);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const Path& path);
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  Result<TensorView> get(std::string_view name) const;  // kNotFound names file and tensor
  const std::vector<TensorEntry>& entries() const { return entries_; }
  const Path& path() const { return file_.path(); }

 private:
  explicit SafetensorsFile(base::MappedFile file) : file_(std::move(file)) {}
  base::MappedFile file_;
  std::vector<TensorEntry> entries_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;  // of misaligned tensors
  std::map<std::string, TensorView, std::less<>> tensors_;
};

// A tensor to be written; `data` must stay valid until write_safetensors() returns.
struct TensorToWrite {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  Bytes data;
};

// Writes atomically (temporary sibling, then rename). The format allows no padding between tensors,
// so those with wider elements come first and every tensor lies on a multiple of its element size;
// among equals the given order is kept.
Result<void> write_safetensors(const Path& path, const std::vector<TensorToWrite>& tensors);

// A tensor whose bytes are made while the file is written.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;

  uint64_t bytes() const;
};

// Fills `out` with the bytes of tensor `index` from `offset` on. Pieces come in ascending order and
// are at most kFillBytes long; all but a tensor's last have exactly that length.
inline constexpr uint64_t kFillBytes = 1 << 20;
using FillTensor = std::function<void(size_t index, uint64_t offset, std::span<std::byte> out)>;

// As above, for content larger than memory.
Result<void> write_safetensors(const Path& path, const std::vector<TensorSpec>& tensors,
                               const FillTensor& fill);

}  // namespace thimble::arch
