#include <fmt/format.h>

#include <unordered_map>

#include "apps/thimble/commands.h"
#include "apps/thimble/inspection.h"
#include "arch/checkpoint.h"
#include "engine/model_files.h"
#include "model/engram.h"

namespace thimble::app {
namespace {

struct InspectFlags {
  std::string model;
  bool json = false;
  bool fingerprint = false;
};

// What serving would find wrong with the tokenizer: unreadable, larger than the vocabulary, absent
// or another one's where Engram hashes by it.
Result<void> check_tokenizer(const Path& directory) {
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(directory));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(checkpoint));
  const auto token_map = THIMBLE_TRY(engine::engram_map(checkpoint, tokenizer));
  if (checkpoint.config().engram.layer_ids.empty()) return {};
  const auto hasher = model::EngramHasher::create(checkpoint.config(), token_map);
  if (!hasher) return tl::unexpected(hasher.error());
  return {};
}

Result<Inspection> inspect(const std::string& source) {
  Inspection inspection;
  inspection.source = source;
  std::error_code ignored;
  if (source == "released" && !std::filesystem::exists(source, ignored)) {
    inspection.config = arch::released_config();
  } else if (std::filesystem::is_directory(source, ignored)) {
    inspection.files = THIMBLE_TRY(arch::inspect_checkpoint(source));
    inspection.config = inspection.files->config;
    auto& mismatches = inspection.files->mismatches;
    if (mismatches.empty()) {
      if (const auto checked = check_tokenizer(source); !checked) {
        mismatches.push_back(
            {arch::Mismatch::Kind::kFile, "tokenizer.json", checked.error().describe()});
      }
    }
  } else {
    inspection.config = THIMBLE_TRY(arch::load_config(source));
  }
  inspection.expected = arch::expected_tensors(inspection.config);
  return inspection;
}

Result<int> run_inspect(const InspectFlags& flags) {
  Inspection inspection = THIMBLE_TRY(inspect(flags.model));
  if (flags.fingerprint && !inspection.files) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "--fingerprint is of weights; '{}' is no model directory", flags.model);
  }
  if (flags.fingerprint && inspection.files->mismatches.empty()) {
    inspection.fingerprint = arch::fingerprint(THIMBLE_TRY(arch::Checkpoint::open(flags.model)));
  }
  print_out(flags.json ? inspection_json(inspection) : inspection_text(inspection));
  const bool wrong = inspection.files && !inspection.files->mismatches.empty();
  return wrong ? kExitFailed : kExitDone;
}

}  // namespace

std::string hex(const arch::Fingerprint& fingerprint) {
  std::string out;
  for (const std::byte byte : fingerprint) out += fmt::format("{:02x}", static_cast<int>(byte));
  return out;
}

TensorTable tensor_table(const Inspection& inspection) {
  TensorTable table;
  std::unordered_map<std::string_view, arch::WeightPart> parts;
  for (const arch::ExpectedTensor& tensor : inspection.expected) {
    parts.emplace(tensor.name, tensor.part);
    if (tensor.optional) continue;
    auto& line = table[{arch::to_string(tensor.part), arch::to_string(tensor.dtype)}].expected;
    ++line.tensors;
    line.bytes += tensor.bytes();
  }
  if (!inspection.files) return table;
  for (const auto& [name, entry] : inspection.files->found) {
    const auto part = parts.find(name);
    const char* part_name = part == parts.end() ? "unexpected" : arch::to_string(part->second);
    auto& line = table[{part_name, arch::to_string(entry.dtype)}].found;
    ++line.tensors;
    line.bytes += entry.end - entry.begin;
  }
  return table;
}

Command inspect_command() {
  auto flags = std::make_shared<InspectFlags>();
  return {
      .name = "inspect",
      .summary = "Show what a model is made of, and whether its files are complete",
      .details =
          "Prints the configuration, the role of every layer, what a token costs in each cache, "
          "and the tensors the files must hold. Of a directory every file is checked as it would "
          "be before serving; anything missing, unexpected or of the wrong shape, type or value is "
          "listed and the exit status is 1.",
      .examples = {{"thimble inspect models/nano", "a model directory"},
                   {"thimble inspect config.json", "a configuration alone"},
                   {"thimble inspect released --json", "the released model, built in"}},
      .describe =
          [flags](Options& options) {
            options.add("MODEL", flags->model,
                        "a model directory, a config.json, or the word `released`",
                        Need::kRequired);
            options.flag("--json", flags->json, "print JSON instead of text");
            options.flag("--fingerprint", flags->fingerprint,
                         "tell the weights of a directory from others'; reads most of them");
          },
      .run = [flags] { return run_inspect(*flags); }};
}

}  // namespace thimble::app
