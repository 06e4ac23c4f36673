#include "arch/checkpoint.h"

#include <algorithm>
#include <set>

#include "arch/internal/json.h"
#include "arch/internal/shards.h"
#include "base/bytes.h"
#include "base/check.h"
#include "base/read_ahead.h"

namespace thimble::arch {
namespace {

constexpr size_t kShownMismatches = 8;

// The policy of checkpoint.h.
bool is_scanned(const ExpectedTensor& tensor, uint64_t checkpoint_bytes) {
  if (checkpoint_bytes <= kMaxScannedBytes) return true;
  const bool engram_table = tensor.name.find(".engram.embed.") != std::string::npos;
  return tensor.part != WeightPart::kExperts && !engram_table &&
         tensor.bytes() <= kMaxScannedTensor;
}

// Appends what is wrong with one tensor; true if it may be read as the table says.
bool compare_tensor(const ExpectedTensor& expected, const Shards& shards,
                    std::vector<Mismatch>& out) {
  const auto it = shards.tensors.find(expected.name);
  if (it == shards.tensors.end()) {
    if (!expected.optional && !shards.is_unread(expected.name)) {
      out.push_back(
          {Mismatch::Kind::kMissing, expected.name,
           fmt::format("expected {} {}", to_string(expected.dtype), to_string(expected.shape))});
    }
    return false;
  }
  const TensorView& found = it->second;
  const std::string& file = shards.file_names.find(expected.name)->second;
  const size_t before = out.size();
  if (found.dtype != expected.dtype) {
    out.push_back({Mismatch::Kind::kDType, expected.name,
                   fmt::format("found {} in {}, expected {}", to_string(found.dtype),
                               in_quotes(file), to_string(expected.dtype))});
  }
  if (found.shape != expected.shape) {
    out.push_back({Mismatch::Kind::kShape, expected.name,
                   fmt::format("found {} in {}, expected {}", to_string(found.shape),
                               in_quotes(file), to_string(expected.shape))});
  }
  return out.size() == before;
}

std::vector<Mismatch> compare(const Config& config, const Shards& shards) {
  const std::vector<ExpectedTensor> table = expected_tensors(config);
  const uint64_t checkpoint_bytes = totals(table).bytes;
  std::vector<Mismatch> out = shards.mismatches;
  std::set<std::string_view> known;
  for (const ExpectedTensor& expected : table) {
    known.insert(expected.name);
    if (!compare_tensor(expected, shards, out) || !is_scanned(expected, checkpoint_bytes)) continue;
    const auto values = check_values(shards.tensors.find(expected.name)->second);
    if (!values) out.push_back({Mismatch::Kind::kValue, expected.name, values.error().message});
  }
  for (const auto& [name, view] : shards.tensors) {
    if (known.contains(name)) continue;
    out.push_back({Mismatch::Kind::kUnexpected, name,
                   fmt::format("found {} {} in {}; the configuration has no such tensor",
                               to_string(view.dtype), to_string(view.shape),
                               in_quotes(shards.file_names.find(name)->second))});
  }
  return out;
}

Error refusal(const std::vector<Mismatch>& mismatches) {
  std::string message = fmt::format("the files do not match config.json ({})",
                                    base::counted(mismatches.size(), "mismatch", "mismatches"));
  for (size_t i = 0; i < mismatches.size() && i < kShownMismatches; ++i) {
    const Mismatch& m = mismatches[i];
    message += fmt::format("\n  {} {}: {}", to_string(m.kind), in_quotes(m.tensor), m.detail);
  }
  if (mismatches.size() > kShownMismatches) {
    message += fmt::format("\n  ... and {} more; `thimble inspect` lists them all",
                           mismatches.size() - kShownMismatches);
  }
  return {ErrorCode::kCorrupt, std::move(message), {}};
}

}  // namespace

const char* to_string(Mismatch::Kind kind) {
  switch (kind) {
    case Mismatch::Kind::kMissing:
      return "missing";
    case Mismatch::Kind::kUnexpected:
      return "unexpected";
    case Mismatch::Kind::kShape:
      return "wrong shape";
    case Mismatch::Kind::kDType:
      return "wrong dtype";
    case Mismatch::Kind::kFile:
      return "bad file";
    case Mismatch::Kind::kValue:
      return "bad value";
  }
  return "?";
}

Result<CheckpointReport> inspect_checkpoint(const Path& directory) {
  CheckpointReport report;
  report.config = THIMBLE_TRY(load_config(directory / "config.json"));
  Shards shards = open_shards(directory);
  report.mismatches = compare(report.config, shards);
  report.found = std::move(shards.entries);
  return report;
}

Result<Checkpoint> Checkpoint::open(const Path& directory) {
  Checkpoint checkpoint;
  checkpoint.directory_ = directory;
  checkpoint.config_ = THIMBLE_TRY(load_config(directory / "config.json"));
  Shards shards = open_shards(directory);
  const std::vector<Mismatch> mismatches = compare(checkpoint.config_, shards);
  if (!mismatches.empty()) {
    return tl::unexpected<Error>(base::in(refusal(mismatches), directory.string()));
  }
  checkpoint.files_ = std::move(shards.files);
  checkpoint.tensors_ = std::move(shards.tensors);
  for (const auto& [name, view] : checkpoint.tensors_) checkpoint.bytes_ += view.data.size();
  return checkpoint;
}

bool Checkpoint::tells_residency() const {
  return std::ranges::all_of(
      files_, [](const SafetensorsFile& file) { return base::tells_residency(file.path()); });
}

const TensorView& Checkpoint::tensor(std::string_view name) const {
  const TensorView* found = find(name);
  if (found == nullptr) base::check_failed(__FILE__, __LINE__, "tensor exists", std::string(name));
  return *found;
}

const TensorView* Checkpoint::find(std::string_view name) const {
  const auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

}  // namespace thimble::arch
