#include "model/forward.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "model/engram.h"
#include "model/internal/engram_step.h"
#include "model/internal/packed_weights.h"
#include "model/internal/step.h"
#include "model/internal/weights.h"
#include "model/rope.h"

namespace thimble::model {

struct Model::Impl {
  const arch::Config& config;
  ModelOptions options;
  arch::LayerPlan plan;
  ModelWeights weights;
  PackedWeights packed;
  RopeFrequencies frequencies;
  std::optional<EngramHasher> hasher;
  std::unique_ptr<ReadAhead> read_ahead;  // null: not wanted
};

namespace {

Result<void> check_chunks(std::span<const Chunk> chunks, const arch::Config& config) {
  for (const Chunk& chunk : chunks) {
    CHECK(!chunk.ids.empty() && chunk.state != nullptr && chunk.rows != nullptr);
    CHECK_LE(chunk.logit_rows, chunk.ids.size());
    if (chunk.plan != nullptr) {
      CHECK_GE(chunk.state->position, chunk.plan->begin);
      CHECK_LE(chunk.state->position + chunk.ids.size(), chunk.plan->end);
    }
    for (size_t i = 0; i < chunk.ids.size(); ++i) {
      const int32_t id = chunk.ids[i];
      if (id < 0 || static_cast<uint32_t>(id) >= config.vocab_size) {
        return base::fail(ErrorCode::kInvalidArgument,
                          "token {} of the input is {}, outside the vocabulary [0, {})",
                          chunk.state->position + i, id, config.vocab_size);
      }
    }
  }
  return {};
}

// Lists the rows and starts each chunk's progress from its state.
void list_rows(Step& step) {
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    const Chunk& chunk = step.chunks[c];
    ChunkProgress progress;
    progress.first_row = step.rows.size();
    progress.row_count = chunk.ids.size();
    progress.begin = chunk.state->position;
    progress.end = progress.begin + chunk.ids.size();
    progress.half_pairs = chunk.state->half_pairs;
    progress.windows = chunk.state->windows;
    progress.published_keys = chunk.state->published_keys;
    for (size_t i = 0; i < chunk.ids.size(); ++i) {
      step.rows.push_back({static_cast<uint32_t>(c), progress.begin + i, step.rows.size()});
    }
    step.progress.push_back(std::move(progress));
  }
}

RopeTable rope_table(const Step& step, std::span<const float> frequencies) {
  const RopeTable table{step.take(step.n(), frequencies.size()),
                        step.take(step.n(), frequencies.size())};
  step.context.pool.parallel_for(step.n(), [&](uint64_t i, uint32_t) {
    rope_row(frequencies, step.rows[i].position, {table.cos.row(i), frequencies.size()},
             {table.sin.row(i), frequencies.size()});
  });
  return table;
}

kernels::HcMix take_mix(const Step& step) {
  const uint64_t copies = step.config.hc_mult;
  return {step.take(step.n(), copies), step.take(step.n(), copies),
          step.take(step.n(), copies * copies)};
}

// The stream starts as equal copies of the embedding; the first collapse takes copy 0.
void embed_rows(Step& step, const ModelWeights& weights) {
  const uint32_t copies = step.config.hc_mult;
  const uint64_t hidden = step.config.hidden_size;
  step.stream = step.take(step.n(), copies * hidden);
  step.pre = step.take(step.n(), copies);
  step.x = step.take(step.n(), hidden);
  step.mix = take_mix(step);
  const Rows<float> embedding = step.take(step.n(), hidden);
  for (uint64_t i = 0; i < step.n(); ++i) {
    const Chunk& chunk = step.chunk_of(i);
    const uint64_t at = step.rows[i].position - step.progress[step.rows[i].chunk].begin;
    kernels::decode_weight_row(weights.embed, static_cast<uint32_t>(chunk.ids[at]),
                               {embedding.row(i), hidden});
    for (uint32_t copy = 0; copy < copies; ++copy) {
      std::copy_n(embedding.row(i), hidden, step.stream.row(i) + copy * hidden);
      step.pre.row(i)[copy] = copy == 0 ? 1.0F : 0.0F;
    }
  }
  step.tell("embed", 0, embedding);
}

kernels::HcWeights hc_weights(const arch::Config& config, const HcTensors& tensors) {
  kernels::HcWeights out;
  out.fn = tensors.fn;
  out.scale = tensors.scale;
  out.base = tensors.base;
  out.copies = config.hc_mult;
  out.sinkhorn_iters = config.hc_sinkhorn_iters;
  out.hc_eps = static_cast<float>(config.hc_eps);
  out.norm_eps = static_cast<float>(config.rms_norm_eps);
  return out;
}

void normalise(const Step& step, const std::byte* norm, Rows<float> x) {
  kernels::rms_norm(x, norm, static_cast<float>(step.config.rms_norm_eps), x, step.context);
}

// From one sublayer to the next: the branch y goes into the stream by `spread` (without data there
// is none), `mix` is that of the new stream, and step.x what `pre` collapses it to, normalised.
void turn(Step& step, Rows<const float> y, const kernels::HcMix& spread, const HcTensors& tensors,
          const kernels::HcMix& mix, Rows<const float> pre, const std::byte* norm) {
  const kernels::HcWeights weights = hc_weights(step.config, tensors);
  kernels::hc_turn({step.stream, y, spread, weights, mix, pre, step.x}, step.context);
  normalise(step, norm, step.x);
}

// Two sublayers. The mix a sublayer computes spreads its own branch, and collapses for the NEXT
// one. Rows that only leave their key drop out before the queries. `next`: the layer that follows
// and is entered in the same pass, or null.
void run_layer(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
               const LayerWeights* next) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  if (!step.entered) {
    turn(step, {}, {}, weights.hc_attn, step.mix, step.pre, weights.attn_norm);
  }
  step.tell("attn_in.layers", role.layer, step.x);
  const StepWindows windows = write_windows(step, weights, role, step.x);
  if (role.mode == arch::AttentionMode::kFull) compress(step, weights, role, step.x);
  step.keep_from(role.layer, &arch::LayerRows::rows_begin);
  if (step.n() > 0) {
    const Rows<float> y = step.take(step.n(), step.config.hidden_size);
    const kernels::HcMix ffn = take_mix(step);
    attention(step, weights, role, windows, step.x, y);
    turn(step, y, step.mix, weights.hc_ffn, ffn, step.mix.pre, weights.ffn_norm);
    step.tell("mid.layers", role.layer, step.stream);
    step.tell("ffn_in.layers", role.layer, step.x);
    mixture_of_experts(step, weights, role, step.x, y);
    if (next != nullptr) {
      turn(step, y, ffn, next->hc_attn, step.mix, ffn.pre, next->attn_norm);
    } else {
      kernels::hc_post(step.stream, y, ffn, step.context);
    }
    for (uint64_t i = 0; i < step.n(); ++i)
      std::copy_n(ffn.pre.row(i), ffn.pre.cols, step.pre.row(i));
    step.tell("hidden.layers", role.layer, step.stream);
    step.tell("pre_mix.layers", role.layer, step.pre);
  }
  step.entered = next != nullptr;
  store_windows(step, role.layer, windows);
}

