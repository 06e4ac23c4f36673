// config.json from strangers.
//
// The first byte chooses: the input is a whole document; or a good document, nested or flat, with
// some values replaced. Whatever is accepted says the same after being written and read again, and
// has a layer plan, a cache layout and (where it is small) a tensor table that keep their promises.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "arch/engram_tables.h"
#include "arch/layer_plan.h"
#include "arch/presets.h"
#include "arch/weight_table.h"
#include "base/check.h"
#include "fuzz/input.h"

namespace thimble::arch {
namespace {

using fuzz::Input;
using Json = nlohmann::ordered_json;

void check_plan(const Config& config) {
  const LayerPlan plan = make_layer_plan(config);
  CHECK_EQ(plan.layers.size(), config.num_hidden_layers);
  CHECK_EQ(plan.owners.size(), config.kv_source_layer_ids.size());
  for (const LayerRole& role : plan.layers) {
    CHECK((role.ratio > 0) == role.owner.has_value());
    if (!role.owner) continue;
    CHECK_LE(*role.kv_source, *role.index_source);
    CHECK_LE(*role.index_source, role.layer);
    CHECK_EQ(plan.owners[*role.owner].layer, *role.kv_source);
    CHECK_EQ(plan.owners[*role.owner].ratio, role.ratio);
    CHECK(plan.layers[*role.index_source].selects());
    CHECK(!(role.makes_candidates && role.uses_candidates));
  }
}

void check_bytes(const Config& config) {
  for (const CacheFormat format : {CacheFormat::kPacked, CacheFormat::kFloat}) {
    const CacheLayout layout = make_cache_layout(config, format);
    CHECK_EQ(layout.rows_bytes(kBlockTokens), layout.block_bytes);
    CHECK_EQ(layout.reserved_bytes(kBlockTokens + 1), 2 * layout.block_stride_bytes());
    CHECK_LE(layout.rows_bytes(77), layout.reserved_bytes(77));
    sequence_bytes(config, layout);
  }
}

void check_table(const Config& config) {
  const uint64_t experts = uint64_t{config.num_hidden_layers} * config.n_routed_experts +
                           uint64_t{config.draft.num_layers} * config.draft.n_routed_experts;
  if (experts > 300) return;  // larger tables only take longer
  std::set<std::string> names;
  for (const ExpectedTensor& tensor : expected_tensors(config)) {
    CHECK(names.insert(tensor.name).second);
    CHECK_LE(tensor.bytes(), 1ULL << 60);
    for (const uint64_t extent : tensor.shape) CHECK(extent > 0);
  }
}

void check_document(std::string_view text) {
  const auto config = parse_config(text);
  if (!config) {
    const ErrorCode code = config.error().code;
    CHECK(code == ErrorCode::kCorrupt || code == ErrorCode::kUnsupported);
    CHECK(!config.error().message.empty());
    return;
  }
  CHECK(validate(*config));
  const auto again = parse_config(to_json(*config));
  CHECK(again && *again == *config);
  check_plan(*config);
  check_bytes(*config);
  check_table(*config);
}

// The flat spelling of the nano model; released names come from the nested one.
Json flat_document() {
  Json flat = Json::parse(to_json(nano_config(270, 200)))["text_config"];
  const std::map<std::string, std::string> names = {
      {"hidden_size", "dim"},
      {"moe_intermediate_size", "moe_inter_dim"},
      {"num_hidden_layers", "n_layers"},
      {"num_attention_heads", "n_heads"},
      {"qk_rope_head_dim", "rope_head_dim"},
      {"rms_norm_eps", "norm_eps"},
      {"num_experts_per_tok", "n_activated_experts"},
      {"routed_scaling_factor", "route_scale"},
      {"sliding_window", "window_size"},
      {"kv_source_layer_ids", "kv_source_layers"},
      {"index_source_layer_ids", "index_source_layers"},
      {"candidate_source_layer_id", "candidate_source_layer"},
      {"engram_pad_token_id", "engram_pad_id"},
      {"num_nextn_predict_layers", "n_mtp_layers"},
      {"max_position_embeddings", "max_seq_len"},
      {"scoring_func", "score_func"}};
  Json out;
  for (auto& [key, value] : flat.items()) {
    const auto renamed = names.find(key);
    out[renamed == names.end() ? key : renamed->second] = value;
  }
  out.erase("rope_scaling");
  out.erase("model_type");
  return out;
}

Json take_value(Input& input) {
  switch (input.below(12)) {
    case 0:
      return nullptr;
    case 1:
      return input.text(8);
    case 2:
      return -static_cast<int>(input.below(300));
    case 3:
      return UINT64_MAX;
    case 4:
      return 1ULL << input.below(64);
    case 5:
      return 1e-3 * static_cast<double>(input.below(65536));
    case 6:
      return input.flag();
    case 7:
      return 32 * input.below(65);
    case 8: {
      Json list = Json::array();
      for (size_t count = input.below(20); count > 0; --count) list.push_back(input.below(24));
      return list;
    }
    case 9:
      return Json::object();
    default:
      return input.below(256);
  }
}

void edit(Json& object, Input& input) {
  auto item = std::next(object.begin(), static_cast<ptrdiff_t>(input.below(object.size())));
  if (item->is_object() && !item->empty()) return edit(*item, input);
  if (item->is_array() && !item->empty() && input.flag()) {
    (*item)[input.below(item->size())] = take_value(input);
  } else if (input.below(8) == 0) {
    object.erase(item);
  } else {
    *item = take_value(input);
  }
}

void edited_document(Json document, Input& input) {
  for (size_t edits = input.below(6); edits > 0 && !document.empty(); --edits)
    edit(document, input);
  check_document(document.dump(-1, ' ', false, Json::error_handler_t::replace));
}

void check_input(Input& input) {
  static const Json kReleased = Json::parse(to_json(released_config()));
  static const Json kNano = Json::parse(to_json(nano_config(270, 200)));
  static const Json kFlat = flat_document();
  switch (input.below(4)) {
    case 0:
      check_document(input.rest());
      break;
    case 1:
      edited_document(kReleased, input);
      break;
    case 2:
      edited_document(kNano, input);
      break;
    default:
      edited_document(kFlat, input);
  }
}

}  // namespace
}  // namespace thimble::arch

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::fuzz::Input input(data, size);
  thimble::arch::check_input(input);
  return 0;
}
