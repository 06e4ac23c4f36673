// Compressor of a KV owner: rows to latents, latents to index keys and main rows.
// Source: backbone spec sections 6.1 and 6.2.
#include <algorithm>

#include "base/check.h"
#include "model/internal/step.h"
#include "model/rope.h"

namespace thimble::model {
namespace {

// An entry that this step completes.
struct NewEntry {
  uint32_t chunk = 0;
  uint64_t entry = 0;
};

float eps(const Step& step) { return static_cast<float>(step.config.rms_norm_eps); }

// Tokens below it have their entries already.
uint64_t hit_of(const Chunk& chunk) { return chunk.plan == nullptr ? 0 : chunk.plan->hit; }

// Does any row of the step still have an entry to make or to open?
bool anything_new(const Step& step, uint32_t ratio) {
  return std::ranges::any_of(step.rows, [&](const StepRow& row) {
    return row.position / ratio >= arch::entries_after(hit_of(step.chunks[row.chunk]), ratio);
  });
}

// Ratio 1: every row at or above its hit is an entry.
std::vector<NewEntry> project_each(const Step& step, const LayerWeights& weights,
                                   Rows<const float> x, Rows<float> latents) {
  const Rows<float> projected = step.take(step.n(), latents.cols);
  kernels::linear(weights.compressor.wkv, x, projected, step.context);
  std::vector<NewEntry> entries;
  for (uint64_t i = 0; i < step.n(); ++i) {
    const StepRow& row = step.rows[i];
    if (row.position < hit_of(step.chunks[row.chunk])) continue;
    std::copy_n(projected.row(i), latents.cols, latents.row(entries.size()));
    entries.push_back({row.chunk, row.position});
  }
  return entries;
}

// Ratio 2: rows at odd positions complete the pair that the row before them opened, in this chunk
// or in an earlier step. A chunk that ends on an open pair leaves it in its progress.
std::vector<NewEntry> pool_pairs(Step& step, const LayerWeights& weights, uint32_t owner,
                                 Rows<const float> x, Rows<float> latents) {
  const Rows<float> value = step.take(step.n(), step.config.head_dim);
  const Rows<float> gate = step.take(step.n(), step.config.head_dim);
  kernels::linear(weights.compressor.wkv, x, value, step.context);
  kernels::linear(weights.compressor.wgate, x, gate, step.context);
  std::vector<NewEntry> entries;
  for (uint64_t i = 0; i < step.n(); ++i) {
    const StepRow& row = step.rows[i];
    HalfPair& open = step.progress[row.chunk].half_pairs[owner];
    if (row.position % 2 == 0) {
      open.token = row.position;
      open.value.assign(value.row(i), value.row(i) + value.cols);
      open.gate.assign(gate.row(i), gate.row(i) + gate.cols);
      continue;
    }
    if (row.position < hit_of(step.chunks[row.chunk])) continue;
    CHECK(open.token == row.position - 1);
    kernels::pool_pair(open.value.data(), open.gate.data(), value.row(i), gate.row(i),
                       step.config.head_dim, latents.row(entries.size()));
    entries.push_back({row.chunk, row.position / 2});
  }
  return entries;
}

RopeTable entry_rope(const Step& step, const std::vector<NewEntry>& entries, uint32_t ratio,
                     std::span<const float> frequencies) {
  RopeTable table{step.take(entries.size(), frequencies.size()),
                  step.take(entries.size(), frequencies.size())};
  for (size_t e = 0; e < entries.size(); ++e) {
    rope_row(frequencies, arch::entry_position(entries[e].entry, ratio),
             {table.cos.row(e), frequencies.size()}, {table.sin.row(e), frequencies.size()});
  }
  return table;
}

void tell_entries(const Step& step, std::string_view what, uint32_t layer,
                  const std::vector<NewEntry>& entries, Rows<const float> values) {
  for (size_t e = 0; e < entries.size(); ++e) {
    Trace* trace = step.chunks[entries[e].chunk].trace;
    if (trace != nullptr && trace->wants(what)) {
      trace->floats(what, layer, entries[e].entry, {values.row(e), values.cols});
    }
  }
}

// Index keys come from the unrotated latent.
void store_index_keys(const Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                      const std::vector<NewEntry>& entries, Rows<const float> latents,
                      const RopeTable& rope) {
  const Rows<float> keys = step.take(entries.size(), step.config.index_head_dim);
  kernels::linear(weights.compressor.index_wk, latents, keys, step.context);
  kernels::rms_norm(keys, weights.compressor.index_k_norm, eps(step), keys, step.context);
  kernels::rope(keys, 1, rope.cos, rope.sin, kernels::Rotation::kForward, step.context);
  tell_entries(step, "index_k_pre", role.layer, entries, keys);
  for (size_t e = 0; e < entries.size(); ++e) {
    const kernels::PagedTiles& tiles = step.chunks[entries[e].chunk].rows->index[*role.owner];
    std::byte* tile = tiles.tile(entries[e].entry / kernels::kTileRows);
    const auto slot = static_cast<uint32_t>(entries[e].entry % kernels::kTileRows);
    kernels::write_tile_entry(tiles.format, {keys.row(e), keys.cols}, tile, slot);
    kernels::read_tile_entry(tiles.format, tile, slot, {keys.row(e), keys.cols});
  }
  tell_entries(step, "index_k", role.layer, entries, keys);
}

// Main rows are the rotated latents.
void store_main_rows(const Step& step, const arch::LayerRole& role,
                     const std::vector<NewEntry>& entries, Rows<float> latents,
                     const RopeTable& rope) {
  kernels::rope(latents, 1, rope.cos, rope.sin, kernels::Rotation::kForward, step.context);
  tell_entries(step, "compress_kv_pre", role.layer, entries, latents);
  for (size_t e = 0; e < entries.size(); ++e) {
    const kernels::PagedRows& main = step.chunks[entries[e].chunk].rows->main[*role.owner];
    std::byte* row = main.row(entries[e].entry);
    kernels::write_row(main.format, {latents.row(e), latents.cols}, row);
    kernels::read_row(main.format, row, {latents.row(e), latents.cols});
  }
  tell_entries(step, "compress_kv", role.layer, entries, latents);
}

}  // namespace

void compress(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
              Rows<const float> x) {
  if (!anything_new(step, role.ratio)) return;
  const kernels::Workspace::Mark mark(step.context.workspace);
  Rows<float> latents = step.take(step.n(), step.config.head_dim);
  const std::vector<NewEntry> entries = role.ratio == 1
                                            ? project_each(step, weights, x, latents)
                                            : pool_pairs(step, weights, *role.owner, x, latents);
  latents = latents.slice(0, entries.size());
  for (const NewEntry& e : entries) {
    const std::span<uint64_t> written = step.chunks[e.chunk].written;
    if (!written.empty()) ++written[*role.owner];
  }
  kernels::rms_norm(latents, weights.compressor.norm, eps(step), latents, step.context);
  tell_entries(step, "latent", role.layer, entries, latents);
  const RopeTable rope = entry_rope(step, entries, role.ratio, step.frequencies.compressed);
  store_index_keys(step, weights, role, entries, latents, rope);
  store_main_rows(step, role, entries, latents, rope);
}

}  // namespace thimble::model
