#include "kernels/view.h"

#include "base/check.h"
#include "kernels/packed.h"

namespace thimble::kernels {

WeightView WeightView::outputs(uint32_t begin, uint32_t count) const {
  CHECK_LE(uint64_t{begin} + count, rows);
  WeightView view = *this;
  view.rows = count;
  switch (format) {
    case WeightFormat::kF32:
      view.codes += uint64_t{begin} * cols * 4;
      break;
    case WeightFormat::kBF16:
      view.codes += uint64_t{begin} * cols * 2;
      break;
    case WeightFormat::kFp8Block32:
      view.codes += uint64_t{begin} * cols;
      view.scales += uint64_t{(block_row + begin) / 32} * (cols / 32);
      view.block_row = (block_row + begin) % 32;
      break;
    case WeightFormat::kFp4Group32:
      view.codes += uint64_t{begin} * (cols / 2);
      view.scales += uint64_t{begin} * (cols / 32);
      break;
  }
  if (packed != nullptr && begin % kPackOutputs == 0) {
    view.packed = packed + begin / kPackOutputs * pack_block_bytes(format, cols);
  } else {
    view.packed = nullptr;
  }
  return view;
}

uint64_t WeightView::code_bytes() const {
  const uint64_t values = uint64_t{rows} * cols;
  switch (format) {
    case WeightFormat::kF32:
      return values * 4;
    case WeightFormat::kBF16:
      return values * 2;
    case WeightFormat::kFp8Block32:
      return values;
    case WeightFormat::kFp4Group32:
      return values / 2;
  }
  return 0;
}

uint64_t WeightView::scale_bytes() const {
  const uint64_t groups = cols / 32;
  if (format == WeightFormat::kFp8Block32) return (uint64_t{rows} + 31) / 32 * groups;
  return format == WeightFormat::kFp4Group32 ? rows * groups : 0;
}

}  // namespace thimble::kernels
