// What /metrics and /v1/cache tell: the server's counters in Prometheus' text format, the cache's
// ledger as JSON.
//
// Counters are the engine's (engine::EngineCounters) and, of answered requests, those kept here.
// What vLLM counts too appears under its name as well, so that dashboards made for it work. Any
// thread. Source: serving spec section 14.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/answer.h"
#include "server/generator.h"

namespace thimble::server {

// Counts of values up to each bound.
class Histogram {
 public:
  // `bounds` ascend and outlive the histogram.
  explicit Histogram(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}
  void add(double value);
  // The series of one histogram; `labels` without braces.
  std::string text(std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;  // [bounds + 1], not cumulative
  double sum_ = 0;
};

class RequestMetrics {
 public:
  RequestMetrics();

  void add(const AnswerSummary& summary);
  // All series, the engine's too.
  std::string text(const ModelInfo& model, const Generator::Load& load) const;

 private:
  mutable std::mutex mutex_;  // guards the rest
  std::map<std::string, uint64_t> by_outcome_;
  uint64_t prompt_tokens_ = 0;
  uint64_t completion_tokens_ = 0;
  uint64_t reasoning_tokens_ = 0;
  Histogram queue_s_;
  Histogram first_token_s_;
  Histogram token_s_;  // each after the first
  Histogram whole_s_;
};

// {"blocks", "snapshots", "bytes_per_token", "requests"}: docs/serving.md.
std::string cache_json(const Generator::Load& load);

}  // namespace thimble::server
