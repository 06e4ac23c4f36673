// Aim: rotary tables equal the published float32 ones. Method: the spec's frequencies of the
// released model and its worked angle; golden tables of four configurations are in tests/golden.
#include "model/rope.h"

#include <gtest/gtest.h>

namespace thimble::model {
namespace {

TEST(Rope, CompressedFrequenciesOfTheReleasedModel) {
  const float expected[] = {1.0F,           0.687656045F,   0.472870797F,   0.325172454F,
                            0.223606795F,   0.153764561F,   0.10573712F,    0.0727107748F,
                            0.0500000007F,  0.0343828015F,  0.0236435402F,  0.0162586235F,
                            0.0111803403F,  0.00768822804F, 0.00528685655F, 0.00363553851F,
                            0.00226562493F, 0.00139680132F, 8.49689706e-4F, 5.08081983e-4F,
                            2.96977785e-4F, 1.68179991e-4F, 9.08678412e-5F, 4.54442343e-5F,
                            1.95312514e-5F, 5.37231244e-6F, 3.69430336e-6F, 2.5404097e-6F,
                            1.74692821e-6F, 1.20128561e-6F, 8.260713e-7F,   5.6805294e-7F};
  const RopeFrequencies f = make_rope_frequencies(arch::released_config());
  ASSERT_EQ(f.compressed.size(), std::size(expected));
  for (size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_NEAR(f.compressed[i] / expected[i], 1.0F, 1.3e-7F) << i;
  }
  EXPECT_EQ(f.window[0], 1.0F);
  EXPECT_EQ(&f.of(true), &f.compressed);
  EXPECT_EQ(&f.of(false), &f.window);
}

// The angle is rounded to float32 before its cosine: visible at a million tokens.
TEST(Rope, AngleIsRounded) {
  const RopeFrequencies f = make_rope_frequencies(arch::released_config());
  std::vector<float> cos(32);
  std::vector<float> sin(32);
  rope_row(f.compressed, 1'048'575, cos, sin);
  EXPECT_NEAR(cos[8], -0.27731711F, 1e-6F);
}

}  // namespace
}  // namespace thimble::model
