#include <fmt/format.h>

#include "base/bytes.h"
#include "base/terminal.h"
#include "planner/plan.h"

namespace thimble::planner {
namespace {

using base::human_bytes;
using base::with_commas;

std::string heading(std::string_view text) {
  return "\n" + base::styled(base::Stream::kOut, base::Style::kBold, text) + "\n";
}

std::string line(std::string_view label, std::string_view value) {
  return fmt::format("  {:<24}{}\n", label, value);
}

// "2,703,360 B (2.58 MiB)"
std::string both(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  return fmt::format("{} B ({})", with_commas(bytes), human_bytes(bytes));
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.3g} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.3g} ms", 1e3 * seconds);
  if (seconds < 600) return fmt::format("{:.3g} s", seconds);
  return fmt::format("{:.3g} h", seconds / 3600);
}

std::string ledger_text(const Ledger& ledger) {
  std::string out = heading("1. Ledger");
  out += fmt::format("  {:<10}{:<7}{:<20}{:<20}{}\n", "owner", "ratio", "main entry", "index entry",
                     "a token");
  for (const OwnerLine& owner : ledger.owners) {
    out += fmt::format("  {:<10}{:<7}{:<20}{:<20}{:g} B\n", fmt::format("layer {}", owner.layer),
                       owner.ratio,
                       fmt::format("{} + {} scales", owner.main_payload, owner.main_scales),
                       fmt::format("{} + {} scales", owner.index_payload, owner.index_scales),
                       owner.bytes_per_token);
  }
  out += line("global KV a token", ledger.derivation + " B");
  out += line("a block",
              fmt::format("{} for {} tokens", both(ledger.block_bytes), arch::kBlockTokens));
  out += line("windows a sequence", both(ledger.window_bytes));
  out += line("  their slack", both(ledger.window_slack_bytes));
  out += line("compressor tail", both(ledger.half_pair_bytes));
  out += line("Engram history", both(ledger.engram_history_bytes));
  out += line("a snapshot", both(ledger.snapshot_bytes) + ", its token ids besides");
  out += "  checkpoint\n";
  for (const PartLine& part : ledger.parts) {
    out += fmt::format("    {:<22}{:>8} tensors {:>20} B\n", part.part, with_commas(part.tensors),
                       with_commas(part.bytes));
  }
  return out + fmt::format("    {:<22}{:>8} tensors {:>20} B, {} parameters\n", "all",
                           with_commas(ledger.checkpoint_tensors),
                           with_commas(ledger.checkpoint_bytes), with_commas(ledger.parameters));
}

std::string generations_text(const Plan& plan) {
  std::string out = heading("2. Generations, bytes of global KV a token");
  for (const CacheDesign& design : plan.generations) {
    out += fmt::format("  {:<11}{}\n", design.id, design.name);
    out += fmt::format("  {:<11}{}\n", "", design.formula());
    for (const RowStream& stream : design.streams) {
      out += fmt::format("  {:<13}{}: {} B = {}\n", "", stream.what, stream.row_bytes(),
                         stream.widths);
    }
    if (!design.note.empty()) out += fmt::format("  {:<13}{}\n", "", design.note);
  }
  return out;
}

std::string attribution_text(const Plan& plan) {
  const Attribution& a = *plan.attribution;
  std::string out = heading("3. Attribution");
  out += line("layers", plan.modes);
  out += line("an entry", fmt::format("{} values, main and index", a.values));
  out += fmt::format("  {:<12}{:<9}{:<13}{:>9}{:>14}{:>14}\n", "sharing", "format", "compression",
                     "entries", "payload B", "with scales");
  for (const LatticePoint& point : a.points) {
    out += fmt::format("  {:<12}{:<9}{:<13}{:>9.4g}{:>14.8g}{:>14.8g}\n",
                       point.shared ? "owners" : "every layer", to_string(point.format),
                       point.compressed ? "as above" : "none", point.entries_per_token,
                       point.payload_bytes, point.bytes);
  }
  if (a.sharing_factor > 0) {
    out += line("sharing divides by",
                fmt::format("{:.3g} (FP8 payload, every layer {:.8g} B)", a.sharing_factor,
                            a.at(false, true, ValueFormat::kFp8).payload_bytes));
    out += line("FP4 then divides by", fmt::format("{:.2g} (its scales counted)", a.format_factor));
  }
  return out;
}

std::string blocks_text(const Contexts& contexts) {
  if (!contexts.in_blocks) return "";
  return fmt::format(", {} in blocks", with_commas(*contexts.in_blocks));
}

