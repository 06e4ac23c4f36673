#include "engine/internal/model_runner.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "engine/internal/commit_rows.h"
#include "engine/internal/prefill.h"

namespace thimble::engine {
namespace {

struct ModelSequence : RunnerSequence {
  ModelSequence(std::unique_ptr<cache::Sequence> rows, model::SequenceState begun, Prefill way,
                uint64_t hit)
      : cached(std::move(rows)), state(std::move(begun)), prefill(std::move(way)) {
    reuse.cached_tokens = hit;
  }

  uint64_t begin() const override { return prefill.begin(); }
  uint64_t step_end_max(uint64_t) const override {
    return prefill.done() ? UINT64_MAX : prefill.rows().end;
  }
  ReuseUsage usage() const override {
    ReuseUsage usage = reuse;
    usage.exact =
        cached->marks() == cache::Marks{} && (prefill.done() || prefill.marks() == cache::Marks{});
    return usage;
  }
  uint64_t layer_rows(uint64_t from, uint64_t to) const override {
    if (prefill.done()) return (to - from) * state.windows.size();
    uint64_t rows = 0;
    for (const arch::LayerRows& layer : prefill.rows().layers) {
      rows += to - std::clamp(layer.rows_begin, from, to);
    }
    return rows;
  }
  uint64_t blocks_missing(uint64_t tokens) const override { return cached->blocks_missing(tokens); }
  bool publishes() const override { return cached->private_from() == cache::kNeverPrivate; }
  bool intact() const override { return !broken; }

  // Erases what a step wrote that broke off.
  void discard() {
    const uint64_t begin = cached->window_begin();
    const uint64_t end = cached->window_end();
    cached->discard_uncommitted();
    broken = cached->window_begin() != begin || cached->window_end() != end;
  }

