#include "tests/api/fake_generator.h"

#include <algorithm>
#include <chrono>

namespace thimble::server {
namespace {

using engine::FinishReason;
using engine::GenerationSink;

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// Every token is half as likely as it could be; the alternatives are its neighbours.
engine::GeneratedToken generated(int32_t id, const std::optional<uint32_t>& top_logprobs) {
  engine::GeneratedToken out{id, 0, {}};
  if (!top_logprobs) return out;
  out.logprob = -0.5F;
  for (uint32_t i = 0; i < *top_logprobs; ++i) {
    out.top.push_back({id + static_cast<int32_t>(i), -0.5F - static_cast<float>(i)});
  }
  return out;
}

// The prompt's tokens, each the second likeliest after the one before it.
std::vector<engine::PromptToken> prompt_tokens(const engine::GenerationRequest& request) {
  std::vector<engine::PromptToken> out;
  for (size_t i = 1; i < request.prompt.size(); ++i) {
    const int32_t id = request.prompt[i];
    engine::PromptToken token{id, -1.5F, 2, {}};
    if (*request.prompt_logprobs > 0) token.top.push_back({request.prompt[i - 1], -0.5F});
    for (uint32_t n = 1; n < *request.prompt_logprobs; ++n) {
      token.top.push_back({id + static_cast<int32_t>(n) - 1, -0.5F - static_cast<float>(n)});
    }
    out.push_back(std::move(token));
  }
  return out;
}

}  // namespace

FakeGenerator::FakeGenerator(ModelInfo info, uint32_t queue_requests_max)
    : info_(std::move(info)), queue_requests_max_(queue_requests_max) {
  thread_ = std::thread([this] { work(); });
}

FakeGenerator::~FakeGenerator() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FakeGenerator::set_script(FakeScript script) {
  const std::lock_guard lock(mutex_);
  script_ = std::move(script);
}

std::vector<engine::GenerationRequest> FakeGenerator::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

Result<std::vector<engine::RequestId>> FakeGenerator::submit(
    std::vector<engine::Submission> submissions) {
  if (before_submit) before_submit();
  const std::lock_guard lock(mutex_);
  if (queue_.size() + submissions.size() > queue_requests_max_) {
    return base::fail(ErrorCode::kResourceExhausted, "all {} places of the queue are taken",
                      queue_requests_max_);
  }
  std::vector<engine::RequestId> ids;
  for (auto& [request, sink] : submissions) {
    Job job{++last_id_, request, std::move(sink), script_, {}};
    job.tokens = script_.samples.empty()
                     ? info_.tokenizer->encode(script_.says, text::AddedTokens::kMatch)
                     : script_.samples;
    if (ids.empty() && script_.first_fails_after)
      job.script.fails_after = script_.first_fails_after;
    requests_.push_back(std::move(request));
    queue_.push_back(std::move(job));
    ids.push_back(last_id_);
  }
  wake_.notify_all();
  return ids;
}

void FakeGenerator::cancel(engine::RequestId id) {
  const std::lock_guard lock(mutex_);
  cancelled_.insert(id);
  wake_.notify_all();
}

Generator::Load FakeGenerator::load() const {
  const std::lock_guard lock(mutex_);
  const auto live = [&](const Job& job) { return !cancelled_.contains(job.id); };
  return {running_, static_cast<uint64_t>(std::count_if(queue_.begin(), queue_.end(), live))};
}

void FakeGenerator::work() {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      running_ = 0;
      wake_.wait(lock, [&] { return closing_ || !queue_.empty(); });
      if (queue_.empty()) return;
      job = std::move(queue_.front());
      queue_.pop_front();
      running_ = 1;
    }
    job.sink->on_end(generate(job));
  }
}

bool FakeGenerator::wait_or_cancelled(const Job& job) {
  std::unique_lock lock(mutex_);
  const auto over = [&] { return closing_ || cancelled_.contains(job.id); };
  return wake_.wait_for(lock, std::chrono::microseconds(job.script.token_delay_us), over);
}

engine::GenerationEnd FakeGenerator::generate(const Job& job) {
  engine::GenerationEnd end;
  end.prompt_tokens = job.request.prompt.size();
  end.cached_tokens = std::min<uint64_t>(job.script.cached_tokens, end.prompt_tokens - 1);
  if (job.request.prompt_logprobs) end.cached_tokens = 0;
  end.replayed_tokens = end.cached_tokens / 2;
  end.computed_tokens = end.prompt_tokens - end.cached_tokens + end.replayed_tokens;
  end.exact = end.cached_tokens == 0;
  if (job.request.prompt_logprobs) job.sink->on_prompt(prompt_tokens(job.request));
  for (uint64_t n = 0;; ++n) {
    if (wait_or_cancelled(job)) {
      end.reason = FinishReason::kCancelled;
      return end;
    }
    if (job.script.fails_after && n >= *job.script.fails_after) {
      end.reason = FinishReason::kError;
      end.error = Error{job.script.failure_code, job.script.failure, {}};
      return end;
    }
    if (end.completion_tokens == job.request.max_tokens) {
      end.reason = FinishReason::kLength;
      return end;
    }
    const size_t count = job.tokens.size();
    const bool more = n < count || (job.script.endless && count > 0);
    const int32_t id = more ? job.tokens[n % count] : info_.eos.value_or(0);
    ++end.completion_tokens;
    if (contains(job.request.stop_tokens, id)) return end;
    if (!more && job.request.stop_tokens.empty()) return end;  // nothing else would end it
    const auto next = job.sink->on_token(generated(id, job.request.top_logprobs));
    if (next == GenerationSink::Next::kStop) return end;
  }
}

}  // namespace thimble::server
