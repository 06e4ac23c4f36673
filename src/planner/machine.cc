#include "planner/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace thimble::planner {
namespace {

constexpr uint64_t kGiB = 1ULL << 30;
constexpr uint64_t kTB = 1'000'000'000'000;

Machine machine(std::string name, std::string what, uint64_t ram_gib, Processor cpu,
                uint64_t ssd_tb, double ssd_gbps) {
  Machine out;
  out.name = std::move(name);
  out.what = std::move(what);
  out.ram_bytes = ram_gib * kGiB;
  out.cpu = cpu;
  out.ssd_bytes = ssd_tb * kTB;
  out.ssd_gbps = ssd_gbps;
  return out;
}

Machine with_gpu(Machine machine, uint64_t gib, Processor gpu) {
  machine.gpu_bytes = gib * kGiB;
  machine.gpu = gpu;
  return machine;
}

std::vector<Machine> make_presets() {
  const Processor desktop{70, 1000, 2000, 2000};
  return {
      machine("laptop", "8 cores, dual-channel LPDDR5", 32, {60, 500, 1000, 1000}, 1, 3),
      machine("desktop", "16 cores, dual-channel DDR5", 128, desktop, 4, 7),
      with_gpu(machine("desktop-gpu", "the same with a 24 GiB graphics card", 128, desktop, 4, 7),
               24, {900, 80'000, 300'000, 300'000}),
      machine("workstation", "64 cores, 8-channel DDR5", 512, {280, 4000, 8000, 8000}, 8, 12),
      machine("unified", "a desktop with 512 GiB of unified memory", 512,
              {700, 20'000, 20'000, 20'000}, 8, 6),
      machine("server", "2 sockets of 12-channel DDR5", 1536, {800, 10'000, 20'000, 20'000}, 16,
              12),
      with_gpu(machine("gpu-server", "the server with 8 accelerators of 141 GB", 2048,
                       {800, 10'000, 20'000, 20'000}, 30, 24),
               1050, {35'000, 4'000'000, 8'000'000, 8'000'000}),
  };
}

}  // namespace

double Processor::seconds(const Ops& ops, double bytes) const {
  const double compute = ops.bf16 / bf16_gflops + ops.fp8 / fp8_gflops + ops.fp4 / fp4_gflops;
  return 1e-9 * std::max(compute, bytes / memory_gbps);
}

const std::vector<Machine>& machine_presets() {
  static const std::vector<Machine> presets = make_presets();
  return presets;
}

Result<Machine> find_machine(std::string_view name) {
  std::vector<std::string> names;
  for (const Machine& machine : machine_presets()) {
    if (machine.name == name) return machine;
    names.push_back(machine.name);
  }
  return base::fail(ErrorCode::kInvalidArgument, "no machine is called \"{}\"; there are {}",
                    name.substr(0, 64), fmt::join(names, ", "));
}

Result<void> check(const Machine& machine) {
  struct Rate {
    const char* name;
    double value;
    bool needed;
  };
  const bool gpu = machine.gpu_bytes > 0;
  const Rate rates[] = {{"dram_gbps", machine.cpu.memory_gbps, true},
                        {"gflops_bf16", machine.cpu.bf16_gflops, true},
                        {"gflops_fp8", machine.cpu.fp8_gflops, true},
                        {"gflops_fp4", machine.cpu.fp4_gflops, true},
                        {"ssd_gbps", machine.ssd_gbps, machine.ssd_bytes > 0},
                        {"gpu_gbps", machine.gpu.memory_gbps, gpu},
                        {"gpu_gflops_bf16", machine.gpu.bf16_gflops, gpu},
                        {"gpu_gflops_fp8", machine.gpu.fp8_gflops, gpu},
                        {"gpu_gflops_fp4", machine.gpu.fp4_gflops, gpu}};
  for (const Rate& rate : rates) {
    if (!rate.needed || (rate.value > 0 && rate.value < 1e12)) continue;
    return base::fail(ErrorCode::kInvalidArgument, "{} is {:g}, expected above 0 and below 1e12",
                      rate.name, rate.value);
  }
  if (machine.ram_bytes == 0) {
    return base::fail(ErrorCode::kInvalidArgument, "ram is 0, expected some bytes");
  }
  return {};
}

}  // namespace thimble::planner
