#include "engine/engine.h"

#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "arch/checkpoint.h"
#include "base/bytes.h"
#include "base/log.h"
#include "engine/internal/model_runner.h"
#include "engine/internal/scheduler.h"
#include "engine/layer_token_time.h"
#include "engine/model_files.h"

namespace thimble::engine {
namespace {

Result<void> check_options(const EngineOptions& options) {
  const auto check = [](const char* name, uint32_t value, uint32_t low,
                        uint32_t high) -> Result<void> {
    if (value >= low && value <= high) return {};
    return base::fail(ErrorCode::kInvalidArgument, "{} is {}, expected {} to {}", name, value, low,
                      high);
  };
  THIMBLE_TRY(check("threads", options.threads, 0, kThreadsMax));
  THIMBLE_TRY(check("prefill_chunk", options.prefill_chunk, 1, 1U << 20));
  THIMBLE_TRY(check("sequences_max", options.sequences_max, 0, kSequencesAtOnceMax));
  return check("queue_requests_max", options.queue_requests_max, 1, kQueueRequestsMax);
}

// Ids that must not be sampled: images' place holders, and those the tokenizer cannot spell.
std::vector<int32_t> never_sampled(const text::Tokenizer& tokenizer, uint32_t vocab_size) {
  std::vector<int32_t> ids = text::unsampled_tokens(tokenizer);
  for (uint32_t id = tokenizer.size(); id < vocab_size; ++id) {
    ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::string directory_name(const Path& directory) {
  std::error_code error;
  const Path whole = std::filesystem::weakly_canonical(directory, error);
  return (error ? directory : whole).filename().string();
}

void warn_if_clamped(const planner::StartupPlan& plan, uint64_t asked) {
  if (asked != 0 || !plan.clamped()) return;
  base::log_warn("context shortened to what memory holds",
                 {{"tokens", base::with_commas(plan.context_tokens)},
                  {"model_maximum", base::with_commas(plan.context_tokens_model)},
                  {"available", base::human_bytes(plan.memory.bytes)},
                  {"limited_by", plan.memory.limited_by}});
}

Result<planner::StartupPlan> plan_for(const arch::Checkpoint& checkpoint,
                                      const EngineOptions& options) {
  const auto layout =
      arch::make_cache_layout(checkpoint.config(), model::cache_format(options.mode));
  planner::StartupWishes wishes;
  wishes.context_tokens = options.context_tokens;
  wishes.kv_bytes = options.kv_bytes;
  wishes.snapshot_bytes = options.snapshot_bytes;
  wishes.sequences = options.sequences_max;
  wishes.step_rows = options.prefill_chunk;
  wishes.packs = options.mode == model::Mode::kFast;
  return planner::plan_startup(checkpoint.config(), layout, checkpoint.bytes(), wishes,
                               base::available_memory());
}

// Timed if asked for, and if that does not mean reading weights from disk.
Result<planner::ReplayCosts> replay_costs_here(const model::Model& model,
                                               const planner::StartupPlan& plan,
                                               const EngineOptions& options) {
  planner::ReplayCosts costs = planner::typical_replay_costs(model.plan(), plan.context_tokens);
  if (!options.measures_replay) return costs;
  if (plan.weights_bytes > plan.memory.bytes) {
    costs.untimed = "the weights are larger than the memory available";
  } else {
    costs.layer_token_us =
        THIMBLE_TRY(measure_layer_token(model, plan.context_tokens, options.threads));
  }
  return costs;
}

}  // namespace

// Members are destroyed last to first: the thread ends before what it uses goes.
struct Engine::Impl {
  explicit Impl(arch::Checkpoint opened)
      : checkpoint(std::move(opened)), name(directory_name(checkpoint.directory())) {}

  // Everything that follows from the checkpoint.
  Result<void> load(const EngineOptions& options);

  const arch::Checkpoint checkpoint;
  const std::string name;
  std::optional<text::Tokenizer> tokenizer;
  Result<text::SpecialTokens> chat_tokens = text::SpecialTokens{};
  std::vector<int32_t> never_sampled;
  std::unique_ptr<model::Model> model;
  planner::StartupPlan plan;
  std::unique_ptr<ModelRunner> runner;
  std::optional<Scheduler> scheduler;
};

Result<void> Engine::Impl::load(const EngineOptions& options) {
  tokenizer = THIMBLE_TRY(open_tokenizer(checkpoint));
  if (tokenizer) {
    chat_tokens = text::resolve_chat_tokens(*tokenizer);
    never_sampled = engine::never_sampled(*tokenizer, checkpoint.config().vocab_size);
  } else {
    chat_tokens = base::fail(ErrorCode::kUnsupported, "{} has no tokenizer.json",
                             checkpoint.directory().string());
  }
  const auto token_map = THIMBLE_TRY(engram_map(checkpoint, tokenizer));
  plan = THIMBLE_TRY(plan_for(checkpoint, options));
  warn_if_clamped(plan, options.context_tokens);
  model = THIMBLE_TRY(
      model::Model::create(checkpoint, model_options_of(plan, options.mode, token_map)));
  CHECK_EQ(model->packed_bytes(), plan.packing.bytes());
  plan.replay = THIMBLE_TRY(replay_costs_here(*model, plan, options));
  ModelRunnerOptions running;
  running.threads = options.threads;
  running.cache.pool_bytes = plan.pool_bytes;
  running.cache.snapshot_bytes = plan.snapshot_bytes;
  running.cache.snapshot_ttl_us = int64_t{options.snapshot_ttl_seconds} * 1'000'000;
  running.checks_cache = options.checks_cache;
  runner = THIMBLE_TRY(ModelRunner::create(*model, running));
  SchedulerOptions scheduling;
  scheduling.prefill_chunk = options.prefill_chunk;
  scheduling.queue_requests_max = options.queue_requests_max;
  scheduling.context_tokens = plan.context_tokens;
  scheduling.sequences_max = static_cast<uint32_t>(plan.sequences);
  scheduler.emplace(*runner, scheduling);
  return {};
}

Result<std::unique_ptr<Engine>> Engine::open(const EngineOptions& options) {
  THIMBLE_TRY(check_options(options));
  const std::string step = "loading " + options.model_dir.string();
  try {
    auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(options.model_dir));
    auto impl = std::make_unique<Impl>(std::move(checkpoint));
    THIMBLE_TRY(base::in(impl->load(options), step));
    return std::unique_ptr<Engine>(new Engine(std::move(impl)));
  } catch (const std::exception& thrown) {  // threads or memory that the system would not give
    return tl::unexpected(base::in(Error{ErrorCode::kResourceExhausted, thrown.what(), {}}, step));
  }
}

Result<planner::StartupPlan> Engine::plan_of(const EngineOptions& options) {
  THIMBLE_TRY(check_options(options));
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(options.model_dir));
  planner::StartupPlan plan = THIMBLE_TRY(plan_for(checkpoint, options));
  plan.replay = planner::typical_replay_costs(arch::make_layer_plan(checkpoint.config()),
                                              plan.context_tokens);
  plan.replay.untimed = "nothing was run";
  return plan;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

Result<RequestId> Engine::submit(GenerationRequest request, std::shared_ptr<GenerationSink> sink) {
  std::vector<Submission> one;
  one.push_back({std::move(request), std::move(sink)});
  return THIMBLE_TRY(submit(std::move(one))).front();
}

Result<std::vector<RequestId>> Engine::submit(std::vector<Submission> submissions) {
  for (Submission& one : submissions) {
    std::vector<int32_t>& masked = one.request.masked_tokens;
    masked.insert(masked.end(), impl_->never_sampled.begin(), impl_->never_sampled.end());
  }
  return impl_->scheduler->submit(std::move(submissions));
}

void Engine::cancel(RequestId id) { impl_->scheduler->cancel(id); }

const arch::Config& Engine::config() const { return impl_->checkpoint.config(); }
const planner::StartupPlan& Engine::plan() const { return impl_->plan; }
const arch::LayerPlan& Engine::layers() const { return impl_->model->plan(); }
uint64_t Engine::context_tokens() const { return impl_->plan.context_tokens; }
const std::string& Engine::model_name() const { return impl_->name; }
const Result<text::SpecialTokens>& Engine::chat_tokens() const { return impl_->chat_tokens; }
Engine::Counters Engine::counters() const {
  Counters out = impl_->scheduler->counters();
  out.read_ahead = impl_->model->read_ahead_counts();
  return out;
}

const text::Tokenizer* Engine::tokenizer() const {
  return impl_->tokenizer ? &*impl_->tokenizer : nullptr;
}

}  // namespace thimble::engine
