#include "planner/ledger.h"

#include <fmt/format.h>

#include <map>

#include "arch/weight_table.h"
#include "base/bytes.h"

namespace thimble::planner {
namespace {

// "3 x (288 + 68) / 2 + 1 x (288 + 68) / 1 = 890"
std::string derivation(const arch::CacheLayout& layout) {
  std::map<uint32_t, uint32_t, std::greater<>> owners_of_ratio;
  for (const arch::OwnerLayout& owner : layout.owners) ++owners_of_ratio[owner.ratio];
  std::string text;
  for (const auto& [ratio, count] : owners_of_ratio) {
    const arch::OwnerLayout& owner = layout.owners.front();
    if (!text.empty()) text += " + ";
    text += fmt::format("{} x ({} + {})", count, owner.main_row_bytes, owner.index_row_bytes);
    if (ratio > 1) text += fmt::format(" / {}", ratio);
  }
  if (text.empty()) text = "no layer owns entries";
  return text + fmt::format(" = {:.10g}", arch::global_bytes_per_token(layout));
}

void add_owners(const arch::CacheLayout& layout, Ledger& ledger) {
  for (const arch::OwnerLayout& owner : layout.owners) {
    OwnerLine line;
    line.layer = owner.layer;
    line.ratio = owner.ratio;
    line.main_payload = owner.main_row_bytes - owner.main_scale_bytes;
    line.main_scales = owner.main_scale_bytes;
    line.index_payload = owner.index_row_bytes - owner.index_scale_bytes;
    line.index_scales = owner.index_scale_bytes;
    line.bytes_per_token =
        static_cast<double>(owner.main_row_bytes + owner.index_row_bytes) / owner.ratio;
    ledger.owners.push_back(line);
  }
}

void add_checkpoint(const arch::Config& config, Ledger& ledger) {
  std::map<arch::WeightPart, PartLine> parts;
  for (const arch::ExpectedTensor& tensor : arch::expected_tensors(config)) {
    if (tensor.optional) continue;
    PartLine& line = parts[tensor.part];
    line.part = arch::to_string(tensor.part);
    ++line.tensors;
    line.bytes += tensor.bytes();
    line.parameters += tensor.parameters();
  }
  for (const auto& [part, line] : parts) {
    ledger.parts.push_back(line);
    ledger.checkpoint_tensors += line.tensors;
    ledger.checkpoint_bytes += line.bytes;
    ledger.parameters += line.parameters;
  }
}

}  // namespace

uint64_t held_bytes(const arch::SequenceBytes& sequence) {
  return sequence.windows + sequence.window_slack + sequence.half_pairs + sequence.engram_history;
}

Ledger make_ledger(const arch::Config& config, arch::CacheFormat format) {
  const arch::CacheLayout layout = arch::make_cache_layout(config, format);
  const arch::SequenceBytes sequence = arch::sequence_bytes(config, layout);
  Ledger ledger;
  add_owners(layout, ledger);
  ledger.global_kv_bytes_per_token = arch::global_bytes_per_token(layout);
  ledger.derivation = derivation(layout);
  ledger.block_bytes = layout.block_bytes;
  ledger.window_bytes = sequence.windows;
  ledger.window_slack_bytes = sequence.window_slack;
  ledger.half_pair_bytes = sequence.half_pairs;
  ledger.engram_history_bytes = sequence.engram_history;
  ledger.snapshot_bytes = sequence.windows + sequence.snapshot_state;
  ledger.sequence_bytes = held_bytes(sequence);
  add_checkpoint(config, ledger);
  return ledger;
}

}  // namespace thimble::planner
