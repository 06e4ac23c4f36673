#include <nlohmann/json.hpp>

#include "planner/plan.h"

namespace thimble::planner {
namespace {

using Json = nlohmann::ordered_json;

Json json(const Ops& ops) {
  return {{"bf16", ops.bf16},
          {"fp8", ops.fp8},
          {"fp4", ops.fp4},
          {"total", ops.total()},
          {"weighted", ops.weighted()}};
}

Json json(const OpsByPart& parts) {
  Json out = json(sum(parts));
  for (const auto& [part, ops] : parts) out["parts"][to_string(part)] = ops.total();
  return out;
}

Json json(const Contexts& contexts) {
  Json out = {{"by_entries", contexts.by_entries}, {"with_windows", contexts.with_windows}};
  if (contexts.in_blocks) out["in_blocks"] = *contexts.in_blocks;
  return out;
}

Json json(const Ledger& ledger) {
  Json out = {{"global_kv_bytes_per_token", ledger.global_kv_bytes_per_token},
              {"derivation", ledger.derivation},
              {"checkpoint_bytes", ledger.checkpoint_bytes},
              {"checkpoint_tensors", ledger.checkpoint_tensors},
              {"parameters", ledger.parameters},
              {"block_bytes", ledger.block_bytes},
              {"window_bytes", ledger.window_bytes},
              {"window_slack_bytes", ledger.window_slack_bytes},
              {"half_pair_bytes", ledger.half_pair_bytes},
              {"engram_history_bytes", ledger.engram_history_bytes},
              {"sequence_bytes", ledger.sequence_bytes},
              {"snapshot_bytes", ledger.snapshot_bytes}};
  out["owners"] = Json::array();
  for (const OwnerLine& owner : ledger.owners) {
    out["owners"].push_back({{"layer", owner.layer},
                             {"ratio", owner.ratio},
                             {"main_payload_bytes", owner.main_payload},
                             {"main_scale_bytes", owner.main_scales},
                             {"index_payload_bytes", owner.index_payload},
                             {"index_scale_bytes", owner.index_scales},
                             {"bytes_per_token", owner.bytes_per_token}});
  }
  out["checkpoint"] = Json::array();
  for (const PartLine& part : ledger.parts) {
    out["checkpoint"].push_back({{"part", part.part},
                                 {"tensors", part.tensors},
                                 {"bytes", part.bytes},
                                 {"parameters", part.parameters}});
  }
  return out;
}

Json json(const CacheDesign& design) {
  Json out = {{"id", design.id},
              {"name", design.name},
              {"bytes_per_token", design.bytes_per_token()},
              {"formula", design.formula()},
              {"sequence_bytes", design.sequence_bytes}};
  if (design.published > 0) out["published_bytes_per_token"] = design.published;
  if (!design.note.empty()) out["note"] = design.note;
  for (const RowStream& stream : design.streams) {
    out["streams"].push_back({{"what", stream.what},
                              {"layers", stream.layers},
                              {"row_bytes", stream.row_bytes()},
                              {"payload_bytes", stream.payload},
                              {"scale_bytes", stream.scales},
                              {"plain_bytes", stream.plain},
                              {"tokens_per_row", stream.tokens},
                              {"widths", stream.widths}});
  }
  return out;
}

Json json(const Attribution& attribution) {
  Json out = {{"values_per_entry", attribution.values},
              {"sharing_factor", attribution.sharing_factor},
              {"format_factor", attribution.format_factor}};
  for (const LatticePoint& point : attribution.points) {
    out["lattice"].push_back({{"shared", point.shared},
                              {"compressed", point.compressed},
                              {"format", to_string(point.format)},
                              {"entries_per_token", point.entries_per_token},
                              {"payload_bytes_per_token", point.payload_bytes},
                              {"bytes_per_token", point.bytes}});
  }
  return out;
}

Json capacity_json(const Plan& plan) {
  Json out = {{"context_tokens", plan.context_tokens},
              {"memory_bytes", plan.request.memory_bytes},
              {"contexts", json(plan.contexts)}};
  for (size_t i = 0; i < plan.concurrency.size(); ++i) {
    const bool own = i == plan.generations.size();
    Json curve = {{"name", own ? plan.source : plan.generations[i].name}};
    for (const ConcurrencyPoint& point : plan.concurrency[i]) {
      curve["points"].push_back({{"tokens", point.tokens}, {"contexts", json(point.contexts)}});
    }
    out["concurrency"].push_back(std::move(curve));
  }
  Json& tier = out["persistent_tier"];
  tier = {{"retention_hours", plan.tier.retention_hours},
          {"disk_bytes_for_72_hours", plan.tier.disk_bytes_for_72_hours}};
  if (plan.attribution) {
    tier["ratio"] = plan.tier.ratio;
    tier["entry_ratio"] = plan.tier.entry_ratio;
    tier["window_ratio"] = plan.tier.window_ratio;
    tier["window_interval_tokens"] = plan.tier.window_interval_tokens;
  }
  out["snapshots"] = {{"alive", plan.snapshots.snapshots}, {"bytes", plan.snapshots.bytes}};
  return out;
}

Json lines_json(const std::vector<TrafficLine>& lines) {
  Json out = Json::object();
  for (const TrafficLine& line : lines) out[line.what] = line.bytes;
  return out;
}

Json flops_json(const ModelPlan& model) {
  Json out = {
      {"activated_parameters",
       {{"prefill", model.activated.prefill},
        {"decode", model.activated.decode},
        {"prefill_main", model.activated.prefill_main},
        {"decode_main", model.activated.decode_main}}},
      {"decode_growth",
       {{"weighted", model.growth_weighted}, {"unweighted", model.growth_unweighted}}},
      {"bytes_per_decoded_token",
       {{"weights", lines_json(model.weight_lines)}, {"cache", lines_json(model.cache_lines)}}}};
  for (const RoleCost& role : model.roles) {
    out["roles"].push_back({{"role", role.role},
                            {"layers", role.layers},
                            {"row", json(role.row)},
                            {"keys_only", json(role.keys_only)}});
  }
  for (const DecodePoint& point : model.decode) {
    out["decode"].push_back({{"context", point.context},
                             {"ops", json(point.ops)},
                             {"weight_bytes", point.weight_bytes},
                             {"cache_bytes", point.cache_bytes},
                             {"roof_seconds", point.seconds}});
  }
  for (const PrefillPoint& point : model.prefill) {
    out["prefill"].push_back({{"tokens", point.tokens},
                              {"exact", json(point.exact)},
                              {"bounded_tail", json(point.bounded_tail)},
                              {"roof_seconds", point.seconds}});
  }
  return out;
}

Json json(const Speed& speed) {
  return {{"tokens_per_second", speed.tokens_per_second()},
          {"seconds", speed.seconds},
          {"memory_bytes", speed.memory_bytes},
          {"ssd_bytes", speed.ssd_bytes},
          {"bound", speed.bound}};
}

Json json(const Processor& processor) {
  return {{"memory_gbps", processor.memory_gbps},
          {"bf16_gflops", processor.bf16_gflops},
          {"fp8_gflops", processor.fp8_gflops},
          {"fp4_gflops", processor.fp4_gflops}};
}

Json json(const Machine& machine) {
  Json out = {{"name", machine.name},           {"what", machine.what},
              {"ram_bytes", machine.ram_bytes}, {"cpu", json(machine.cpu)},
              {"ssd_bytes", machine.ssd_bytes}, {"ssd_gbps", machine.ssd_gbps},
              {"gpu_bytes", machine.gpu_bytes}};
  if (machine.gpu_bytes > 0) out["gpu"] = json(machine.gpu);
  return out;
}

Json json(const Placement& placement) {
  Json out = {{"fits", placement.fits},
              {"missing_bytes", placement.missing_bytes},
              {"checkpoint_fits_ssd", placement.disk_fits},
              {"experts_resident", placement.experts_resident},
              {"engram_resident", placement.engram_resident},
              {"as_placed", json(placement.speed)},
              {"all_experts_resident", json(placement.all_resident)},
              {"no_expert_resident", json(placement.none_resident)}};
  for (const PlacementLine& line : placement.lines) {
    out["lines"].push_back({{"what", line.what},
                            {"bytes", line.bytes},
                            {"gpu_bytes", line.gpu},
                            {"ram_bytes", line.ram},
                            {"ssd_bytes", line.ssd}});
  }
  for (const Advice& advice : placement.advice) {
    out["what_next"].push_back(
        {{"change", advice.change}, {"tokens_per_second", advice.tokens_per_second}});
  }
  return out;
}

Json json(const Transfer& transfer) {
  return {{"tokens", transfer.tokens},
          {"entry_bytes", transfer.entry_bytes},
          {"window_bytes", transfer.window_bytes},
          {"bytes", transfer.entry_bytes + transfer.window_bytes},
          {"seconds", transfer.seconds},
          {"recompute_seconds", transfer.recompute_seconds},
          {"break_even_tokens", transfer.break_even_tokens}};
}

Json json(const ReplayPoint& point) {
  const ReplayCosts& rows = point.layer_tokens;
  const auto both = [](uint64_t layer_tokens, double ops) {
    return Json{{"layer_tokens", layer_tokens}, {"ops", ops}};
  };
  return {{"new_tokens", point.new_tokens},
          {"snapshot", both(rows.snapshot, point.snapshot)},
          {"exact", both(rows.exact, point.exact)},
          {"auto", both(rows.automatic, point.automatic)},
          {"bounded", both(rows.bounded, point.bounded)},
          {"cold", both(rows.cold, point.cold)}};
}

Json request_json(const PlanRequest& request) {
  Json out = Json::object();
  for (const PlanField& field : plan_fields()) out[field.name] = field.get(request);
  return out;
}

}  // namespace

std::string to_json(const Plan& plan) {
  Json out = {{"source", plan.source}, {"modes", plan.modes}};
  out["request"] = request_json(plan.request);
  out["machine"] = json(plan.machine);
  if (plan.model) out["ledger"] = json(plan.model->ledger);
  if (!plan.model) {
    out["ledger"] = {{"global_kv_bytes_per_token", plan.design.bytes_per_token()},
                     {"derivation", plan.design.formula()}};
    out["not_planned"] = plan.no_model;
  }
  out["design"] = json(plan.design);
  for (const CacheDesign& design : plan.generations) out["generations"].push_back(json(design));
  if (plan.attribution) out["attribution"] = json(*plan.attribution);
  out["capacity"] = capacity_json(plan);
  if (plan.model) {
    out["flops"] = flops_json(*plan.model);
    out["placement"] = json(plan.model->placement);
    out["transfer"] = json(plan.model->transfer);
    Json& replay = out["replay"];
    replay = {{"hit", plan.model->replay_hit}, {"asked", json(plan.model->replay_asked)}};
    for (const ReplayPoint& point : plan.model->replay) replay["curve"].push_back(json(point));
  }
  return out.dump(2) + "\n";
}

}  // namespace thimble::planner
