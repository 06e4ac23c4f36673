// Collects what a forward pass tells, under the golden vectors' names, and compares it with them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "arch/safetensors.h"
#include "model/trace.h"

namespace thimble::golden {

// A quantity's rows by name ("topk.2", "hidden.layers.0", "logits"): ragged until compared.
class Collector : public model::Trace {
 public:
  // Collects every quantity, or only those in `only`.
  explicit Collector(std::set<std::string, std::less<>> only = {}) : only_(std::move(only)) {}

  bool wants(std::string_view quantity) const override {
    return only_.empty() || only_.contains(quantity);
  }
  void floats(std::string_view quantity, uint32_t layer, uint64_t row,
              std::span<const float> values) override {
    put(floats_[name(quantity, layer)], row, values);
  }
  void ints(std::string_view quantity, uint32_t layer, uint64_t row,
            std::span<const int32_t> values) override {
    put(ints_[name(quantity, layer)], row, values);
  }

  using FloatRows = std::vector<std::vector<float>>;
  using IntRows = std::vector<std::vector<int32_t>>;
  const std::map<std::string, FloatRows>& float_rows() const { return floats_; }
  const std::map<std::string, IntRows>& int_rows() const { return ints_; }

 private:
  static std::string name(std::string_view quantity, uint32_t layer) {
    if (quantity == "embed" || quantity == "final_norm") return std::string(quantity);
    return std::string(quantity) + "." + std::to_string(layer);
  }
  template <class T>
  static void put(std::vector<std::vector<T>>& rows, uint64_t row, std::span<const T> values) {
    if (rows.size() <= row) rows.resize(row + 1);
    rows[row].assign(values.begin(), values.end());
  }
  std::set<std::string, std::less<>> only_;
  std::map<std::string, FloatRows> floats_;
  std::map<std::string, IntRows> ints_;
};

// How far two sets of values are apart.
struct Distance {
  double max_abs = 0;
  double rms = 0;
  double median = 0;
  uint64_t compared = 0;
  uint64_t beyond = 0;  // values further apart than the bound given
};

// Compares with a golden tensor; masked values (-infinity) and rows shorter than the golden's are
// compared as far as they go.
Distance distance(const Collector::FloatRows& rows, const arch::TensorView& expected,
                  double bound = 0);
Distance distance(std::span<const float> values, std::span<const float> expected, double bound = 0);

// Rows of decisions that differ from the golden's (missing values read as -1 or, for U8 masks, 0).
uint64_t different_rows(const Collector::IntRows& rows, const arch::TensorView& expected);

// Every decision of `file` ("topk", "candidates", "expert_ids", "engram_ids") equals the collected
// one.
void expect_equal_decisions(const Collector& collected, const arch::SafetensorsFile& file);

}  // namespace thimble::golden