std::string tier_text(const Plan& plan) {
  const PersistentTier& tier = plan.tier;
  const PlanRequest& request = plan.request;
  std::string out;
  if (plan.attribution) {  // of this architecture
    out += line("persistent bytes",
                fmt::format("{:.3f} of V4-Flash's = {:.3f} (entries) x {:g} (windows are not kept)",
                            tier.ratio, tier.entry_ratio, tier.window_ratio));
    out += line("", fmt::format("the half assumes that windows cost V4-Flash as much as entries: "
                                "one set every {:.0f} tokens",
                                tier.window_interval_tokens));
  }
  return out + line("retention", fmt::format("{} at {:g} new tokens/s: {:.3g} h; 72 h take {}",
                                             human_bytes(request.tier_bytes),
                                             request.write_tokens_per_second, tier.retention_hours,
                                             human_bytes(static_cast<uint64_t>(
                                                 std::min(tier.disk_bytes_for_72_hours, 1e18)))));
}

std::string capacity_text(const Plan& plan) {
  const PlanRequest& request = plan.request;
  std::string out = heading("4. Capacity");
  out += line(fmt::format("in {}", human_bytes(request.memory_bytes)),
              fmt::format("{} contexts of {} tokens by entries, {} with windows{}",
                          with_commas(plan.contexts.by_entries), with_commas(plan.context_tokens),
                          with_commas(plan.contexts.with_windows), blocks_text(plan.contexts)));
  out += fmt::format("  {:<24}", "tokens a context");
  for (const CacheDesign& design : plan.generations) out += fmt::format("{:>12}", design.id);
  out += fmt::format("{:>12}   (contexts, windows counted)\n", "this plan");
  for (size_t i = 0; i < plan.concurrency.back().size(); ++i) {
    out += fmt::format("  {:<24}", with_commas(plan.concurrency.back()[i].tokens));
    for (const auto& curve : plan.concurrency) {
      out += fmt::format("{:>12}", with_commas(curve[i].contexts.with_windows));
    }
    out += "\n";
  }
  out += tier_text(plan);
  if (plan.model) {
    out += line("snapshots", fmt::format("{:g} a minute kept {:g} min: {:g} alive, {}",
                                         request.snapshots_per_minute, request.ttl_minutes,
                                         plan.snapshots.snapshots,
                                         human_bytes(static_cast<uint64_t>(plan.snapshots.bytes))));
  }
  return out;
}

std::string traffic_text(const char* label, const std::vector<TrafficLine>& lines) {
  std::string value;
  double all = 0;
  for (const TrafficLine& item : lines) {
    value += fmt::format("{}{} {:.3g}", value.empty() ? "" : ", ", item.what, 1e-9 * item.bytes);
    all += item.bytes;
  }
  return line(label, fmt::format("{:.3g} GB: {}", 1e-9 * all, value));
}

// "7.898e9", of a small model "3.841e6".
std::string parameters_text(double count) {
  if (count < 1e3) return fmt::format("{:.0f}", count);
  return count < 1e9 ? fmt::format("{:.4g}e6", 1e-6 * count)
                     : fmt::format("{:.4g}e9", 1e-9 * count);
}

std::string flops_text(const Plan& plan) {
  const ModelPlan& model = *plan.model;
  std::string out = heading("5. Operations and bytes a token");
  out += fmt::format("  {:<40}{:>7}{:>16}{:>16}   1e9 operations a row\n", "role", "layers",
                     "whole row", "key and entry");
  for (const RoleCost& role : model.roles) {
    out += fmt::format("  {:<40}{:>7}{:>16.4g}{:>16.4g}\n", role.role, role.layers,
                       1e-9 * sum(role.row).total(), 1e-9 * sum(role.keys_only).total());
  }
  const ActivatedParameters& active = model.activated;
  out += line("activated parameters",
              fmt::format("prefill {} ({} in attention and experts), decode {} ({}, head included)",
                          parameters_text(active.prefill), parameters_text(active.prefill_main),
                          parameters_text(active.decode), parameters_text(active.decode_main)));
  out += traffic_text("weights read, decode", model.weight_lines);
  out += traffic_text("cache read, decode", model.cache_lines);
  out += fmt::format("\n  {:>10}{:>32}{:>26}{:>16}\n", "context", "a decoded token, 1e9 ops",
                     "cold prompt, 1e12 ops", "");
  out += fmt::format("  {:>10}{:>11}{:>11}{:>10}{:>14}{:>15}{:>16}\n", "tokens", "plain",
                     "weighted", "roof", "exact tail", "bounded tail", "roof");
  for (size_t i = 0; i < model.decode.size(); ++i) {
    const DecodePoint& decode = model.decode[i];
    const PrefillPoint& prefill = model.prefill[i];
    out += fmt::format("  {:>10}{:>11.4g}{:>11.4g}{:>10}{:>14.4g}{:>15.4g}{:>16}\n",
                       with_commas(decode.context), 1e-9 * sum(decode.ops).total(),
                       1e-9 * sum(decode.ops).weighted(), seconds_text(decode.seconds),
                       1e-12 * sum(prefill.exact).total(),
                       1e-12 * sum(prefill.bounded_tail).total(), seconds_text(prefill.seconds));
  }
  return out + line("growth, last over first",
                    fmt::format("{:.3g} weighted (BF16 1, FP8 1/2, FP4 1/4), {:.3g} unweighted",
                                model.growth_weighted, model.growth_unweighted));
}

