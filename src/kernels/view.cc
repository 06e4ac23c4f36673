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

}  // namespace thimble::kernels
