// Aim: the roofs are measured on every instruction set and are plausible figures. Method: no speed
// is asserted, only that every figure is a positive number.
#include "kernels/roofs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/table.h"

namespace thimble::kernels {
namespace {

TEST(Roofs, AreFiguresOnEveryInstructionSet) {
  base::ThreadPool pool(2);
  for (const Table* table : runnable()) {
    const ScopedTable scope(*table);
    const auto roofs = measure_roofs(pool, 4 << 20);
    ASSERT_TRUE(roofs.has_value());
    EXPECT_STREQ(roofs->isa, name(*table));
    EXPECT_EQ(roofs->threads, 2u);
    for (const double figure :
         {roofs->read_gbps, roofs->fma_gflops, roofs->int8_gops, roofs->int8_sat_gops}) {
      EXPECT_TRUE(std::isfinite(figure));
      EXPECT_GT(figure, 0);
    }
  }
}

TEST(Roofs, ABufferThatCannotBeIsRefused) {
  base::ThreadPool pool(1);
  const auto roofs = measure_roofs(pool, 1ULL << 60);
  ASSERT_FALSE(roofs.has_value());
  EXPECT_EQ(roofs.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thimble::kernels
