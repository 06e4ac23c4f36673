// Aim: what scripts read of `bench kernels --json` is there, under its name and in its unit.
// Method: a line of known times.
#include "apps/thimble/bench/kernel_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/thimble/bench/percentile.h"
#include "kernels/table.h"

namespace thimble::app {
namespace {

// 4 MB and 80 million operations in 1000 us.
KernelLine line() {
  return {
      .op = "gemv_mxfp4",
      .layout = "packed",
      .shape = "64 x 32",
      .sizes = {64, 32},
      .n = 1,
      .threads = 2,
      .work = {.bytes = 4e6, .flops = 80e6},
      .m = {.us = 1000, .read_gbps = 10, .compute_gops = 100, .roof_share = 0.8, .rival_us = 0}};
}

TEST(KernelLine, JsonHasTheNamesThatScriptsRead) {
  const std::string text = json_line(line());
  EXPECT_EQ(text.back(), '\n');
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["op"], "gemv_mxfp4");
  EXPECT_EQ(json["layout"], "packed");
  EXPECT_EQ(json["shape"], nlohmann::json({64, 32}));
  EXPECT_EQ(json["n"], 1);
  EXPECT_EQ(json["isa"], std::string(kernels::name(kernels::kernels())));
  EXPECT_EQ(json["threads"], 2);
  EXPECT_DOUBLE_EQ(json["us"], 1000);
  EXPECT_DOUBLE_EQ(json["gbps"], 4);
  EXPECT_DOUBLE_EQ(json["gflops"], 80);
  EXPECT_DOUBLE_EQ(json["dram_gbps"], 10);
  EXPECT_DOUBLE_EQ(json["compute_gops"], 100);
  EXPECT_DOUBLE_EQ(json["roof_share"], 0.8);
  EXPECT_TRUE(json["rival_us"].is_null());
}

TEST(Measured, TheShareIsThatOfWhatBinds) {
  // 4 MB in 1000 us are 0.4 of 10 GB/s; 160 million operations in 2000 us are 0.8 of 100 Gop/s.
  const Times times = {.best_us = 1000, .mean_us = 2000};
  EXPECT_DOUBLE_EQ(share_of_roof({.bytes = 4e6, .flops = 160e6}, times, 10, 100), 0.8);
  EXPECT_DOUBLE_EQ(share_of_roof({.bytes = 4e6, .flops = 60e6}, times, 10, 100), 0.4);
}

TEST(Measured, OfSeveralRoundsTheMiddleOne) {
  EXPECT_EQ(median({7}), 7);
  EXPECT_EQ(median({9, 1, 3}), 3);
  EXPECT_EQ(median({5, 4, 1, 100, 2}), 4);
}

TEST(KernelLine, AProductIsTwoOperationsAWeightAndRow) {
  EXPECT_EQ(product_flops(1, 2304, 5120), 23'592'960);
  EXPECT_EQ(product_flops(7, 3, 5), 210);
}

TEST(KernelLine, ARivalIsNamedInBoth) {
  KernelLine raced = line();
  raced.m.rival_us = 2500;
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(json_line(raced))["rival_us"], 2500);
  EXPECT_NE(table_row(raced).find("2.50x"), std::string::npos);
}

}  // namespace
}  // namespace thimble::app
