#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/thimble/inspection.h"
#include "arch/cache_layout.h"
#include "arch/layer_plan.h"

namespace thimble::app {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json layers_json(const arch::Config& config, const arch::LayerPlan& plan) {
  Json layers = Json::array();
  for (const arch::LayerRole& role : plan.layers) {
    const bool yarn = role.compressed_rope && config.yarn.original_max_position_embeddings > 0;
    layers.push_back(
        {{"layer", role.layer},
         {"mode", arch::to_string(role.mode)},
         {"ratio", role.ratio},
         {"kv_source", or_null(role.kv_source)},
         {"index_source", or_null(role.index_source)},
         {"makes_candidates", role.makes_candidates},
         {"uses_candidates", role.uses_candidates},
         {"engram", role.engram.has_value()},
         {"rope",
          {{"theta", role.compressed_rope ? config.compress_rope_theta : config.rope_theta},
           {"yarn", yarn}}}});
  }
  return layers;
}

// An integer where the value is one: 890, not 890.0.
Json number(double value) {
  if (value == std::floor(value)) return static_cast<uint64_t>(value);
  return value;
}

Json cache_json(const arch::Config& config) {
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const auto sequence = arch::sequence_bytes(config, layout);
  Json owners = Json::array();
  for (const arch::OwnerLayout& owner : layout.owners) {
    const uint32_t entry_bytes = owner.main_row_bytes + owner.index_row_bytes;
    owners.push_back({{"layer", owner.layer},
                      {"ratio", owner.ratio},
                      {"entries_per_block", owner.entries_per_block},
                      {"main_offset_bytes", owner.main_offset_bytes},
                      {"index_offset_bytes", owner.index_offset_bytes},
                      {"main_payload_bytes", owner.main_row_bytes - owner.main_scale_bytes},
                      {"main_scale_bytes", owner.main_scale_bytes},
                      {"index_payload_bytes", owner.index_row_bytes - owner.index_scale_bytes},
                      {"index_scale_bytes", owner.index_scale_bytes},
                      {"entry_bytes", entry_bytes},
                      {"bytes_per_token", number(double{1} * entry_bytes / owner.ratio)}});
  }
  return {{"global_bytes_per_token", number(arch::global_bytes_per_token(layout))},
          {"owners", owners},
          {"block_tokens", arch::kBlockTokens},
          {"block_bytes", layout.block_bytes},
          {"window_tokens", config.sliding_window},
          {"window_layers", layout.window_layers},
          {"window_row_bytes", layout.window_row_bytes},
          {"sequence_bytes",
           {{"windows", sequence.windows},
            {"half_pairs", sequence.half_pairs},
            {"engram_history", sequence.engram_history}}}};
}

Json totals_json(const arch::WeightTotals& totals) {
  return {{"tensors", totals.tensors}, {"bytes", totals.bytes}};
}

Json expected_json(const Inspection& inspection, const TensorTable& table) {
  const arch::WeightTotals sum = arch::totals(inspection.expected);
  Json parts = Json::array();
  for (const auto& [key, line] : table) {
    if (line.expected.tensors == 0) continue;
    parts.push_back({{"part", key.first},
                     {"dtype", key.second},
                     {"tensors", line.expected.tensors},
                     {"bytes", line.expected.bytes}});
  }
  Json json = totals_json(sum);
  json["parameters"] = sum.parameters;
  json["parts"] = parts;
  return json;
}

Json found_json(const TensorTable& table) {
  arch::WeightTotals sum;
  for (const auto& [key, line] : table) {
    sum.tensors += line.found.tensors;
    sum.bytes += line.found.bytes;
  }
  return totals_json(sum);
}

Json mismatches_json(const Inspection& inspection) {
  Json list = Json::array();
  if (!inspection.files) return list;
  for (const arch::Mismatch& mismatch : inspection.files->mismatches) {
    list.push_back({{"kind", arch::to_string(mismatch.kind)},
                    {"tensor", mismatch.tensor},
                    {"detail", mismatch.detail}});
  }
  return list;
}

}  // namespace

std::string inspection_json(const Inspection& inspection) {
  const TensorTable table = tensor_table(inspection);
  const arch::LayerPlan plan = arch::make_layer_plan(inspection.config);
  const Json json = {
      {"model", inspection.source},
      {"config", Json::parse(arch::to_json(inspection.config))},
      {"layers", layers_json(inspection.config, plan)},
      {"cache", cache_json(inspection.config)},
      {"expected", expected_json(inspection, table)},
      {"found", inspection.files ? found_json(table) : Json(nullptr)},
      {"mismatches", mismatches_json(inspection)},
      {"fingerprint", inspection.fingerprint ? Json(hex(*inspection.fingerprint)) : Json(nullptr)},
  };
  // Names out of files need not be UTF-8 everywhere; JSON must be.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace thimble::app
