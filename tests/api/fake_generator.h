// A generator that says what the test tells it to, token by token, from a thread of its own.
//
// Behaves like the engine towards its callers: one request at a time behind a bounded queue, sinks
// called on its thread, on_end() exactly once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "server/generator.h"

namespace thimble::server {

struct FakeScript {
  std::string says;              // encoded with control tokens active; then the end of sentence
  std::vector<int32_t> samples;  // instead, if not empty
  uint64_t cached_tokens = 0;    // of each prompt, or all but one; half of them run again
  bool endless = false;          // instead of ending, says it again
  uint32_t token_delay_us = 0;   // before each token
  std::optional<uint64_t> fails_after;        // tokens; then FinishReason::kError
  std::optional<uint64_t> first_fails_after;  // the same, of several choices the first alone
  std::string failure = "the fake was told to fail";
  ErrorCode failure_code = ErrorCode::kInternal;
};

class FakeGenerator : public Generator {
 public:
  explicit FakeGenerator(ModelInfo info, uint32_t queue_requests_max = 64);
  // Called at the beginning of every submit(); set before the first one.
  std::function<void()> before_submit;
  ~FakeGenerator() override;

  // Holds for requests submitted from now on.
  void set_script(FakeScript script);
  // All requests accepted so far, in order.
  std::vector<engine::GenerationRequest> requests() const;

  const ModelInfo& info() const override { return info_; }
  Result<std::vector<engine::RequestId>> submit(
      std::vector<engine::Submission> submissions) override;
  void cancel(engine::RequestId id) override;
  Load load() const override;

 private:
  struct Job {
    engine::RequestId id = 0;
    engine::GenerationRequest request;
    std::shared_ptr<engine::GenerationSink> sink;
    FakeScript script;
    std::vector<int32_t> tokens;
  };

  void work();
  engine::GenerationEnd generate(const Job& job);
  bool wait_or_cancelled(const Job& job);

  const ModelInfo info_;
  const uint32_t queue_requests_max_;
  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable wake_;
  FakeScript script_;
  std::vector<engine::GenerationRequest> requests_;
  std::deque<Job> queue_;
  std::set<engine::RequestId> cancelled_;
  engine::RequestId last_id_ = 0;
  uint64_t running_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace thimble::server
