// What /metrics and /v1/cache tell: the server's counters in Prometheus' text format, the cache's
// ledger as JSON.
//
// Counters are the engine's (engine::EngineCounters) and, of answered requests, those kept here.
// What vLLM counts too appears under its name as well, so that dashboards made for it work. Any
// thread. Source: serving spec section 14.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "server/answer.h"
#include "server/generator.h"

namespace thimble::server {

class RequestMetrics {
 public:
  RequestMetrics();
  ~RequestMetrics();
  RequestMetrics(const RequestMetrics&) = delete;
  RequestMetrics& operator=(const RequestMetrics&) = delete;

  void add(const AnswerSummary& summary);
  // All series, the engine's too.
  std::string text(const ModelInfo& model, const Generator::Load& load) const;

 private:
  struct Series;
  mutable std::mutex mutex_;  // guards the rest
  std::unique_ptr<Series> series_;
};

// {"blocks", "snapshots", "bytes_per_token", "requests"}: docs/serving.md.
std::string cache_json(const Generator::Load& load);

}  // namespace thimble::server
