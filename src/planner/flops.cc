#include "planner/flops.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "planner/traffic.h"

namespace thimble::planner {
namespace {

using arch::AttentionMode;
using arch::DType;

// Where a tensor belongs: the layer, or none, and its name within.
struct Place {
  std::optional<uint32_t> layer;
  std::string_view suffix;
};

Place place_of(std::string_view name) {
  const auto layer = layer_of(name);
  if (!layer) return {{}, name};
  return {layer, name.substr(name.find('.', name.find('.') + 1) + 1)};
}

// How much of a tensor one row uses: what it reads, and of what happens once an entry, one share.
double share_of_row(const arch::Config& config, const Place& place, const arch::LayerRole& role,
                    const arch::ExpectedTensor& tensor) {
  if (place.suffix.starts_with("attn.indexer.wk.")) return 1.0 / role.ratio;
  return row_share(config, tensor);
}

// Rows that are looked up are none, nor are Engram's norm weights of all streams.
bool is_matrix(const Place& place, const arch::ExpectedTensor& tensor) {
  constexpr std::array<std::string_view, 3> kNone = {"engram.embed.weight", "engram.q_weight",
                                                     "engram.k_weight"};
  return tensor.shape.size() == 2 && tensor.dtype != DType::kF8E8M0 &&
         std::ranges::find(kNone, place.suffix) == kNone.end();
}

Ops ops_of(const Place& place, const arch::ExpectedTensor& tensor, double share) {
  const double ops = 2.0 * static_cast<double>(tensor.parameters()) * share;
  const bool fp8 = tensor.dtype == DType::kF8E4M3 || tensor.dtype == DType::kI8;
  if (fp8 && !place.suffix.starts_with("attn.wo_a.")) return {.bf16 = 0, .fp8 = ops, .fp4 = 0};
  return {.bf16 = ops, .fp8 = 0, .fp4 = 0};
}

Part part_of(std::string_view suffix) {
  if (suffix.starts_with("attn.")) return Part::kAttention;
  if (suffix.starts_with("ffn.")) return Part::kExperts;
  if (suffix.starts_with("engram.")) return Part::kEngram;
  return Part::kMixing;
}

// What a row leaves behind for others: its window key and, in an owner, its entry.
bool serves_keys(std::string_view suffix) {
  return suffix.starts_with("attn.wkv.") || suffix.starts_with("attn.compressor.") ||
         suffix.starts_with("attn.indexer.wk.");
}

std::string role_name(const arch::LayerRole& role, bool owns_decoder) {
  std::string name = arch::to_string(role.mode);
  if (role.ratio > 0) name += fmt::format(", ratio {}", role.ratio);
  if (role.engram) name += ", Engram";
  if (owns_decoder) name += ", first of the decoder";
  return name;
}

void add(OpsByPart& to, const OpsByPart& from, double times) {
  for (const auto& [part, ops] : from) to[part] += ops * times;
}

double rows_between(uint64_t begin, uint64_t end) {
  return end > begin ? static_cast<double>(end - begin) : 0;
}

}  // namespace

Ops& Ops::operator+=(const Ops& other) {
  bf16 += other.bf16;
  fp8 += other.fp8;
  fp4 += other.fp4;
  return *this;
}

Ops operator*(const Ops& ops, double times) {
  return {ops.bf16 * times, ops.fp8 * times, ops.fp4 * times};
}

Ops operator+(Ops a, const Ops& b) { return a += b; }

const char* to_string(Part part) {
  switch (part) {
    case Part::kAttention:
      return "attention linears";
    case Part::kExperts:
      return "experts";
    case Part::kMixing:
      return "stream mixing";
    case Part::kEngram:
      return "Engram";
    case Part::kAttend:
      return "attention";
    case Part::kIndex:
      return "index scores";
    case Part::kHead:
      return "head";
  }
  return "?";
}

Ops sum(const OpsByPart& parts) {
  Ops all;
  for (const auto& [part, ops] : parts) all += ops;
  return all;
}

// min(cap, (p + 1) / ratio) summed: a staircase up to the position where the cap is reached.
double sum_visible(uint64_t begin, uint64_t end, uint32_t ratio, uint64_t cap) {
  if (ratio == 0 || begin >= end) return 0;
  // Sum over positions below p, in doubles: lengths may be as large as a configuration allows.
  const auto below = [&](uint64_t p) {
    const double full_at = static_cast<double>(cap) * ratio;  // positions + 1 that see the cap
    const double positions = std::min(static_cast<double>(p), full_at);
    const double whole = static_cast<double>(static_cast<uint64_t>(positions) / ratio);
    const double rest = positions - whole * ratio;  // positions of the last, unfinished step
    // Positions + 1 = 1..n: step k (k entries) lasts `ratio` of them.
    const double stairs = ratio * whole * (whole - 1) / 2 + (rest + 1) * whole;
    return stairs + (static_cast<double>(p) - positions) * static_cast<double>(cap);
  };
  return below(end) - below(begin);
}

FlopsModel::FlopsModel(const arch::Config& config)
    : config_(config), plan_(arch::make_layer_plan(config)), layers_(config.num_hidden_layers) {
  for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
    if (!arch::is_backbone(tensor)) continue;
    const Place place = place_of(tensor.name);
    if (!is_matrix(place, tensor)) continue;
    if (!place.layer) {
      if (place.suffix == "head.weight") head_ += ops_of(place, tensor, 1);
      continue;
    }
    const arch::LayerRole& role = plan_.layers[*place.layer];
    const Ops ops = ops_of(place, tensor, share_of_row(config, place, role, tensor));
    Layer& layer = layers_[*place.layer];
    layer.row[part_of(place.suffix)] += ops;
    if (serves_keys(place.suffix)) layer.keys_only[part_of(place.suffix)] += ops;
  }
}

