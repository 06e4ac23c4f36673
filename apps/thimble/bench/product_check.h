// Whether a product is right, before its time counts.
#pragma once

#include "base/result.h"
#include "kernels/view.h"

namespace thimble::app {

// Some outputs of the first and the last row against double arithmetic, within the error that
// kernels/ops.h declares for linear(). weight: with plain codes. kInternal names the first that is
// wrong.
Result<void> check_product(const kernels::WeightView& weight, kernels::Rows<const float> x,
                           kernels::Rows<const float> y);

}  // namespace thimble::app
