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

// The ring for a chunk's keys from position `first` on: the sequence's when they fit its slack,
// else a longer one of the step's own, because the sequence's would overwrite rows that the chunk's
// first queries still see.
RingRows ring_for(const Step& step, const RingRows& stored, uint64_t first, uint64_t end) {
  CHECK_EQ(stored.slots, step.plan.window + arch::kWindowSlackRows);
  if (end - first <= arch::kWindowSlackRows) return stored;
  RingRows ring = stored;
  ring.slots = static_cast<uint32_t>(step.plan.window + (end - first));
  ring.base =
      step.context.workspace.take<std::byte>(static_cast<uint64_t>(ring.slots) * ring.row_bytes)
          .data();
  for (uint64_t p = arch::first_visible(first, step.plan.window); p < first; ++p) {
    std::memcpy(ring.row(p), stored.row(p), ring.row_bytes);
  }
  return ring;
}

// Keys [first, end) are about to be written: what will be at hand. Rows that do not follow on those
// at hand begin a new span; a plan's floor hides what lies below it.
WindowSpan extend(const Chunk& chunk, uint32_t layer, WindowSpan span, uint64_t first,
                  uint64_t end) {
  if (chunk.plan == nullptr) CHECK_EQ(span.end, first);
  if (span.end != first) span.begin = first;
  span.end = end;
  if (chunk.plan != nullptr) {
    const uint64_t floor = chunk.plan->layers[layer].window_floor;
    span.begin = std::max(span.begin, std::min(floor, end));
  }
  return span;
}

// The entries row i attends: what the last index source selected for it.
std::span<const int32_t> selected_entries(const Step& step, const arch::LayerRole& role,
                                          uint64_t i) {
  if (role.ratio == 0) return {};
  const int32_t* first = step.selected.row(i);
  return {first, std::find(first, first + step.selected.cols, -1)};
}

// First key a query of chunk `c` reads.
uint64_t window_begin(const Step& step, const arch::LayerRole& role, uint32_t c,
                      uint64_t position) {
  const WindowSpan& span = step.progress[c].windows[role.layer];
  const arch::RowPlan* plan = step.chunks[c].plan;
  if (plan != nullptr) CHECK_LE(span.begin, plan->layers[role.layer].window_floor);
  return std::max(arch::first_visible(position, step.plan.window), span.begin);
}

void attend_rows(const Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                 const StepWindows& windows, Rows<const float> q, Rows<float> out) {
  const RopeTable& rope = step.rope[role.compressed_rope];
  std::vector<kernels::AttendJob> jobs(step.n());
  for (uint64_t i = 0; i < step.n(); ++i) {
    kernels::AttendJob& job = jobs[i];
    const uint64_t position = step.rows[i].position;
    job.q = q.row(i);
    job.out = out.row(i);
    job.window = windows[step.rows[i].chunk].ring;
    job.window_begin = window_begin(step, role, step.rows[i].chunk, position);
    job.window_end = position + 1;
    job.selected = selected_entries(step, role, i);
    job.cos = rope.cos.row(i);
    job.sin = rope.sin.row(i);
    if (role.ratio != 0) job.main = step.chunk_of(i).rows->main[*role.owner];
  }
  kernels::AttendShape shape;
  shape.heads = step.config.num_attention_heads;
  shape.dims = step.config.head_dim;
  shape.scale = 1.0F / std::sqrt(static_cast<float>(shape.dims));
  shape.sink = weights.sink;
  shape.pairs = rope.cos.cols;
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

StepWindows write_windows(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                          Rows<const float> x) {
  StepWindows windows;
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    ChunkProgress& progress = step.progress[c];
    ChunkWindow& window = windows.emplace_back();
    window.ring = step.chunks[c].rows->windows[role.layer];
    if (progress.row_count == 0) continue;
    window.begin = progress.first_position();
    window.end = progress.end;
    window.ring = ring_for(step, window.ring, window.begin, window.end);
    WindowSpan& span = progress.windows[role.layer];
    span = extend(step.chunks[c], role.layer, span, window.begin, window.end);
  }
  const kernels::Workspace::Mark mark(step.context.workspace);
  const RopeTable& rope = step.rope[role.compressed_rope];
  const Rows<float> k = step.take(step.n(), step.config.head_dim);
  kernels::linear(weights.wkv, x, k, step.context);
  kernels::rms_norm(k, weights.kv_norm, static_cast<float>(step.config.rms_norm_eps), k,
                    step.context);
  kernels::rope(k, 1, rope.cos, rope.sin, kernels::Rotation::kForward, step.context);
  step.tell("window_kv_pre.layers", role.layer, k);
  for (uint64_t i = 0; i < step.n(); ++i) {
    const RingRows& ring = windows[step.rows[i].chunk].ring;
    std::byte* row = ring.row(step.rows[i].position);
    kernels::write_row(ring.format, {k.row(i), k.cols}, row);
    kernels::read_row(ring.format, row, {k.row(i), k.cols});
  }
  step.tell("window_kv.layers", role.layer, k);
  return windows;
}

void store_windows(const Step& step, uint32_t layer, const StepWindows& windows) {
  for (size_t c = 0; c < step.chunks.size(); ++c) {
    const ChunkWindow& window = windows[c];
    const RingRows& stored = step.chunks[c].rows->windows[layer];
    if (window.ring.base == stored.base) continue;
    const uint64_t first = window.end > stored.slots ? window.end - stored.slots : 0;
    for (uint64_t p = std::max(first, window.begin); p < window.end; ++p) {
      std::memcpy(stored.row(p), window.ring.row(p), stored.row_bytes);
    }
  }
}

void attention(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
               const StepWindows& windows, Rows<const float> x, Rows<float> y) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  const RopeTable& rope = step.rope[role.compressed_rope];
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
  attend_rows(step, weights, role, windows, q, out);
  step.tell("attn_o.layers", role.layer, out);
  project_output(step, weights, out, y);
  step.tell("attn_out.layers", role.layer, y);
}

}  // namespace thimble::model
