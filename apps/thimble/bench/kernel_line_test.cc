// Aim: what scripts read of `bench kernels --json` is there, under its name and in its unit.
// Method: a line of known times.
#include "apps/thimble/bench/kernel_line.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "kernels/table.h"

namespace thimble::app {
namespace {

// 1000 us at best, 2000 us in the middle of 10 GB/s and 100 Gop/s: 4 MB are 4 GB/s, 0.4 of memory;
// 80 million operations are 80 GFLOP/s at best, and 40 of 100.
KernelLine line() {
  return {.op = "gemv_mxfp4",
          .layout = "packed",
          .shape = "64 x 32",
          .sizes = {64, 32},
          .n = 1,
          .threads = 2,
          .bytes = 4e6,
          .flops = 80e6,
          .m = {.us = 1000, .mean_us = 2000, .read_gbps = 10, .compute_gops = 100, .rival_us = 0}};
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
  EXPECT_DOUBLE_EQ(json["roof_share"], 0.4);
  EXPECT_TRUE(json["rival_us"].is_null());
}

TEST(KernelLine, TheShareIsThatOfWhatBinds) {
  KernelLine computes = line();
  computes.flops = 160e6;
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(json_line(computes))["roof_share"], 0.8);
}

TEST(KernelLine, ARivalIsNamedInBoth) {
  KernelLine raced = line();
  raced.m.rival_us = 2500;
  EXPECT_DOUBLE_EQ(nlohmann::json::parse(json_line(raced))["rival_us"], 2500);
  EXPECT_NE(table_row(raced).find("2.50x"), std::string::npos);
}

}  // namespace
}  // namespace thimble::app
