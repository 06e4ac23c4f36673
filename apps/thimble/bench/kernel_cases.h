// What `thimble bench kernels` measures besides products, at the released model's shapes.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "apps/thimble/bench/kernel_line.h"
#include "base/result.h"
#include "kernels/ops.h"

namespace thimble::app {

struct KernelCase {
  using Run = std::function<Result<std::vector<KernelLine>>(kernels::Context)>;
  std::string_view op;
  Run run;
};

// The lines of run() for each size.
KernelCase::Run each_size(std::vector<uint64_t> sizes,
                          Result<KernelLine> (*run)(uint64_t, kernels::Context));

std::vector<KernelCase> cache_cases();  // attention, index scores, hyper-connections
std::vector<KernelCase> row_cases();    // norms, rotations, routing, experts, Engram rows

}  // namespace thimble::app
