#include <cstring>

#include "arch/checkpoint.h"

namespace thimble::arch {
namespace {

// Elements in a block that is first tested as a whole, so that the loop vectorises.
constexpr size_t kBlock = 4096;

// Index of the first element that `is_bad`; elements() if none.
template <class T, class IsBad>
size_t first_bad(std::span<const T> values, IsBad is_bad) {
  for (size_t begin = 0; begin < values.size(); begin += kBlock) {
    const auto block = values.subspan(begin, std::min(kBlock, values.size() - begin));
    unsigned any = 0;
    for (const T value : block) any |= static_cast<unsigned>(is_bad(value));
    if (any == 0) continue;
    for (size_t i = 0; i < block.size(); ++i) {
      if (is_bad(block[i])) return begin + i;
    }
  }
  return values.size();
}

size_t first_not_finite(const TensorView& tensor) {
  switch (tensor.dtype) {
    case DType::kF8E8M0:
      return first_bad(tensor.as<uint8_t>(), [](uint8_t v) { return v == 0xFF; });
    case DType::kF8E4M3:
      return first_bad(tensor.as<uint8_t>(), [](uint8_t v) { return (v & 0x7F) == 0x7F; });
    case DType::kBF16:
      return first_bad(tensor.as<uint16_t>(), [](uint16_t v) { return (v & 0x7F80) == 0x7F80; });
    case DType::kF32:
      return first_bad(tensor.as<uint32_t>(),
                       [](uint32_t v) { return (v & 0x7F800000u) == 0x7F800000u; });
    default:
      return tensor.elements();  // integers, and formats no checkpoint uses
  }
}

}  // namespace

Result<void> check_values(const TensorView& tensor) {
  const size_t bad = first_not_finite(tensor);
  if (bad == tensor.elements()) return {};
  std::string bytes;
  const uint32_t width = element_bytes(tensor.dtype);
  for (uint32_t i = width; i-- > 0;) {  // most significant first, as numbers are written
    bytes += fmt::format("{:02X}", std::to_integer<unsigned>(tensor.data[bad * width + i]));
  }
  return fail(ErrorCode::kCorrupt, "element {} of {} {} is 0x{}, which is no finite number", bad,
              to_string(tensor.dtype), to_string(tensor.shape), bytes);
}

}  // namespace thimble::arch
