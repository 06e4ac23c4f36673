#include <fmt/format.h>

#include "apps/thimble/inspection.h"
#include "arch/cache_layout.h"
#include "arch/layer_plan.h"
#include "base/bytes.h"
#include "base/terminal.h"
#include "planner/replay_costs.h"

namespace thimble::app {
namespace {

using base::counted;
using base::with_commas;

constexpr size_t kShownMismatches = 100;

std::string heading(std::string_view text) {
  return "\n" + base::styled(base::Stream::kOut, base::Style::kBold, text) + "\n";
}

std::string line(std::string_view label, const std::string& value) {
  return fmt::format("  {:<22}{}\n", label, value);
}

std::string config_text(const Inspection& inspection) {
  const arch::Config& c = inspection.config;
  const arch::WeightTotals sum = arch::totals(inspection.expected);
  std::string out = base::styled(base::Stream::kOut, base::Style::kBold, inspection.source) + "\n";
  if (inspection.fingerprint) out += line("fingerprint", hex(*inspection.fingerprint));
  out += line("parameters", with_commas(sum.parameters));
  out += line("layers x hidden", fmt::format("{} x {}, {}", c.num_hidden_layers, c.hidden_size,
                                             counted(c.hc_mult, "stream", "streams")));
  out +=
      line("attention", fmt::format("{} x {} (rope {}), query rank {}, output {} x {}",
                                    counted(c.num_attention_heads, "head", "heads"), c.head_dim,
                                    c.qk_rope_head_dim, c.q_lora_rank, c.o_groups, c.o_lora_rank));
  if (c.has_global_cache()) {
    out +=
        line("selection", fmt::format("{} x {}, best {}", counted(c.index_n_heads, "head", "heads"),
                                      c.index_head_dim, counted(c.index_topk, "entry", "entries")));
  }
  out += line("experts", fmt::format("{} of width {}, {} + 1 shared a token", c.n_routed_experts,
                                     c.moe_intermediate_size, c.num_experts_per_tok));
  out += line("vocabulary", with_commas(c.vocab_size));
  out += line("context",
              fmt::format("{}, window {}", counted(c.max_position_embeddings, "token", "tokens"),
                          c.sliding_window));
  if (!c.engram.layer_ids.empty()) {
    out += line("engram", fmt::format("before {} {}: {} x {} values of {} rows",
                                      c.engram.layer_ids.size() == 1 ? "layer" : "layers",
                                      fmt::join(c.engram.layer_ids, ", "),
                                      counted(c.engram.lookups(), "lookup", "lookups"),
                                      c.engram.head_dim, fmt::join(c.engram.num_embeddings, ", ")));
  }
  if (c.draft.num_layers > 0) {
    out += line("drafts",
                fmt::format("{}, {} at once, {}", counted(c.draft.num_layers, "layer", "layers"),
                            counted(c.draft.block_size, "token", "tokens"),
                            counted(c.draft.n_routed_experts, "expert", "experts")));
  }
  if (c.vision) {
    out += line("vision", fmt::format("{} x {}, patches of {}",
                                      counted(c.vision->num_hidden_layers, "layer", "layers"),
                                      c.vision->hidden_size, c.vision->patch_size));
  }
  return out;
}

// What a row of the layer table says besides the layer number; equal neighbours share a row.
std::string role_text(const arch::Config& config, const arch::LayerRole& role) {
  const auto or_dash = [](const std::optional<uint32_t>& layer) {
    return layer ? fmt::format("{}", *layer) : "-";
  };
  std::string rope =
      fmt::format("{:g}", role.compressed_rope ? config.compress_rope_theta : config.rope_theta);
  if (role.compressed_rope && config.yarn.original_max_position_embeddings > 0) {
    rope += fmt::format(" yarn x{:g}", config.yarn.factor);
  }
  std::string notes;
  if (role.engram) notes += "engram ";
  if (role.makes_candidates) notes += "makes candidates ";
  if (role.uses_candidates) notes += "within candidates ";
  std::string text = fmt::format("{:<9}{:<7}{:<6}{:<7}{:<18}{}", arch::to_string(role.mode),
                                 role.ratio == 0 ? "-" : fmt::format("{}", role.ratio),
                                 or_dash(role.kv_source), or_dash(role.index_source), rope, notes);
  text.resize(text.find_last_not_of(' ') + 1);
  return text;
}

std::string layers_text(const arch::Config& config) {
  const arch::LayerPlan plan = arch::make_layer_plan(config);
  std::string out = heading("layers");
  out += base::styled(base::Stream::kOut, base::Style::kDim,
                      "  layer    mode     ratio  kv    index  rope              notes");
  out += "\n";
  size_t first = 0;
  while (first < plan.layers.size()) {
    const std::string role = role_text(config, plan.layers[first]);
    size_t last = first;
    while (last + 1 < plan.layers.size() && role_text(config, plan.layers[last + 1]) == role) {
      ++last;
    }
    const std::string numbers =
        first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
    out += fmt::format("  {:<9}{}\n", numbers, role);
    first = last + 1;
  }
  return out;
}

std::string cache_text(const arch::Config& config) {
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const auto sequence = arch::sequence_bytes(config, layout);
  std::string out = heading("cache");
  out += base::styled(base::Stream::kOut, base::Style::kDim,
                      "  owner  ratio  main codes + scales  index codes + scales  a token");
  out += "\n";
  for (const arch::OwnerLayout& owner : layout.owners) {
    const double per_token =
        double{1} * (owner.main_row_bytes + owner.index_row_bytes) / owner.ratio;
    out += fmt::format("  {:<7}{:<7}{:<21}{:<22}{:g} B\n", owner.layer, owner.ratio,
                       fmt::format("{} + {}", owner.main_row_bytes - owner.main_scale_bytes,
                                   owner.main_scale_bytes),
                       fmt::format("{} + {}", owner.index_row_bytes - owner.index_scale_bytes,
                                   owner.index_scale_bytes),
                       per_token);
  }
  out += line("a token, all owners", fmt::format("{:g} B", arch::global_bytes_per_token(layout)));
  out += line("a block", fmt::format("{} B for {} tokens", with_commas(layout.block_bytes),
                                     arch::kBlockTokens));
  out +=
      line("windows, a sequence",
           fmt::format("{} B = {} x {} x {} B", with_commas(sequence.windows),
                       counted(layout.window_layers, "layer", "layers"),
                       counted(config.sliding_window, "token", "tokens"), layout.window_row_bytes));
  out += line("open groups", fmt::format("{} B", with_commas(sequence.half_pairs)));
  out += line("engram history", fmt::format("{} B", sequence.engram_history));
  return out;
}

std::string table_row(std::string_view part, std::string_view dtype, const TableLine& totals,
                      bool files) {
  std::string row =
      fmt::format("  {:<17}{:<9}{:>8}{:>20}", part, dtype, with_commas(totals.expected.tensors),
                  with_commas(totals.expected.bytes));
  if (files) {
    row += fmt::format("{:>10}{:>20}", with_commas(totals.found.tensors),
                       with_commas(totals.found.bytes));
  }
  return row + "\n";
}

std::string tensors_text(const Inspection& inspection) {
  const bool files = inspection.files.has_value();
  std::string header = fmt::format("  {:<17}{:<9}{:>8}{:>20}", "part", "dtype", "tensors", "bytes");
  if (files) header += fmt::format("{:>10}{:>20}", "found", "bytes");
  std::string out = heading("tensors");
  out += base::styled(base::Stream::kOut, base::Style::kDim, header) + "\n";
  TableLine sum;
  for (const auto& [key, totals] : tensor_table(inspection)) {
    out += table_row(key.first, key.second, totals, files);
    sum.expected.tensors += totals.expected.tensors;
    sum.expected.bytes += totals.expected.bytes;
    sum.found.tensors += totals.found.tensors;
    sum.found.bytes += totals.found.bytes;
  }
  return out + table_row("all", "", sum, files);
}

std::string verdict_text(const arch::CheckpointReport& report) {
  const auto& mismatches = report.mismatches;
  if (mismatches.empty()) {
    return "\n" +
           base::styled(base::Stream::kOut, base::Style::kGreen,
                        "The files hold exactly what the configuration asks for.") +
           "\n";
  }
  std::string out = heading(counted(mismatches.size(), "mismatch", "mismatches"));
  for (size_t i = 0; i < mismatches.size() && i < kShownMismatches; ++i) {
    const arch::Mismatch& mismatch = mismatches[i];
    out += fmt::format(
        "  {} {}: {}\n",
        base::styled(base::Stream::kOut, base::Style::kRed, arch::to_string(mismatch.kind)),
        base::printable(mismatch.tensor), mismatch.detail);
  }
  if (mismatches.size() > kShownMismatches) {
    out += fmt::format("  ... and {} more; --json lists them all\n",
                       mismatches.size() - kShownMismatches);
  }
  return out;
}

// What a prompt costs after a hit, in layer-tokens; `serve` adds this machine's times.
std::string replay_text(const arch::Config& config) {
  const auto costs =
      planner::typical_replay_costs(arch::make_layer_plan(config), config.max_position_embeddings);
  if (costs.hit == 0) return "";
  std::string out = heading("replay");
  out +=
      line("layer-tokens for", fmt::format("{} cached tokens and {} new ones",
                                           with_commas(costs.hit), with_commas(costs.new_tokens)));
  const std::pair<const char*, uint64_t> routes[] = {{"from a snapshot", costs.snapshot},
                                                     {"exact", costs.exact},
                                                     {"auto", costs.automatic},
                                                     {"bounded", costs.bounded},
                                                     {"without the hit", costs.cold}};
  for (const auto& [name, cost] : routes) out += line(name, with_commas(cost));
  return out;
}

}  // namespace

std::string inspection_text(const Inspection& inspection) {
  std::string out = config_text(inspection);
  out += layers_text(inspection.config);
  out += cache_text(inspection.config);
  out += replay_text(inspection.config);
  out += tensors_text(inspection);
  if (inspection.files) out += verdict_text(*inspection.files);
  return out;
}

}  // namespace thimble::app
