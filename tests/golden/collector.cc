#include "tests/golden/collector.h"

#include <algorithm>
#include <cmath>

namespace thimble::golden {
namespace {

struct Differences {
  std::vector<double> values;
  void add(float a, float b) {
    if (std::isinf(b) && std::isinf(a) && a == b) return;
    values.push_back(std::abs(static_cast<double>(a) - static_cast<double>(b)));
  }
  Distance summary(double bound) {
    Distance out;
    out.compared = values.size();
    if (values.empty()) return out;
    double squares = 0;
    for (const double value : values) {
      out.max_abs = std::isnan(value) ? INFINITY : std::max(out.max_abs, value);
      squares += value * value;
      out.beyond += static_cast<uint64_t>(!(value <= bound));
    }
    out.rms = std::sqrt(squares / static_cast<double>(values.size()));
    auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    out.median = *middle;
    return out;
  }
};

int32_t element(const arch::TensorView& view, uint64_t i) {
  return view.dtype == arch::DType::kU8 ? view.as<uint8_t>()[i] : view.as<int32_t>()[i];
}

}  // namespace

Distance distance(const Collector::FloatRows& rows, const arch::TensorView& expected,
                  double bound) {
  const auto values = expected.as<float>();
  const size_t width = values.size() / expected.shape[0];
  Differences differences;
  EXPECT_EQ(rows.size(), expected.shape[0]);
  for (size_t r = 0; r < std::min<size_t>(rows.size(), expected.shape[0]); ++r) {
    const size_t common = std::min(width, rows[r].size());
    for (size_t c = 0; c < common; ++c) differences.add(rows[r][c], values[r * width + c]);
  }
  return differences.summary(bound);
}

Distance distance(std::span<const float> values, std::span<const float> expected, double bound) {
  EXPECT_EQ(values.size(), expected.size());
  Differences differences;
  for (size_t i = 0; i < std::min(values.size(), expected.size()); ++i) {
    differences.add(values[i], expected[i]);
  }
  return differences.summary(bound);
}

uint64_t different_rows(const Collector::IntRows& rows, const arch::TensorView& expected) {
  const size_t width = expected.elements() / expected.shape[0];
  const int32_t missing = expected.dtype == arch::DType::kU8 ? 0 : -1;
  uint64_t different = 0;
  for (size_t r = 0; r < expected.shape[0]; ++r) {
    bool equal = true;
    for (size_t c = 0; c < width; ++c) {
      const bool here = r < rows.size() && c < rows[r].size();
      equal = equal && (here ? rows[r][c] : missing) == element(expected, r * width + c);
    }
    different += static_cast<uint64_t>(!equal);
  }
  return different;
}

void expect_equal_decisions(const Collector& collected, const arch::SafetensorsFile& file) {
  uint64_t compared = 0;
  for (const auto& [name, view] : file.tensors()) {
    const bool decision = name.starts_with("topk.") || name.starts_with("candidates.") ||
                          name.starts_with("expert_ids.") || name.starts_with("engram_ids.");
    if (!decision) continue;
    const auto rows = collected.int_rows().find(name);
    ASSERT_NE(rows, collected.int_rows().end()) << name;
    EXPECT_EQ(different_rows(rows->second, view), 0u) << name;
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

}  // namespace thimble::golden
