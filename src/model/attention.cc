// Attention of one layer: window rows of its own, selected entries of its owner, grouped output.
// Source: backbone spec section 5.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "arch/cache_layout.h"
#include "base/check.h"
#include "model/internal/step.h"

namespace thimble::model {
namespace {

using kernels::RingRows;

// Where a chunk's window rows lie during the step: in the sequence's ring when the new rows fit its
// slack, else in a longer ring of the step's own, because the sequence's would overwrite rows that
// the chunk's first queries still see.
std::vector<RingRows> window_rings(const Step& step, uint32_t layer) {
  std::vector<RingRows> rings;
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    const Chunk& chunk = step.chunks[c];
    RingRows ring = chunk.rows->windows[layer];
    CHECK_EQ(ring.slots, step.plan.window + arch::kWindowSlackRows);
    if (chunk.ids.size() > arch::kWindowSlackRows) {
      const RingRows stored = ring;
      ring.slots = static_cast<uint32_t>(step.plan.window + chunk.ids.size());
      ring.base =
          step.context.workspace.take<std::byte>(static_cast<uint64_t>(ring.slots) * ring.row_bytes)
              .data();
      const uint64_t begin = step.progress[c].begin;
      for (uint64_t p = arch::first_visible(begin, step.plan.window); p < begin; ++p) {
        std::memcpy(ring.row(p), stored.row(p), ring.row_bytes);
      }
    }
    rings.push_back(ring);
  }
  return rings;
}

// Brings the sequences' rings up to date where the step used longer ones.
void store_windows(const Step& step, uint32_t layer, const std::vector<RingRows>& rings) {
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    const RingRows& stored = step.chunks[c].rows->windows[layer];
    if (rings[c].base == stored.base) continue;
    const uint64_t end = step.progress[c].begin + step.chunks[c].ids.size();
    const uint64_t first = end > stored.slots ? end - stored.slots : 0;
    const uint64_t known = arch::first_visible(step.progress[c].begin, step.plan.window);
    for (uint64_t p = std::max(first, known); p < end; ++p) {
      std::memcpy(stored.row(p), rings[c].row(p), stored.row_bytes);
    }
  }
}

void write_windows(const Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                   Rows<const float> x, const std::vector<RingRows>& rings) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  const RopeTable& rope = step.rope[role.compressed_rope];
  const Rows<float> k = step.take(step.n(), step.config.head_dim);
  kernels::linear(weights.wkv, x, k, step.context);
  kernels::rms_norm(k, weights.kv_norm, static_cast<float>(step.config.rms_norm_eps), k,
                    step.context);
  kernels::rope(k, 1, rope.cos, rope.sin, kernels::Rotation::kForward, step.context);
  step.tell("window_kv_pre.layers", role.layer, k);
  for (uint64_t i = 0; i < step.n(); ++i) {
    const RingRows& ring = rings[step.rows[i].chunk];
    std::byte* row = ring.row(step.rows[i].position);
    kernels::write_row(ring.format, {k.row(i), k.cols}, row);
    kernels::read_row(ring.format, row, {k.row(i), k.cols});
  }
  step.tell("window_kv.layers", role.layer, k);
}

// The entries row i attends: what the last index source selected for it.
std::span<const int32_t> selected_entries(const Step& step, const arch::LayerRole& role,
                                          uint64_t i) {
  if (role.ratio == 0) return {};
  const int32_t* first = step.selected.row(i);
  return {first, std::find(first, first + step.selected.cols, -1)};
}

void attend_rows(const Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                 const std::vector<RingRows>& rings, Rows<const float> q, Rows<float> out) {
  std::vector<kernels::AttendJob> jobs(step.n());
  for (uint64_t i = 0; i < step.n(); ++i) {
    kernels::AttendJob& job = jobs[i];
    const uint64_t position = step.rows[i].position;
    job.q = q.row(i);
    job.out = out.row(i);
    job.window = rings[step.rows[i].chunk];
    job.window_begin = arch::first_visible(position, step.plan.window);
    job.window_end = position + 1;
    job.selected = selected_entries(step, role, i);
    if (role.ratio != 0) job.main = step.chunk_of(i).rows->main[*role.owner];
  }
  kernels::AttendShape shape;
  shape.heads = step.config.num_attention_heads;
  shape.dims = step.config.head_dim;
  shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.dims));
  shape.sink = weights.sink;
  kernels::attend(jobs, shape, step.context);
}

// wo_a is block-diagonal over groups of consecutive heads; wo_b joins the groups.
void project_output(const Step& step, const LayerWeights& weights, Rows<const float> heads,
                    Rows<float> y) {
  const uint32_t groups = step.config.o_groups;
  const uint32_t rank = step.config.o_lora_rank;
  const uint64_t width = heads.cols / groups;
  const Rows<float> z = step.take(step.n(), static_cast<uint64_t>(groups) * rank);
  std::vector<kernels::LinearJob> jobs;
  for (uint32_t g = 0; g < groups; ++g) {
    jobs.push_back({weights.wo_a.outputs(g * rank, rank), heads.columns(g * width, width),
                    z.columns(static_cast<uint64_t>(g) * rank, rank)});
  }
  kernels::linear_batch(jobs, step.context);
  kernels::linear(weights.wo_b, z, y, step.context);
}

}  // namespace

void attention(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
               Rows<const float> x, Rows<float> y) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  const RopeTable& rope = step.rope[role.compressed_rope];
  const std::vector<RingRows> rings = window_rings(step, role.layer);
  write_windows(step, weights, role, x, rings);
  if (role.mode == arch::AttentionMode::kFull) compress(step, weights, role, x);

  const Rows<float> latent = step.take(step.n(), step.config.q_lora_rank);
  kernels::linear(weights.wq_a, x, latent, step.context);
  kernels::rms_norm(latent, weights.q_norm, static_cast<float>(step.config.rms_norm_eps), latent,
                    step.context);
  if (role.selects()) select_entries(step, weights, role, x, latent);

  const uint32_t heads = step.config.num_attention_heads;
  const Rows<float> q = step.take(step.n(), static_cast<uint64_t>(heads) * step.config.head_dim);
  const Rows<float> out = step.take(step.n(), q.cols);
  kernels::linear(weights.wq_b, latent, q, step.context);
  kernels::rope(q, heads, rope.cos, rope.sin, kernels::Rotation::kForward, step.context);
  attend_rows(step, weights, role, rings, q, out);
  store_windows(step, role.layer, rings);
  // Keys are values here: the query's position undoes the rotation the values carry.
  kernels::rope(out, heads, rope.cos, rope.sin, kernels::Rotation::kBackward, step.context);
  step.tell("attn_o.layers", role.layer, out);
  project_output(step, weights, out, y);
  step.tell("attn_out.layers", role.layer, y);
}

}  // namespace thimble::model
