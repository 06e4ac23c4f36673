// A machine as the planner sees it: sizes and rates, given, from a preset, or measured.
//
// Rates are what a program reaches, not what a data sheet sums up; presets are rounded figures for
// a kind of machine, to be replaced by one's own (`thimble bench roofs`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "planner/flops.h"

namespace thimble::planner {

// Something that computes: the CPUs, or the GPU.
struct Processor {
  double memory_gbps = 0;  // 1e9 bytes a second out of its memory
  double bf16_gflops = 0;  // 1e9 operations a second, by the format of the operands
  double fp8_gflops = 0;
  double fp4_gflops = 0;

  // Seconds at the roof: operations and bytes overlap, the slower one counts.
  double seconds(const Ops& ops, double bytes) const;
};

struct Machine {
  std::string name;
  std::string what;  // a line about it
  uint64_t ram_bytes = 0;
  Processor cpu;
  uint64_t ssd_bytes = 0;
  double ssd_gbps = 0;
  uint64_t gpu_bytes = 0;  // 0: none
  Processor gpu;
};

const std::vector<Machine>& machine_presets();
// kInvalidArgument lists the names.
Result<Machine> find_machine(std::string_view name);

// Sizes and rates above zero where they must be; kInvalidArgument names what is not.
Result<void> check(const Machine& machine);

}  // namespace thimble::planner
