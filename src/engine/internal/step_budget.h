// How much of prompts a step may compute, so that those who wait for their next token wait a
// bounded time.
//
// Counted in layer-rows, a row through a layer: a prompt's row costs those that its plan runs (at
// the released sizes half of a decode row's). What they take is measured as steps run: a step with
// decode rows may take kStretch times as long as it would without prompts. Every so many steps one
// goes without, to measure that. Where nobody decodes, nothing is bounded. Used by the engine
// thread alone. Source: serving spec 11.1, 11.3.
#pragma once

#include <array>
#include <cstdint>

namespace thimble::engine {

class StepBudget {
 public:
  static constexpr double kStretch = 2.0;
  static constexpr uint64_t kProbeSteps = 64;  // between two steps without prompts
  static constexpr uint64_t kRowsMin = 4;      // that a step beside decode rows may always hold

  // Layer-rows of prompts that the next step may hold beside `decodes` decode rows, of which each
  // costs `decode_cost`; 0: this one measures.
  uint64_t prompt_rows(uint64_t decodes, uint64_t decode_cost);

  // What a step took. REQUIRES: it held something.
  void observe(uint64_t decodes, uint64_t prompt_rows, int64_t us);

 private:
  double decode_us(uint64_t decodes) const;

  std::array<double, 65> decode_us_{};  // of a step of 2^i decode rows or more; 0: unknown
  double row_us_ = 0;                   // of a prompt's layer-row beside decode rows; 0: unknown
  uint64_t last_rows_ = 0;              // what the last step with both was allowed
  uint64_t since_probe_ = 0;
};

}  // namespace thimble::engine
