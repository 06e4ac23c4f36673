#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "arch/safetensors.h"

namespace thimble::arch {
namespace {

constexpr uint64_t kHeaderAlignment = 8;

// Positions of `tensors` in the order they are written: wide elements first.
std::vector<size_t> writing_order(const std::vector<TensorSpec>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t i) { return element_bytes(tensors[i].dtype); });
  return order;
}

// Length, JSON and spaces up to a multiple of eight.
std::string make_header(const std::vector<TensorSpec>& tensors, const std::vector<size_t>& order) {
  auto json = nlohmann::ordered_json::object();
  json["__metadata__"] = {{"format", "pt"}};
  uint64_t offset = 0;
  for (const size_t i : order) {
    const uint64_t end = offset + tensors[i].bytes();
    json[tensors[i].name] = {{"dtype", to_string(tensors[i].dtype)},
                             {"shape", tensors[i].shape},
                             {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = json.dump();
  text.resize(base::div_ceil(text.size(), kHeaderAlignment) * kHeaderAlignment, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

Result<void> write_tensor(base::FileWriter& file, const TensorSpec& spec, size_t index,
                          const FillTensor& fill, std::vector<std::byte>& buffer) {
  const uint64_t bytes = spec.bytes();
  for (uint64_t offset = 0; offset < bytes; offset += kFillBytes) {
    const std::span<std::byte> piece(buffer.data(), std::min(kFillBytes, bytes - offset));
    fill(index, offset, piece);
    THIMBLE_TRY(file.write(piece));
  }
  return {};
}

}  // namespace

uint64_t TensorSpec::bytes() const {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{element_bytes(dtype)},
                         std::multiplies<>());
}

Result<void> write_safetensors(const Path& path, const std::vector<TensorSpec>& tensors,
                               const FillTensor& fill) {
  const std::vector<size_t> order = writing_order(tensors);
  const std::string header = make_header(tensors, order);
  base::FileWriter file = THIMBLE_TRY(base::FileWriter::open(path));
  THIMBLE_TRY(file.write(std::as_bytes(std::span(header))));
  std::vector<std::byte> buffer(kFillBytes);
  for (const size_t i : order) THIMBLE_TRY(write_tensor(file, tensors[i], i, fill, buffer));
  return file.commit();
}

Result<void> write_safetensors(const Path& path, const std::vector<TensorToWrite>& tensors) {
  std::vector<TensorSpec> specs;
  for (const TensorToWrite& tensor : tensors) {
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
    CHECK_EQ(specs.back().bytes(), tensor.data.size());
  }
  return write_safetensors(path, specs,
                           [&](size_t index, uint64_t offset, std::span<std::byte> out) {
                             const Bytes from = tensors[index].data.subspan(offset, out.size());
                             std::ranges::copy(from, out.begin());
                           });
}

}  // namespace thimble::arch
