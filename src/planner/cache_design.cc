#include "planner/cache_design.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/cache_layout.h"
#include "base/bytes.h"
#include "planner/ledger.h"

namespace thimble::planner {
namespace {

std::string tokens_text(double bytes) {
  const auto whole = static_cast<uint64_t>(bytes);
  std::string text = base::with_commas(whole);
  const double rest = bytes - static_cast<double>(whole);
  if (rest > 0) text += fmt::format("{:.4g}", rest).substr(1);
  return text;
}

std::string term(const RowStream& stream) {
  std::string text = fmt::format("{} x {}", stream.layers, stream.row_bytes());
  if (stream.tokens > 1) text += fmt::format(" / {}", stream.tokens);
  return text;
}

// Multi-head attention with grouped keys and values, all layers alike (2024's dense 67B).
CacheDesign dense_67b() {
  CacheDesign design;
  design.id = "dense-67b";
  design.name = "67B dense, GQA, BF16";
  RowStream rows;
  rows.what = "key and value";
  rows.layers = 95;
  rows.plain = 2ULL * 8 * 128 * 2;
  rows.widths = "2 x 8 heads x 128 x 2 B";
  design.streams = {rows};
  return design;
}

// A latent record a layer, 512 FP8 values with 4 float scales and 64 rotated BF16 values, and an
// index key of 128 FP8 values with one float scale.
CacheDesign v3_2() {
  CacheDesign design;
  design.id = "v3.2";
  design.name = "V3.2, latent FP8 + index FP8";
  RowStream latent;
  latent.what = "latent record";
  latent.layers = 61;
  latent.payload = 512;
  latent.scales = 4 * 4;
  latent.plain = 64 * 2;
  latent.widths = "512 FP8 + 4 x 4 B scales + 64 x 2 B rotated";
  RowStream index;
  index.what = "index key";
  index.layers = 61;
  index.payload = 128;
  index.scales = 4;
  index.widths = "128 FP8 + 4 B scale";
  design.streams = {latent, index};
  return design;
}

// 21 layers at ratio 4 with an FP4 index row, 20 at ratio 128 without; 2 of the 43 keep a window
// alone.
CacheDesign v4_flash() {
  constexpr uint64_t kLayers = 43;
  constexpr uint64_t kWindow = 128;
  CacheDesign design;
  design.id = "v4-flash";
  design.name = "V4-Flash, ratios 4 and 128, FP8 + FP4 index";
  RowStream record;
  record.payload = 448;
  record.scales = 7;
  record.plain = 64 * 2 + 1;
  record.widths = "448 FP8 + 7 B scales + 64 x 2 B rotated + 1 B padding";
  RowStream by_four = record;
  by_four.what = "record, ratio 4";
  by_four.layers = 21;
  by_four.tokens = 4;
  RowStream by_128 = record;
  by_128.what = "record, ratio 128";
  by_128.layers = 20;
  by_128.tokens = 128;
  RowStream index;
  index.what = "index key";
  index.layers = 21;
  index.payload = 64;
  index.scales = 4;
  index.tokens = 4;
  index.widths = "128 FP4 + 4 B scales";
  design.streams = {by_four, index, by_128};
  design.sequence_bytes = kLayers * kWindow * record.row_bytes();
  design.published = 3514;
  design.note =
      "the published figure is a whole number; the record widths give 3,514.25: the quarter byte "
      "is the 20 layers of ratio 128, 20 x 584 / 128 = 91.25";
  return design;
}

RowStream stream(const char* what, StoredBytes bytes, uint64_t layers, uint64_t tokens,
                 std::string widths) {
  RowStream out;
  out.what = what;
  out.layers = layers;
  out.payload = bytes.payload;
  out.scales = bytes.scales;
  out.tokens = tokens;
  out.widths = std::move(widths);
  return out;
}

// What does not grow with the tokens, and what our allocator rounds up to.
void add_fixed(const arch::Config& config, const std::vector<LayerMode>& modes, uint32_t latent,
               CacheDesign& design) {
  arch::Config changed = config;
  changed.head_dim = latent;
  arch::CacheLayout layout;
  layout.window_layers = static_cast<uint32_t>(modes.size());
  layout.window_row_bytes = arch::packed_window_row(latent).total();
  for (const LayerMode& mode : modes) {
    if (mode.mode == arch::AttentionMode::kFull) layout.owners.push_back({.ratio = mode.ratio});
  }
  for (const RowStream& rows : design.streams) {
    layout.block_bytes += arch::kBlockTokens / rows.tokens * rows.layers * rows.row_bytes();
  }
  const arch::SequenceBytes bytes = arch::sequence_bytes(changed, layout);
  design.sequence_bytes = bytes.windows + bytes.half_pairs + bytes.engram_history;
  design.paged = {.block_bytes = layout.block_stride_bytes(),
                  .slack_bytes = held_bytes(bytes) - design.sequence_bytes};
}

}  // namespace

const char* to_string(ValueFormat format) {
  switch (format) {
    case ValueFormat::kBf16:
      return "BF16";
    case ValueFormat::kFp8:
      return "FP8";
    case ValueFormat::kFp4:
      return "FP4";
  }
  return "?";
}

StoredBytes main_bytes(ValueFormat format, uint32_t values) {
  if (format == ValueFormat::kBf16) return {uint64_t{values} * 2, 0};
  const arch::RowBytes row =
      format == ValueFormat::kFp8 ? arch::packed_window_row(values) : arch::packed_main_row(values);
  return {row.payload, row.scales};
}

StoredBytes index_bytes(ValueFormat format, uint32_t values) {
  if (format != ValueFormat::kFp4) return main_bytes(format, values);
  const arch::RowBytes row = arch::packed_index_row(values);
  return {row.payload, row.scales};
}

double CacheDesign::bytes_per_token() const {
  double bytes = 0;
  for (const RowStream& rows : streams) bytes += rows.bytes_per_token();
  return bytes;
}

std::string CacheDesign::formula() const {
  std::string text;
  for (const RowStream& rows : streams) {
    if (!text.empty()) text += " + ";
    text += term(rows);
  }
  if (text.empty()) text = "0";
  return text + " = " + tokens_text(bytes_per_token());
}

CacheDesign design_of(const arch::Config& config, const std::vector<LayerMode>& modes,
                      uint32_t latent, std::string name) {
  const uint32_t index = config.index_head_dim;
  CacheDesign design;
  design.name = std::move(name);
  std::vector<uint32_t> ratios;  // of the owners
  for (const LayerMode& mode : modes) {
    if (mode.mode == arch::AttentionMode::kFull) ratios.push_back(mode.ratio);
  }
  std::ranges::sort(ratios, std::greater());
  for (auto at = ratios.begin(); at != ratios.end();) {
    const auto end = std::find_if(at, ratios.end(), [at](uint32_t r) { return r != *at; });
    const auto owners = static_cast<uint64_t>(end - at);
    design.streams.push_back(stream("main", main_bytes(ValueFormat::kFp4, latent), owners, *at,
                                    fmt::format("{} FP4 + E4M3 scales of 16", latent)));
    design.streams.push_back(stream("index", index_bytes(ValueFormat::kFp4, index), owners, *at,
                                    fmt::format("{} FP4 + E8M0 scales of 32", index)));
    at = end;
  }
  add_fixed(config, modes, latent, design);
  return design;
}

CacheDesign design_of(const arch::Config& config, std::string name) {
  return design_of(config, modes_of(config), config.head_dim, std::move(name));
}

std::vector<CacheDesign> generations() {
  CacheDesign latest = design_of(arch::released_config(), "V4.1-Flash, shared FP4");
  latest.id = "released";
  latest.published = 890;
  return {dense_67b(), v3_2(), v4_flash(), latest};
}

}  // namespace thimble::planner