  std::unique_ptr<cache::Sequence> cached;
  model::SequenceState state;
  Prefill prefill;
  ReuseUsage reuse;
  bool broken = false;
};

ModelSequence& own(RunnerSequence* sequence) { return *static_cast<ModelSequence*>(sequence); }

// A snapshot is a favour to later requests: this one does not fail for want of memory for it.
void keep_snapshot(ModelSequence& sequence) {
  try {
    const std::vector<std::byte> state = model::to_bytes(sequence.state);
    if (const auto kept = sequence.cached->take_snapshot(state); !kept) {
      base::log_debug("no snapshot",
                      {{"position", sequence.state.position}, {"why", kept.error().message}});
    }
  } catch (const std::bad_alloc&) {
    base::log_warn("no memory for a snapshot", {{"position", sequence.state.position}});
  }
}

// The step's rows become the sequence's; at the end of a segment its windows are whole.
void commit(ModelSequence& sequence, std::span<const int32_t> ids,
            std::span<const uint64_t> written) {
  cache::Sequence& cached = *sequence.cached;
  const uint64_t end = sequence.state.position;
  commit_rows(cached, ids, end, written);
  if (sequence.prefill.done() || end < sequence.prefill.rows().end) return;
  if (sequence.prefill.marks().decoder_exact) {
    cached.mark_decoder_exact();
  } else {
    cached.mark_decoder_bounded();
  }
  if (sequence.prefill.wants_snapshot()) keep_snapshot(sequence);
  sequence.prefill.end_segment();
}

}  // namespace

ModelRunner::ModelRunner(const model::Model& model, const ModelRunnerOptions& options,
                         std::unique_ptr<cache::PagedCache> cache)
    : model_(model), options_(options), cache_(std::move(cache)), pool_(options.threads) {}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(const model::Model& model,
                                                         const ModelRunnerOptions& options) {
  const auto layout = arch::make_cache_layout(model.config(), model.cache_format());
  auto cache = THIMBLE_TRY(cache::PagedCache::create(model.config(), layout, options.cache));
  return std::unique_ptr<ModelRunner>(new ModelRunner(model, options, std::move(cache)));
}

cache::CacheIdentity ModelRunner::identity(const std::string& salt) const {
  return {.salt = salt,
          .model = options_.fingerprint,
          .format = model_.cache_format(),
          .numerics_version = model_.numerics_version()};
}

// The best route whose blocks can be had. What a match found stays pinned while it lives, copies of
// partial blocks included, and may be all there is: then the hit is cut to whole blocks, which
// needs no room, and at last nothing is adopted.
Result<ModelRunner::Begun> ModelRunner::begin(const SequenceSpec& spec) {
  const auto name = identity(spec.salt);
  if (spec.reuse && !spec.all_rows) {
    const auto match = cache_->match(name, spec.prompt, exactness(spec.replay));
    const Route best = choose_route(model_.plan(), match->hit(), match->snapshots(),
                                    spec.prompt.size(), spec.replay);
    Route aligned;
    aligned.hit = std::min(best.hit, match->hit()) / arch::kBlockTokens * arch::kBlockTokens;
    for (const Route& route : {best, aligned}) {
      auto cached = cache_->open(*match, {route.hit, route.snapshot, spec.tokens_max});
      if (!cached && cached.error().code != ErrorCode::kUnavailable) {
        return tl::unexpected(std::move(cached).error());
      }
      if (!cached) continue;
      Begun begun{std::move(*cached), route, {}};
      if (route.snapshot != nullptr) {
        begun.state.assign(route.snapshot->model.begin(), route.snapshot->model.end());
      }
      begun.route.snapshot = nullptr;  // goes with the match
      return begun;
    }
  }
  auto cached = THIMBLE_TRY(cache_->open_empty(name, spec.tokens_max));
  return Begun{std::move(cached), {}, {}};
}

Result<std::unique_ptr<RunnerSequence>> ModelRunner::start(const SequenceSpec& spec) {
  const arch::LayerPlan& plan = model_.plan();
  const std::span<const int32_t> prompt = spec.prompt;
  Begun begun = THIMBLE_TRY(begin(spec));
  Prefill prefill(plan, begun.route, prompt.size(), spec.replay, spec.snapshot_points,
                  options_.cache.snapshot_bytes > 0,
                  spec.all_rows ? PromptOutputs::kAll : PromptOutputs::kLast);
  model::SequenceState state = model_.sequence_at(prompt.first(prefill.begin()));
  if (begun.route.windows_at) THIMBLE_TRY(model::restore_bytes(begun.state, state));
  cache::Sequence& cached = *begun.cached;
  if (!prefill.marks().encoder_exact) cached.mark_private();
  if (cached.length() < prefill.begin()) {  // a model without owners: rows nobody needs
    const std::vector<uint64_t> none(plan.owners.size());
    cached.commit(prompt.subspan(cached.length(), prefill.begin() - cached.length()), none);
  }
  return std::make_unique<ModelSequence>(std::move(begun.cached), std::move(state),
                                         std::move(prefill), begun.route.hit);
}

// What it would find is a mistake of this program: rows that are not what they are taken for.
void ModelRunner::check_cache() const {
  const auto sound = cache_->check_integrity();
  if (!sound)
    base::check_failed(__FILE__, __LINE__, "the cache is sound", sound.error().describe());
}

Result<void> ModelRunner::run(std::span<const Step> steps) {
  auto ran = run_steps(steps);
  if (options_.checks_cache) check_cache();
  return ran;
}

bool ModelRunner::is_worth_waiting(const SequenceSpec& spec, uint64_t tokens, bool whole) {
  const auto match = cache_->match(identity(spec.salt), spec.prompt, exactness(spec.replay));
  const Route now = choose_route(model_.plan(), match->hit(), match->snapshots(),
                                 spec.prompt.size(), spec.replay);
  Route then;
  then.hit = std::min<uint64_t>(tokens, spec.prompt.size() - 1);
  if (then.hit <= match->hit()) return false;
  if (whole && options_.cache.snapshot_bytes > 0) then.windows_at = then.hit;
  return route_cost(model_.plan(), then, spec.prompt.size(), spec.replay) <
         route_cost(model_.plan(), now, spec.prompt.size(), spec.replay);
}

Result<void> ModelRunner::reserve(const Step& step) {
  ModelSequence& sequence = own(step.sequence);
  const uint64_t end = sequence.state.position + step.ids.size();
  return sequence.cached->reserve(std::max(end, sequence.cached->length()));
}

void ModelRunner::unreserve(RunnerSequence& sequence) { own(&sequence).cached->unreserve(); }

Result<void> ModelRunner::run_steps(std::span<const Step> steps) {
  std::vector<model::Chunk> chunks;
  std::vector<std::vector<uint64_t>> written(steps.size());
  // An exception or a stop in the middle may leave rows behind.
  struct Undo {
    std::span<const Step> steps;
    ~Undo() {
      for (const Step& step : steps) own(step.sequence).discard();
    }
  } undo{steps};
  for (size_t i = 0; i < steps.size(); ++i) {
    ModelSequence& sequence = own(steps[i].sequence);
    written[i].resize(model_.plan().owners.size());
    model::Chunk chunk;
    chunk.state = &sequence.state;
    chunk.rows = &sequence.cached->rows();
    chunk.ids = steps[i].ids;
    if (!sequence.prefill.done()) chunk.plan = &sequence.prefill.rows();
    chunk.logit_rows = static_cast<uint32_t>(steps[i].logits.size() / vocab_size());
    chunk.logits = steps[i].logits.data();
    chunk.written = written[i];
    chunk.stop = steps[i].stop;
    chunks.push_back(chunk);
  }
  const auto ran = model_.forward(chunks, {pool_, workspace_});
  if (!ran && ran.error().code == ErrorCode::kCancelled) return ran;
  undo.steps = {};
  for (size_t i = 0; i < steps.size(); ++i) {
    ModelSequence& sequence = own(steps[i].sequence);
    if (ran) {
      commit(sequence, steps[i].ids, written[i]);
    } else {
      sequence.cached->unreserve();  // other errors come before anything is written
    }
  }
  return ran;
}

void ModelRunner::finish(RunnerSequence& sequence) {
  pause(sequence);
  if (options_.checks_cache) check_cache();
}

// Where windows are whole a snapshot is all that going on needs beside the blocks.
void ModelRunner::pause(RunnerSequence& sequence) {
  if (own(&sequence).prefill.done() && options_.cache.snapshot_bytes > 0) {
    keep_snapshot(own(&sequence));
  }
}

uint64_t ModelRunner::blocks_available() const {
  return cache_->layout().block_bytes == 0 ? UINT64_MAX : cache_->blocks_available();
}

CacheUse ModelRunner::cache_use() const {
  const cache::CacheCounters now = cache_->counters();
  return {.blocks_total = now.blocks_total,
          .blocks_used = now.blocks_total - now.blocks_free,
          .blocks_live = now.blocks_live,
          .blocks_indexed = now.blocks_indexed,
          .blocks_evicted = now.blocks_evicted,
          .block_bytes = now.block_bytes,
          .snapshots = now.snapshot_count,
          .snapshots_used = now.snapshots_used,
          .snapshot_bytes = now.snapshot_bytes,
          .snapshot_bytes_max = now.snapshot_bytes_max,
          .ring_bytes = now.ring_bytes};
}

void ModelRunner::idle() {
  cache_->drop_expired();
#ifndef NDEBUG
  check_cache();
#endif
}

}  // namespace thimble::engine
