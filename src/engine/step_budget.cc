#include <algorithm>
#include <bit>

#include "base/check.h"
#include "engine/internal/step_budget.h"

namespace thimble::engine {
namespace {

constexpr double kNew = 0.25;  // share of a measurement in what is known

void blend(double& known, double measured) {
  known = known == 0 ? measured : known + kNew * (measured - known);
}

size_t bucket(uint64_t decodes) { return static_cast<size_t>(std::bit_width(decodes)) - 1; }

}  // namespace

double StepBudget::decode_us(uint64_t decodes) const { return decode_us_[bucket(decodes)]; }

uint64_t StepBudget::prompt_rows(uint64_t decodes, uint64_t decode_cost) {
  if (decodes == 0) return UINT64_MAX;
  const double alone_us = decode_us(decodes);
  if (alone_us == 0 || since_probe_ >= kProbeSteps) return 0;
  const uint64_t least = kRowsMin * decode_cost;
  uint64_t rows = least;
  if (row_us_ > 0) {
    const double fitting = (kStretch - 1) * alone_us / row_us_;
    // What was measured at few rows says little about many.
    const uint64_t most = 2 * std::max(last_rows_, least);
    rows = fitting < static_cast<double>(most) ? static_cast<uint64_t>(fitting) : most;
  }
  last_rows_ = std::max(rows, least);
  return last_rows_;
}

void StepBudget::observe(uint64_t decodes, uint64_t prompt_rows, int64_t us) {
  CHECK(decodes + prompt_rows > 0);
  const auto took = static_cast<double>(std::max<int64_t>(us, 1));
  if (prompt_rows == 0) {
    since_probe_ = 0;
    return blend(decode_us_[bucket(decodes)], took);
  }
  ++since_probe_;
  if (decodes == 0) return;
  const double beside = std::max(took - decode_us(decodes), took / 100);
  blend(row_us_, beside / static_cast<double>(prompt_rows));
}

}  // namespace thimble::engine
