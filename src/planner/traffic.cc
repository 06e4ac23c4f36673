#include "planner/traffic.h"

#include <algorithm>
#include <numeric>

#include "arch/cache_layout.h"

namespace thimble::planner {
namespace {

constexpr const char* kRouted = "routed experts";

double sum(const std::vector<TrafficLine>& lines) {
  return std::accumulate(lines.begin(), lines.end(), 0.0,
                         [](double bytes, const TrafficLine& line) { return bytes + line.bytes; });
}

void add(std::vector<TrafficLine>& lines, const std::string& what, double bytes) {
  const auto found = std::ranges::find(lines, what, &TrafficLine::what);
  if (found == lines.end()) {
    lines.push_back({what, bytes});
  } else {
    found->bytes += bytes;
  }
}

bool contains(const std::string& name, const char* piece) {
  return name.find(piece) != std::string::npos;
}

bool is_engram_row(const arch::ExpectedTensor& tensor) {
  return contains(tensor.name, "engram.embed.");
}

// Which line of the table a tensor is read under.
const char* line_of(const arch::ExpectedTensor& tensor) {
  if (tensor.part == arch::WeightPart::kExperts) return kRouted;
  if (tensor.part == arch::WeightPart::kAttention && !contains(tensor.name, "indexer") &&
      !contains(tensor.name, "compressor")) {
    return "attention";
  }
  if (contains(tensor.name, "shared_experts")) return "shared expert";
  return tensor.name == "head.weight" ? "head" : "rest";
}

double bytes_of_row(const arch::Config& config, const arch::ExpectedTensor& tensor) {
  return static_cast<double>(tensor.bytes()) * row_share(config, tensor);
}

// Of one layer.
std::vector<TrafficLine> cached_rows(const arch::Config& config, const arch::CacheLayout& layout,
                                     const arch::LayerRole& role, uint64_t position) {
  std::vector<TrafficLine> lines;
  const uint64_t window = std::min<uint64_t>(position + 1, config.sliding_window);
  add(lines, "window rows", static_cast<double>(window * layout.window_row_bytes));
  if (!role.owner) return lines;
  const arch::OwnerLayout& owner = layout.owners[*role.owner];
  const uint64_t visible = arch::visible_entries(position, role.ratio);
  const uint64_t selected = std::min<uint64_t>(visible, config.index_topk);
  add(lines, "selected entries", static_cast<double>(selected * owner.main_row_bytes));
  if (!role.selects()) return lines;
  const uint64_t pool = uint64_t{config.candidate_topk_blocks} * config.candidate_block_size;
  const uint64_t scored = role.uses_candidates ? std::min(visible, pool) : visible;
  add(lines, "index rows", static_cast<double>(scored * owner.index_row_bytes));
  return lines;
}

}  // namespace

double Traffic::weight_bytes() const { return sum(weights); }
double Traffic::cache_bytes() const { return sum(cache); }

double Traffic::routed_bytes() const {
  const auto found = std::ranges::find(weights, kRouted, &TrafficLine::what);
  return found == weights.end() ? 0 : found->bytes;
}

double row_share(const arch::Config& config, const arch::ExpectedTensor& tensor) {
  const auto rows = static_cast<double>(tensor.shape[0]);
  if (tensor.part == arch::WeightPart::kExperts) {
    return static_cast<double>(config.num_experts_per_tok) / config.n_routed_experts;
  }
  if (is_engram_row(tensor)) return config.engram.lookups() / rows;
  return tensor.name == "embed.weight" ? 1 / rows : 1;
}

std::vector<TrafficLine> weight_traffic(const arch::Config& config) {
  std::vector<TrafficLine> lines;
  for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
    if (!arch::is_backbone(tensor) || tensor.optional) continue;
    add(lines, line_of(tensor), bytes_of_row(config, tensor));
  }
  return lines;
}

std::vector<TrafficLine> cache_traffic(const arch::Config& config, uint64_t position) {
  std::vector<TrafficLine> lines;
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  for (const arch::LayerRole& role : arch::make_layer_plan(config).layers) {
    for (const TrafficLine& line : cached_rows(config, layout, role, position)) {
      add(lines, line.what, line.bytes);
    }
  }
  return lines;
}

std::optional<uint32_t> layer_of(std::string_view tensor) {
  constexpr std::string_view kLayers = "layers.";
  if (!tensor.starts_with(kLayers)) return std::nullopt;
  uint32_t layer = 0;
  for (const char digit : tensor.substr(kLayers.size())) {
    if (digit == '.') break;
    layer = layer * 10 + static_cast<uint32_t>(digit - '0');
  }
  return layer;
}

std::vector<double> layer_traffic(const arch::Config& config, uint64_t position) {
  std::vector<double> bytes;
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  for (const arch::LayerRole& role : arch::make_layer_plan(config).layers) {
    bytes.push_back(sum(cached_rows(config, layout, role, position)));
  }
  for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
    const auto layer = layer_of(tensor.name);
    if (layer && !tensor.optional) bytes[*layer] += bytes_of_row(config, tensor);
  }
  return bytes;
}

Traffic decode_traffic(const arch::Config& config, uint64_t position) {
  return {weight_traffic(config), cache_traffic(config, position)};
}

WeightGroups group_weights(const arch::Config& config) {
  WeightGroups groups;
  for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
    if (tensor.optional) continue;
    if (!arch::is_backbone(tensor)) {
      groups.others += tensor.bytes();
    } else if (tensor.part == arch::WeightPart::kExperts) {
      groups.experts += tensor.bytes();
    } else if (is_engram_row(tensor)) {
      groups.engram += tensor.bytes();
    } else {
      groups.dense += tensor.bytes();
    }
  }
  return groups;
}

}  // namespace thimble::planner
