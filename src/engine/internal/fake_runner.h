// A deterministic model for tests of the engine: logits are a hash of all ids so far.
//
// No arithmetic to wait for, so tests control what takes time: a step can be held at a gate, fail
// or throw. Its cache is a number of blocks, if the test says so, and keeps nothing of a sequence
// that went. Gate and log may be used from any thread.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "arch/cache_layout.h"
#include "base/bytes.h"
#include "base/random.h"
#include "engine/internal/step_runner.h"

namespace thimble::engine {

class FakeRunner : public StepRunner {
 public:
  explicit FakeRunner(uint32_t vocab_size) : vocab_size_(vocab_size) {}

  // Logits after `history`, as every route must give them.
  static std::vector<float> logits_after(std::span<const int32_t> history, uint32_t vocab_size) {
    uint64_t hash = 1;
    for (const int32_t id : history) hash = base::mix64(hash * 31 + static_cast<uint64_t>(id) + 7);
    std::vector<float> logits(vocab_size);
    base::SplitMix64 random(hash);
    for (float& logit : logits) logit = static_cast<float>(4 * random.uniform());
    return logits;
  }

  uint32_t vocab_size() const override { return vocab_size_; }

  Result<std::unique_ptr<RunnerSequence>> start(const SequenceSpec& spec) override {
    if (on_start) {
      if (auto error = on_start(spec.tokens_max); !error) return tl::unexpected(error.error());
    }
    return std::make_unique<History>(*this);
  }

  Result<void> reserve(const Step& step) override {
    if (on_reserve) {
      if (auto error = on_reserve(step); !error) return error;
    }
    auto& history = static_cast<History&>(*step.sequence);
    const uint64_t missing = history.blocks_missing(history.ids.size() + step.ids.size());
    if (missing > blocks_free) return base::fail(ErrorCode::kUnavailable, "no block is free");
    blocks_free -= missing;
    history.blocks += missing;
    return {};
  }
  uint64_t blocks_available() const override { return blocks_free; }
  bool is_worth_waiting(const SequenceSpec&, uint64_t, bool) override { return waiting_pays; }

  Result<void> run(std::span<const Step> steps) override {
    {
      std::unique_lock lock(mutex_);
      for (const Step& step : steps) chunks_.push_back(step.ids.size());
      batches_.push_back(steps.size());
      changed_.notify_all();
      changed_.wait(lock, [this] { return steps_allowed_ > 0; });
      --steps_allowed_;
    }
    for (const Step& step : steps) {
      if (!on_step) break;
      if (auto error = on_step(step); !error) return error;
    }
    for (const Step& step : steps) {
      std::vector<int32_t>& ids = static_cast<History*>(step.sequence)->ids;
      ids.insert(ids.end(), step.ids.begin(), step.ids.end());
      const size_t rows = step.logits.size() / vocab_size_;
      for (size_t row = 0; row < rows; ++row) {
        const auto history = std::span(ids).first(ids.size() - rows + row + 1);
        std::ranges::copy(logits_after(history, vocab_size_),
                          step.logits.begin() + static_cast<std::ptrdiff_t>(row * vocab_size_));
      }
    }
    return {};
  }

  // From now on a call of run() waits until allow() lets it go.
  void hold() {
    const std::lock_guard lock(mutex_);
    steps_allowed_ = 0;
  }
  void allow(uint64_t steps) {
    const std::lock_guard lock(mutex_);
    steps_allowed_ += steps;
    changed_.notify_all();
  }
  // Waits until so many calls of run() have come, held ones included.
  void wait_for_steps(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batches_.size() >= count; });
  }
  // Ids of each sequence's step that came, in order.
  std::vector<size_t> chunks() {
    const std::lock_guard lock(mutex_);
    return chunks_;
  }
  // Sequences of each call of run().
  std::vector<size_t> batches() {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

  // Called on the engine thread; set before the first request.
  std::function<Result<void>(const Step&)> on_step;
  std::function<Result<void>(uint64_t tokens_max)> on_start;
  std::function<Result<void>(const Step&)> on_reserve;
  uint64_t blocks_free = 1ULL << 40;  // set before the first request
  bool waiting_pays = false;          // for what another computes; the same

 private:
  struct History : RunnerSequence {
    explicit History(FakeRunner& owner) : runner(owner) {}
    ~History() override { runner.blocks_free += blocks; }
    uint64_t blocks_missing(uint64_t tokens) const override {
      const uint64_t wanted = base::div_ceil(tokens, arch::kBlockTokens);
      return wanted > blocks ? wanted - blocks : 0;
    }
    FakeRunner& runner;
    std::vector<int32_t> ids;
    uint64_t blocks = 0;
  };

  const uint32_t vocab_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t steps_allowed_ = 1ULL << 40;
  std::vector<size_t> chunks_;
  std::vector<size_t> batches_;
};

}  // namespace thimble::engine
