// Aim: a benchmark whose product is wrong says so instead of a time. Method: our products of random
// weights, right and with one output moved by twice what it may err.
#include "apps/thimble/bench/product_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "apps/thimble/bench/rotation.h"
#include "base/thread_pool.h"
#include "kernels/ops.h"

namespace thimble::app {
namespace {

using kernels::Arithmetic;
using kernels::WeightFormat;

TEST(ProductCheck, FindsAWrongOutput) {
  constexpr uint32_t kOutputs = 40;
  constexpr uint32_t kInputs = 96;
  constexpr uint64_t kRows = 3;
  base::ThreadPool pool(1);
  kernels::Workspace workspace;
  const std::vector<float> x = random_activations(kRows * kInputs);
  std::vector<std::byte> codes(4 * kOutputs * kInputs);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 37 % 0x70);
  const std::vector<std::byte> scales(kOutputs * kInputs / 32, std::byte{120});
  for (const auto format : {WeightFormat::kFp4Group32, WeightFormat::kFp8Block32}) {
    for (const auto arithmetic : {Arithmetic::kExact, Arithmetic::kFast}) {
      kernels::WeightView w{format, codes.data(), scales.data(), kOutputs, kInputs};
      w.arithmetic = arithmetic;
      std::vector<float> y(kRows * kOutputs);
      const kernels::Rows<float> out(y.data(), kRows, kOutputs);
      kernels::linear(w, {x.data(), kRows, kInputs}, out, {pool, workspace});
      EXPECT_TRUE(check_product(w, {x.data(), kRows, kInputs}, out).has_value());
      for (const size_t at : {size_t{0}, y.size() - 1}) {
        const float right = y[at];
        for (const float wrong : {right * 1.5F + 1, std::nanf("")}) {
          y[at] = wrong;
          EXPECT_FALSE(check_product(w, {x.data(), kRows, kInputs}, out).has_value());
        }
        y[at] = right;
      }
    }
  }
}

}  // namespace
}  // namespace thimble::app
