#include "apps/thimble/bench/kernel_line.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "apps/thimble/commands.h"
#include "kernels/table.h"

namespace thimble::app {

std::string table_row(const KernelLine& line) {
  std::string out = fmt::format(
      "  {:<14}{:<10}{:>20}{:>5}  {:<11}{:>10.1f}{:>9.1f}{:>10.1f}{:>8.2f}", line.op, line.layout,
      line.shape, line.n, kernels::name(kernels::kernels()), line.m.us,
      1e-3 * line.work.bytes / line.m.us, 1e-3 * line.work.flops / line.m.us, line.m.roof_share);
  if (line.m.rival_us > 0) {
    out += fmt::format("{:>11.1f}{:>7.2f}x", line.m.rival_us, line.m.rival_us / line.m.us);
  }
  return out + "\n";
}

std::string json_line(const KernelLine& line) {
  nlohmann::ordered_json json = {{"op", line.op},
                                 {"layout", line.layout},
                                 {"shape", line.sizes},
                                 {"n", line.n},
                                 {"isa", kernels::name(kernels::kernels())},
                                 {"threads", line.threads},
                                 {"us", line.m.us},
                                 {"gbps", 1e-3 * line.work.bytes / line.m.us},
                                 {"gflops", 1e-3 * line.work.flops / line.m.us},
                                 {"dram_gbps", line.m.read_gbps},
                                 {"compute_gops", line.m.compute_gops},
                                 {"roof_share", line.m.roof_share},
                                 {"rival_us", nullptr}};
  if (line.m.rival_us > 0) json["rival_us"] = line.m.rival_us;
  return json.dump() + "\n";
}

void print_line(const KernelLine& line, bool json) {
  print_out(json ? json_line(line) : table_row(line));
}

}  // namespace thimble::app
