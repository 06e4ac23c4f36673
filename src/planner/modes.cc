#include "planner/modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "arch/cache_layout.h"
#include "base/check.h"

namespace thimble::planner {
namespace {

using arch::AttentionMode;

constexpr size_t kLayersMax = 1024;
constexpr uint32_t kRatioInCheckpointMax = 2;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") + 1 - begin);
}

// Leading digits of `text`, which then begins after them. 0: there are none.
uint32_t take_number(std::string_view& text) {
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc()) text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

tl::unexpected<Error> refuse(std::string_view item, std::string_view why) {
  return base::fail(ErrorCode::kInvalidArgument,
                    "\"{}\": {}; expected items such as S, F2, R, U or 5xU, with commas between",
                    item.substr(0, 32), why);
}

// One item without its count. `ratio`: of the last Full layer.
Result<LayerMode> parse_mode(std::string_view item, uint32_t& ratio) {
  const std::string_view whole = item;
  const char kind = item.empty() ? '?' : item.front();
  if (!item.empty()) item.remove_prefix(1);
  if (kind == 'F') {
    ratio = take_number(item);
    if (!item.empty()) return refuse(whole, "too long");
    if (ratio == 0 || arch::kBlockTokens % ratio != 0) {
      return refuse(whole, fmt::format("a Full layer's ratio divides {}", arch::kBlockTokens));
    }
    return LayerMode{AttentionMode::kFull, ratio};
  }
  if (!item.empty()) return refuse(whole, "not a layer");
  if (kind == 'S') return LayerMode{};
  if (kind != 'R' && kind != 'U') return refuse(whole, "not a layer");
  if (ratio == 0) return refuse(whole, "no Full layer comes before it");
  return LayerMode{kind == 'R' ? AttentionMode::kReindex : AttentionMode::kReuse, ratio};
}

std::string to_string(const LayerMode& mode) {
  switch (mode.mode) {
    case AttentionMode::kWindow:
      return "S";
    case AttentionMode::kFull:
      return fmt::format("F{}", mode.ratio);
    case AttentionMode::kReindex:
      return "R";
    case AttentionMode::kReuse:
      return "U";
  }
  return "?";
}

// Engram tables of layers that are gone go too; drafts read the last layers.
void drop_lost_layers(arch::Config& config) {
  const uint32_t layers = config.num_hidden_layers;
  arch::EngramConfig& engram = config.engram;
  while (!engram.layer_ids.empty() && engram.layer_ids.back() >= layers) {
    engram.layer_ids.pop_back();
    engram.num_embeddings.pop_back();
  }
  auto& targets = config.draft.target_layer_ids;
  if (targets.empty() || targets.back() + 1 == layers) return;
  const auto count = std::min<uint32_t>(static_cast<uint32_t>(targets.size()), layers);
  targets.clear();
  for (uint32_t i = 0; i < count; ++i) targets.push_back(layers - count + i);
}

}  // namespace

Result<std::vector<LayerMode>> parse_modes(std::string_view text) {
  std::vector<LayerMode> modes;
  uint32_t ratio = 0;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    std::string_view item = trimmed(text.substr(begin, end - begin));
    const std::string_view whole = item;
    uint32_t count = 1;
    if (!item.empty() && item.front() >= '0' && item.front() <= '9') {
      count = take_number(item);
      if (count == 0 || !item.starts_with('x')) return refuse(whole, "no count such as 5x");
      item.remove_prefix(1);
    }
    const LayerMode mode = THIMBLE_TRY(parse_mode(item, ratio));
    if (count > kLayersMax - modes.size()) return refuse(whole, "more than 1,024 layers");
    modes.insert(modes.end(), count, mode);
    begin = end + 1;
  }
  return modes;
}

std::string to_string(const std::vector<LayerMode>& modes) {
  std::string text;
  for (size_t i = 0; i < modes.size();) {
    size_t end = i + 1;
    while (end < modes.size() && modes[end] == modes[i]) ++end;
    if (!text.empty()) text += ", ";
    if (end - i > 1) text += fmt::format("{}x", end - i);
    text += to_string(modes[i]);
    i = end;
  }
  return text;
}

std::vector<LayerMode> modes_of(const arch::Config& config) {
  std::vector<LayerMode> modes;
  for (const arch::LayerRole& role : arch::make_layer_plan(config).layers) {
    modes.push_back({role.mode, role.ratio});
  }
  return modes;
}

Result<arch::Config> with_modes(const arch::Config& config, const std::vector<LayerMode>& modes) {
  arch::Config changed = config;
  changed.num_hidden_layers = static_cast<uint32_t>(modes.size());
  changed.compress_ratios.clear();
  changed.kv_source_layer_ids.clear();
  changed.index_source_layer_ids.clear();
  changed.candidate_source_layer_id.reset();
  for (uint32_t l = 0; l < modes.size(); ++l) {
    const LayerMode& mode = modes[l];
    if (mode.ratio > kRatioInCheckpointMax) {
      return base::fail(ErrorCode::kUnsupported,
                        "layer {} has ratio {}; a checkpoint of this architecture has 1 or 2", l,
                        mode.ratio);
    }
    changed.compress_ratios.push_back(mode.ratio);
    if (mode.mode == AttentionMode::kFull) changed.kv_source_layer_ids.push_back(l);
    if (mode.mode == AttentionMode::kFull || mode.mode == AttentionMode::kReindex) {
      changed.index_source_layer_ids.push_back(l);
    }
    const bool could_make = mode.mode == AttentionMode::kFull && mode.ratio == 1;
    if (could_make && config.candidate_source_layer_id) changed.candidate_source_layer_id = l;
  }
  changed.compress_ratios.insert(changed.compress_ratios.end(), config.draft.num_layers, 0);
  drop_lost_layers(changed);
  THIMBLE_TRY(arch::validate(changed));
  return changed;
}

}  // namespace thimble::planner
