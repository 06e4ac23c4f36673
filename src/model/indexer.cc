// Indexer of an index source: which entries each row will attend. Backbone spec 6.3 to 6.5, 6.7.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"
#include "model/internal/step.h"

namespace thimble::model {
namespace {

// The owner whose index keys chunk `c` scores: the layer's own, unless the published slip is asked
// for and this step left its group open.
uint32_t keys_owner(Step& step, const arch::LayerRole& role, size_t c) {
  if (step.index_keys == IndexKeys::kOwn) return *role.owner;
  ChunkProgress& progress = step.progress[c];
  const uint64_t end = progress.begin + step.chunks[c].ids.size();
  const bool completed =
      arch::entries_after(end, role.ratio) > arch::entries_after(progress.begin, role.ratio);
  if (role.mode == arch::AttentionMode::kFull && completed) progress.published_keys = role.owner;
  return progress.published_keys.value_or(*role.owner);
}

uint64_t blocks_of(const Step& step, uint64_t entries) {
  return base::div_ceil(entries, step.config.candidate_block_size);
}

// Candidate masks outlive the layer: later index sources read them.
void take_candidate_masks(Step& step) {
  uint64_t bytes = 0;
  for (const StepRow& row : step.rows) bytes += blocks_of(step, row.position + 1);
  step.candidate_storage.assign(bytes, 0);
  uint8_t* next = step.candidate_storage.data();
  step.candidate_blocks.clear();
  for (const StepRow& row : step.rows) {
    step.candidate_blocks.push_back(next);
    next += blocks_of(step, row.position + 1);
  }
}

// The mask as entries, for traces: whole kept blocks, entries not yet visible included.
void tell_candidates(const Step& step, const arch::LayerRole& role) {
  for (uint64_t i = 0; i < step.n(); ++i) {
    Trace* trace = step.chunk_of(i).trace;
    if (trace == nullptr || !trace->wants("candidates")) continue;
    const uint64_t visible = arch::visible_entries(step.rows[i].position, role.ratio);
    std::vector<int32_t> entries;
    for (uint64_t b = 0; b < blocks_of(step, visible); ++b) {
      entries.insert(entries.end(), step.config.candidate_block_size, step.candidate_blocks[i][b]);
    }
    trace->ints("candidates", role.layer, step.rows[i].position, entries);
  }
}

Rows<float> index_queries(const Step& step, const LayerWeights& weights,
                          Rows<const float> q_latent) {
  const uint32_t heads = step.config.index_n_heads;
  const RopeTable& rope = step.rope[1];
  const Rows<float> q =
      step.take(step.n(), static_cast<uint64_t>(heads) * step.config.index_head_dim);
  kernels::linear(weights.index_wq_b, q_latent, q, step.context);
  kernels::rope(q, heads, rope.cos, rope.sin, kernels::Rotation::kForward, step.context);
  if (step.mode != Mode::kNokvq) {
    for (uint64_t i = 0; i < step.n(); ++i) kernels::round_mxfp4({q.row(i), q.cols});
  }
  return q;
}

Rows<float> head_weights(const Step& step, const LayerWeights& weights, Rows<const float> x) {
  const Rows<float> w = step.take(step.n(), step.config.index_n_heads);
  kernels::linear(weights.index_weights, x, w, step.context);
  const auto scale = static_cast<float>(
      1.0 / std::sqrt(static_cast<double>(step.config.index_head_dim) * step.config.index_n_heads));
  for (uint64_t i = 0; i < step.n(); ++i) {
    for (uint64_t h = 0; h < w.cols; ++h) w.row(i)[h] *= scale;
  }
  return w;
}

// Scores are kept only for traces that ask.
float* score_row(const Step& step, uint64_t i, uint64_t visible) {
  const Trace* trace = step.chunk_of(i).trace;
  if (trace == nullptr || !trace->wants("index_score")) return nullptr;
  return step.context.workspace.take<float>(visible).data();
}

void tell_selection(const Step& step, const arch::LayerRole& role,
                    const std::vector<kernels::SelectJob>& jobs) {
  for (uint64_t i = 0; i < step.n(); ++i) {
    if (jobs[i].scores == nullptr) continue;
    for (uint64_t j = 0; j < jobs[i].visible && role.uses_candidates; ++j) {
      const bool kept = step.candidate_blocks[i][j / step.config.candidate_block_size] != 0;
      if (!kept) jobs[i].scores[j] = -std::numeric_limits<float>::infinity();
    }
    step.chunk_of(i).trace->floats("index_score", role.layer, step.rows[i].position,
                                   {jobs[i].scores, jobs[i].visible});
  }
  step.tell("topk", role.layer, Rows<const int32_t>(step.selected));
  if (role.makes_candidates) tell_candidates(step, role);
}

}  // namespace

void select_entries(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                    Rows<const float> x, Rows<const float> q_latent) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  const Rows<float> q = index_queries(step, weights, q_latent);
  const Rows<float> w = head_weights(step, weights, x);
  if (role.makes_candidates) take_candidate_masks(step);
  std::vector<uint32_t> owners;
  for (size_t c = 0; c < step.chunks.size(); ++c) owners.push_back(keys_owner(step, role, c));
  std::vector<kernels::SelectJob> jobs(step.n());
  for (uint64_t i = 0; i < step.n(); ++i) {
    kernels::SelectJob& job = jobs[i];
    job.q = q.row(i);
    job.head_weights = w.row(i);
    job.keys = step.chunk_of(i).rows->index[owners[step.rows[i].chunk]];
    job.visible = arch::visible_entries(step.rows[i].position, role.ratio);
    if (role.makes_candidates) job.candidate_blocks = step.candidate_blocks[i];
    if (role.uses_candidates) job.allowed_blocks = step.candidate_blocks[i];
    job.selected = step.selected.row(i);
    job.scores = score_row(step, i, job.visible);
  }
  kernels::SelectShape shape;
  shape.heads = step.config.index_n_heads;
  shape.dims = step.config.index_head_dim;
  shape.topk = step.config.index_topk;
  if (step.config.candidate_source_layer_id) {
    shape.block_size = step.config.candidate_block_size;
    shape.candidate_blocks = step.config.candidate_topk_blocks;
  }
  kernels::index_select(jobs, shape, step.context);
  tell_selection(step, role, jobs);
}

}  // namespace thimble::model