// What is entered with layer `index` - 1: not one whose Engram adds to the stream first.
const LayerWeights* entered_with(const arch::LayerPlan& plan, const ModelWeights& weights,
                                 size_t index) {
  if (index >= plan.layers.size() || plan.layers[index].engram) return nullptr;
  return &weights.layers[plan.layers[index].layer];
}

// Logits of the rows each chunk asked for.
void output_logits(const Step& step, const ModelWeights& weights) {
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    const Chunk& chunk = step.chunks[c];
    if (chunk.logit_rows == 0) continue;
    const kernels::Workspace::Mark mark(step.context.workspace);
    const ChunkProgress& progress = step.progress[c];
    CHECK_LE(chunk.logit_rows, progress.row_count);
    const uint64_t first = progress.first_row + progress.row_count - chunk.logit_rows;
    const Rows<float> x = step.take(chunk.logit_rows, step.config.hidden_size);
    kernels::hc_collapse(step.stream.slice(first, chunk.logit_rows),
                         step.pre.slice(first, chunk.logit_rows), x, step.context);
    normalise(step, weights.norm, x);
    if (chunk.trace != nullptr && chunk.trace->wants("final_norm")) {
      for (uint64_t i = 0; i < x.rows; ++i) {
        chunk.trace->floats("final_norm", 0, step.rows[first + i].position, {x.row(i), x.cols});
      }
    }
    kernels::linear(weights.head, x, {chunk.logits, chunk.logit_rows, step.config.vocab_size},
                    step.context);
  }
}

// Is there nobody left who waits for this step?
bool all_stopped(std::span<const Chunk> chunks) {
  return std::ranges::all_of(
      chunks, [](const Chunk& chunk) { return chunk.stop != nullptr && chunk.stop->due(); });
}

