// Aim: weights that a benchmark takes in turn come from elsewhere each time, until more than a
// cache holds has passed. Method: one turn round, for both layouts.
#include "apps/thimble/bench/rotation.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/roofs.h"

namespace thimble::app {
namespace {

TEST(Rotation, TurnsThroughMoreThanACacheHolds) {
  for (const bool packed : {true, false}) {
    const auto weights = Rotation::create(kernels::WeightFormat::kFp4Group32, 4096, 4096, packed);
    ASSERT_TRUE(weights.has_value());
    EXPECT_EQ(weights->bytes_each(), 4096 * (2048 + 128));
    const auto at = [&](size_t turn) {
      const kernels::WeightView view = weights->view(turn);
      return packed ? view.packed : view.codes;
    };
    std::set<const std::byte*> seen;
    size_t turn = 0;
    for (; seen.insert(at(turn)).second; ++turn) {
      EXPECT_GE(at(turn), weights->memory().data());
      EXPECT_LE(at(turn) + 4096 * 2048, weights->memory().data() + weights->memory().size());
    }
    EXPECT_GE(static_cast<double>(turn) * weights->bytes_each(),
              static_cast<double>(kernels::uncached_bytes()) * 0.99);
    EXPECT_EQ(at(turn), at(0));
  }
}

}  // namespace
}  // namespace thimble::app