std::vector<RoleCost> FlopsModel::roles() const {
  std::vector<RoleCost> roles;
  for (const arch::LayerRole& role : plan_.layers) {
    const bool first = role.mode == AttentionMode::kFull && role.layer == plan_.decoder_begin;
    const std::string name = role_name(role, first);
    auto found = std::ranges::find(roles, name, &RoleCost::role);
    if (found == roles.end()) {
      const Layer& layer = layers_[role.layer];
      found = roles.insert(roles.end(), {name, 0, role.layer, layer.row, layer.keys_only});
    }
    ++found->layers;
  }
  return roles;
}

OpsByPart FlopsModel::at_positions(uint32_t layer, uint64_t begin, uint64_t end) const {
  const arch::LayerRole& role = plan_.layers[layer];
  OpsByPart out;
  // A key is multiplied with the query, and with its probability.
  const double per_key = 4.0 * config_.num_attention_heads * config_.head_dim;
  const double keys = sum_visible(begin, end, 1, plan_.window) +
                      sum_visible(begin, end, role.ratio, config_.index_topk);
  out[Part::kAttend].bf16 = per_key * keys;
  if (!role.selects()) return out;
  const double per_score = 2.0 * config_.index_n_heads * config_.index_head_dim;
  const uint64_t pool = uint64_t{config_.candidate_topk_blocks} * config_.candidate_block_size;
  const uint64_t cap = role.uses_candidates ? pool : UINT64_MAX / 256;
  out[Part::kIndex].fp4 = per_score * sum_visible(begin, end, role.ratio, cap);
  return out;
}

OpsByPart FlopsModel::decode(uint64_t position) const {
  OpsByPart out;
  for (uint32_t l = 0; l < layers_.size(); ++l) {
    add(out, layers_[l].row, 1);
    add(out, at_positions(l, position, position + 1), 1);
  }
  out[Part::kHead] += head_;
  return out;
}

OpsByPart FlopsModel::rows(const arch::RowPlan& rows) const {
  CHECK_EQ(rows.layers.size(), layers_.size());
  OpsByPart out;
  for (uint32_t l = 0; l < layers_.size(); ++l) {
    const arch::LayerRows& layer = rows.layers[l];
    const uint64_t begin = std::min(layer.rows_begin, rows.end);
    add(out, layers_[l].row, rows_between(begin, rows.end));
    add(out, layers_[l].keys_only, rows_between(layer.keys_begin, begin));
    add(out, at_positions(l, begin, rows.end), 1);
  }
  out[Part::kHead] += head_;
  return out;
}

OpsByPart FlopsModel::prompt(uint64_t hit, bool snapshot, uint64_t new_tokens,
                             arch::Replay replay) const {
  const std::optional<uint64_t> windows_at = snapshot ? std::optional(hit) : std::nullopt;
  const auto input = arch::row_plan_input(plan_, hit, windows_at, true, hit + new_tokens, replay);
  return rows(arch::make_row_plan(plan_, input));
}

ActivatedParameters activated_parameters(const arch::Config& config) {
  const arch::LayerPlan plan = arch::make_layer_plan(config);
  ActivatedParameters out;
  for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
    if (!arch::is_backbone(tensor) || tensor.optional) continue;
    const Place place = place_of(tensor.name);
    auto parameters = static_cast<double>(tensor.parameters());
    if (!place.layer) {
      parameters *= row_share(config, tensor);
      if (place.suffix == "embed.weight") out.prefill += parameters;
      out.decode += parameters;
      if (place.suffix == "head.weight") out.decode_main += parameters;
      continue;
    }
    const arch::LayerRole& role = plan.layers[*place.layer];
    parameters *= share_of_row(config, place, role, tensor);
    const bool encoder = *place.layer < plan.decoder_begin;
    const bool feeds_cache = *place.layer == plan.decoder_begin && serves_keys(place.suffix);
    // Every layer has these, whatever its role.
    constexpr std::array<std::string_view, 7> kMain = {
        "attn.wq_a.", "attn.wq_b.",   "attn.wkv.",          "attn.wo_a.",
        "attn.wo_b.", "ffn.experts.", "ffn.shared_experts."};
    const bool main = std::ranges::any_of(
        kMain, [&](std::string_view name) { return place.suffix.starts_with(name); });
    out.decode += parameters;
    if (main) out.decode_main += parameters;
    if (encoder || feeds_cache) out.prefill += parameters;
    if (encoder && main) out.prefill_main += parameters;
  }
  return out;
}

}  // namespace thimble::planner
