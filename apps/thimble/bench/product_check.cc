#include "apps/thimble/bench/product_check.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace thimble::app {
namespace {

struct Exact {
  double value = 0;
  double error = 0;  // at most
};

Exact product(std::span<const float> x, std::span<const float> w, bool rounds_x) {
  constexpr size_t kGroup = 32;
  Exact out;
  double magnitude = 0;
  for (size_t begin = 0; begin < x.size(); begin += kGroup) {
    double amax = 0;
    double weights = 0;
    for (size_t k = begin; k < std::min(x.size(), begin + kGroup); ++k) {
      out.value += double{x[k]} * w[k];
      magnitude += std::fabs(double{x[k]} * w[k]);
      weights += std::fabs(double{w[k]});
      amax = std::max(amax, std::fabs(double{x[k]}));
    }
    if (rounds_x) out.error += amax / 254 * weights;
  }
  const auto cols = static_cast<double>(x.size());
  out.error +=
      (std::max(std::min(cols, 512.0) / 16 + cols / 512, cols / 32) + 36) * 0x1p-24 * magnitude;
  return out;
}

}  // namespace

Result<void> check_product(const kernels::WeightView& weight, kernels::Rows<const float> x,
                           kernels::Rows<const float> y) {
  const bool rounds_x = weight.format == kernels::WeightFormat::kFp4Group32 &&
                        weight.arithmetic == kernels::Arithmetic::kFast;
  std::vector<float> w(weight.cols);
  for (const uint32_t output : {0U, 17U % weight.rows, weight.rows / 2, weight.rows - 1}) {
    kernels::decode_weight_row(weight, output, w);
    for (const uint64_t row : {uint64_t{0}, x.rows - 1}) {
      const Exact exact = product({x.row(row), x.cols}, w, rounds_x);
      const double found = y.row(row)[output];
      if (std::fabs(found - exact.value) <= exact.error) continue;
      return base::fail(ErrorCode::kInternal, "output {} of row {} is {}; expected {} within {}",
                        output, row, found, exact.value, exact.error);
    }
  }
  return {};
}

}  // namespace thimble::app
