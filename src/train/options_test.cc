// Aim: rate and attention slots change over a run as the options say. Method: training spec 12.4
// and 5.4: values at the corners and in the middle of each part, computed by hand, for runs of
// round numbers of steps.
#include "train/options.h"

#include <gtest/gtest.h>

namespace thimble::train {
namespace {

// Published shape: rise, stay to 62 %, cosine to 10 % at 89 %, stay.
TEST(Rate, RisesStaysFallsAndStays) {
  OptimizerOptions o;
  o.warmup = 0.1;
  const auto at = [&](uint64_t done) { return rate_share(o, done - 1, 1000); };
  EXPECT_DOUBLE_EQ(at(1), 0.01);  // the first step moves already
  EXPECT_DOUBLE_EQ(at(25), 0.25);
  EXPECT_DOUBLE_EQ(at(99), 0.99);
  EXPECT_EQ(at(100), 1);
  EXPECT_EQ(at(300), 1);
  EXPECT_EQ(at(620), 1);
  EXPECT_NEAR(at(755), 0.55, 1e-9);  // middle of the cosine: half-way between 1 and the floor
  // A third of the way a cosine has fallen by a quarter, after two thirds by three quarters.
  EXPECT_NEAR(at(710), 1 - 0.9 * 0.25, 1e-9);
  EXPECT_NEAR(at(800), 1 - 0.9 * 0.75, 1e-9);
  EXPECT_NEAR(at(890), 0.1, 1e-9);
  EXPECT_EQ(at(891), 0.1);
  EXPECT_EQ(at(1000), 0.1);
  for (uint64_t done = 100; done < 1000; ++done) EXPECT_LE(at(done + 1), at(done));
}

TEST(Rate, FallsToItsFloor) {
  OptimizerOptions o;
  o.floor = 0.5;
  EXPECT_NEAR(rate_share(o, 754, 1000), 0.75, 1e-9);
  EXPECT_EQ(rate_share(o, 999, 1000), 0.5);
}

// Without a rise, a fall or a floor the corners are still numbers.
TEST(Rate, MayHaveNoParts) {
  OptimizerOptions o;
  o.warmup = 0;
  o.hold = o.decay = 1;
  for (uint64_t step = 0; step < 10; ++step) EXPECT_EQ(rate_share(o, step, 11), 1);
  o.hold = 0;
  o.floor = 0;
  EXPECT_NEAR(rate_share(o, 4, 10), 0.5, 1e-9);  // a cosine from the first step to the last
  EXPECT_EQ(rate_share(o, 9, 10), 0);
}

TrainOptions slots(KSchedule schedule) {
  TrainOptions o;
  o.config.index_topk = 10;
  o.row_tokens = 110;
  o.steps = 200;
  o.k_schedule = schedule;
  o.k_until = 0.5;
  return o;
}

TEST(Slots, AreConstant) {
  const TrainOptions o = slots(KSchedule::kConstant);
  for (const uint64_t step : {0, 50, 99, 100, 199}) EXPECT_EQ(slots_at(o, step), 10);
}

TEST(Slots, ShrinkEvenly) {
  const TrainOptions o = slots(KSchedule::kAnneal);
  EXPECT_EQ(slots_at(o, 0), 110);
  EXPECT_EQ(slots_at(o, 25), 85);
  EXPECT_EQ(slots_at(o, 50), 60);
  EXPECT_EQ(slots_at(o, 75), 35);
  EXPECT_EQ(slots_at(o, 100), 10);
  EXPECT_EQ(slots_at(o, 199), 10);
}

TEST(Slots, AreAllUntilTheyAreFew) {
  const TrainOptions o = slots(KSchedule::kDense);
  EXPECT_EQ(slots_at(o, 0), 110);
  EXPECT_EQ(slots_at(o, 99), 110);
  EXPECT_EQ(slots_at(o, 100), 10);
}

// Rows shorter than the slots: never fewer than the configuration has.
TEST(Slots, AreNeverFewerThanConfigured) {
  for (const KSchedule schedule : {KSchedule::kAnneal, KSchedule::kDense}) {
    TrainOptions o = slots(schedule);
    o.row_tokens = 4;
    for (const uint64_t step : {0, 50, 199}) EXPECT_EQ(slots_at(o, step), 10);
  }
}

}  // namespace
}  // namespace thimble::train
