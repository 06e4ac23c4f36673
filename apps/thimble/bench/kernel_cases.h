// What `thimble bench kernels` measures besides products: index scores, attention and
// hyper-connections at the released model's shapes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "apps/thimble/bench/kernel_line.h"
#include "base/result.h"
#include "kernels/ops.h"

namespace thimble::app {

struct KernelCase {
  std::string_view op;
  std::function<Result<std::vector<KernelLine>>(kernels::Context)> run;
};

std::vector<KernelCase> other_cases();

}  // namespace thimble::app