// Nothing can fail any more: the chunks' tokens become part of their sequences.
void commit(const Step& step, const EngramStep* engram) {
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    SequenceState& state = *step.chunks[c].state;
    state.position = step.progress[c].end;
    state.half_pairs = step.progress[c].half_pairs;
    state.windows = step.progress[c].windows;
    state.published_keys = step.progress[c].published_keys;
    if (engram != nullptr) state.engram_history = engram->history_after(c);
  }
}

}  // namespace

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::create(const arch::Checkpoint& checkpoint,
                                             const ModelOptions& options) {
  arch::LayerPlan plan = arch::make_layer_plan(checkpoint.config());
  ModelWeights weights = resolve_weights(checkpoint, plan);
  PackedWeights packed;
  if (options.mode == Mode::kFast) {
    base::ThreadPool pool;
    packed = THIMBLE_TRY(PackedWeights::create(weights, options.packing, pool));
  }
  auto impl = std::make_unique<Impl>(Impl{
      checkpoint.config(), options, std::move(plan), std::move(weights), std::move(packed),
      make_rope_frequencies(checkpoint.config()), std::nullopt,
      options.read_ahead ? std::make_unique<ReadAhead>(checkpoint.tells_residency()) : nullptr});
  if (!checkpoint.config().engram.layer_ids.empty()) {
    impl->hasher = THIMBLE_TRY(EngramHasher::create(checkpoint.config(), options.token_map));
  }
  impl->options.token_map = {};  // copied by the hasher
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

const arch::Config& Model::config() const { return impl_->config; }
const arch::LayerPlan& Model::plan() const { return impl_->plan; }

arch::CacheFormat cache_format(Mode mode) {
  return mode == Mode::kNokvq ? arch::CacheFormat::kFloat : arch::CacheFormat::kPacked;
}

arch::CacheFormat Model::cache_format() const { return model::cache_format(impl_->options.mode); }

uint32_t Model::numerics_version() const {
  constexpr uint32_t kExactVersion = 1;
  constexpr uint32_t kFastVersion = 2;
  return impl_->options.mode == Mode::kFast ? kFastVersion : kExactVersion;
}

uint64_t Model::packed_bytes() const { return impl_->packed.bytes(); }

ReadAheadCounts Model::read_ahead_counts() const {
  return impl_->read_ahead ? impl_->read_ahead->counts() : ReadAheadCounts();
}

SequenceState Model::sequence_at(std::span<const int32_t> ids) const {
  SequenceState state;
  state.position = ids.size();
  state.half_pairs.resize(impl_->plan.owners.size());
  state.windows.resize(impl_->plan.layers.size());
  if (impl_->hasher) state.engram_history = impl_->hasher->history_after(ids);
  return state;
}

Result<void> Model::forward(std::span<const Chunk> chunks, Context context) const {
  if (chunks.empty()) return {};
  THIMBLE_TRY(check_chunks(chunks, impl_->config));
  const kernels::Workspace::Mark mark(context.workspace);
  Step step{
      impl_->config,      impl_->plan, impl_->options.mode,    impl_->options.index_keys, context,
      impl_->frequencies, chunks,      impl_->read_ahead.get()};
  list_rows(step);
  std::optional<EngramStep> engram;
  if (impl_->hasher) {
    engram.emplace(step, *impl_->hasher);
    engram->read_ahead(step, impl_->weights);
    THIMBLE_TRY(engram->check_rows(impl_->weights));
  }
  step.rope[0] = rope_table(step, impl_->frequencies.window);
  step.rope[1] = rope_table(step, impl_->frequencies.compressed);
  const uint64_t topk = impl_->config.index_topk;
  step.selected = {context.workspace.take<int32_t>(step.n() * topk).data(), step.n(), topk};
  embed_rows(step, impl_->weights);
  for (const arch::LayerRole& role : impl_->plan.layers) {
    const LayerWeights& weights = impl_->weights.layers[role.layer];
    step.keep_from(role.layer, &arch::LayerRows::keys_begin);
    if (step.n() == 0) break;
    if (all_stopped(chunks)) {
      return base::fail(ErrorCode::kCancelled, "stopped before layer {}", role.layer);
    }
    if (role.engram) engram->apply(step, weights, role);
    run_layer(step, weights, role, entered_with(impl_->plan, impl_->weights, role.layer + 1));
  }
  output_logits(step, impl_->weights);
  commit(step, engram ? &*engram : nullptr);
  return {};
}

}  // namespace thimble::model
