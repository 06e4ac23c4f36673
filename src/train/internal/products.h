// Large products in the chosen precision.
#pragma once

#include "train/internal/ops.h"

namespace thimble::train::internal {

// `x` as a factor: itself, or rounded to BF16. Double stays double.
inline Tensor for_product(const Tensor& x, Products products) {
  if (products == Products::kFull || x.scalar_type() != at::kFloat) return x;
  return x.to(at::kBFloat16);
}

}  // namespace thimble::train::internal
