// A line of `thimble bench kernels`: one operation at one shape, measured.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/thimble/bench/measure.h"

namespace thimble::app {

struct KernelLine {
  std::string op;
  std::string layout;
  std::string shape;  // as a person reads it
  std::vector<uint64_t> sizes;
  uint64_t n = 0;
  uint32_t threads = 0;
  Work work;
  Measured m;
};

// Of a matrix and so many rows: a multiply-add is two operations.
constexpr double product_flops(uint64_t rows, uint64_t outputs, uint64_t inputs) {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(outputs) *
         static_cast<double>(inputs);
}

// A row of the table, or an object of JSON, each with its line's end; the instruction set is the
// one that is chosen now. The names in the JSON are a contract.
std::string table_row(const KernelLine& line);
std::string json_line(const KernelLine& line);

void print_line(const KernelLine& line, bool json);

}  // namespace thimble::app