std::string speed_text(const Speed& speed) {
  if (speed.seconds <= 0) return "not possible: the disk has no rate";
  return fmt::format("{:.3g} tokens/s, bound by {} ({:.3g} GB from memory, {:.3g} GB from disk)",
                     speed.tokens_per_second(), speed.bound, 1e-9 * speed.memory_bytes,
                     1e-9 * speed.ssd_bytes);
}

std::string break_even_text(const Transfer& transfer) {
  if (transfer.break_even_tokens == 0) return "moving is never faster";
  if (transfer.break_even_tokens == 1) return "moving is faster from the first token on";
  return fmt::format("moving is faster from {} tokens on", with_commas(transfer.break_even_tokens));
}

std::string placement_text(const Plan& plan) {
  const Machine& m = plan.machine;
  const Placement& placement = plan.model->placement;
  std::string out = heading("6. Placement");
  out += line(
      m.name,
      fmt::format("{}: {} at {:g} GB/s, disk {} at {:g} GB/s{}", m.what, human_bytes(m.ram_bytes),
                  m.cpu.memory_gbps, human_bytes(m.ssd_bytes), m.ssd_gbps,
                  m.gpu_bytes == 0 ? std::string()
                                   : fmt::format(", GPU {} at {:g} GB/s", human_bytes(m.gpu_bytes),
                                                 m.gpu.memory_gbps)));
  out += fmt::format("  {:<24}{:>14}{:>14}{:>14}{:>14}\n", "", "in all", "GPU", "memory", "disk");
  for (const PlacementLine& item : placement.lines) {
    out += fmt::format("  {:<24}{:>14}{:>14}{:>14}{:>14}\n", item.what, human_bytes(item.bytes),
                       human_bytes(item.gpu), human_bytes(item.ram), human_bytes(item.ssd));
  }
  if (!placement.fits) {
    out += line("does not fit",
                fmt::format("{} more memory would do", human_bytes(placement.missing_bytes)));
  }
  if (!placement.disk_fits) out += line("disk", "smaller than the checkpoint");
  out += line("experts in memory", fmt::format("{:.1f} %", 100 * placement.experts_resident));
  out += line("decode as placed", speed_text(placement.speed));
  out += line("all experts in memory", speed_text(placement.all_resident));
  out += line("no expert in memory", speed_text(placement.none_resident));
  out += "  roofs, reached by no program; which experts a token wants is taken as uniform\n";
  for (const Advice& advice : placement.advice) {
    out += line(&advice == &placement.advice.front() ? "what next" : "",
                fmt::format("{}: {:.3g} tokens/s", advice.change, advice.tokens_per_second));
  }
  const Transfer& transfer = plan.model->transfer;
  out += line("prefill to decode",
              fmt::format("{} tokens: {} entries + {} windows in {}, computed anew in {}",
                          with_commas(transfer.tokens), human_bytes(transfer.entry_bytes),
                          human_bytes(transfer.window_bytes), seconds_text(transfer.seconds),
                          seconds_text(transfer.recompute_seconds)));
  return out + line("", break_even_text(transfer));
}

std::string replay_row(const ReplayPoint& point) {
  const ReplayCosts& rows = point.layer_tokens;
  const auto cell = [](uint64_t layer_tokens, double ops) {
    return fmt::format("{} / {:.3g}", with_commas(layer_tokens), 1e-12 * ops);
  };
  return fmt::format("  {:>10}{:>20}{:>20}{:>20}{:>20}{:>22}\n", with_commas(point.new_tokens),
                     cell(rows.snapshot, point.snapshot), cell(rows.bounded, point.bounded),
                     cell(rows.automatic, point.automatic), cell(rows.exact, point.exact),
                     cell(rows.cold, point.cold));
}

std::string replay_text(const Plan& plan) {
  std::string out =
      heading(fmt::format("7. Replay after a hit of {} tokens, layer-tokens / 1e12 "
                          "operations",
                          with_commas(plan.model->replay_hit)));
  out += fmt::format("  {:>10}{:>20}{:>20}{:>20}{:>20}{:>22}\n", "new tokens", "snapshot",
                     "bounded", "auto", "exact", "without the hit");
  out += replay_row(plan.model->replay_asked);
  for (const ReplayPoint& point : plan.model->replay) out += replay_row(point);
  return out;
}

}  // namespace

std::string to_text(const Plan& plan) {
  std::string out = base::styled(base::Stream::kOut, base::Style::kBold, plan.source) + "\n";
  if (plan.model) {
    out += ledger_text(plan.model->ledger);
  } else {
    out += heading("1. Ledger") + line("global KV a token", plan.design.formula() + " B") +
           line("", plan.no_model);
  }
  out += generations_text(plan);
  if (plan.attribution) out += attribution_text(plan);
  out += capacity_text(plan);
  if (plan.model) out += flops_text(plan) + placement_text(plan) + replay_text(plan);
  return out;
}

}  // namespace thimble::planner
