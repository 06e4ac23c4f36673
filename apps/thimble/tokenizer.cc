#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "apps/thimble/commands.h"
#include "base/piece_reader.h"
#include "base/terminal.h"
#include "text/bpe_trainer.h"
#include "text/byte_tokenizer.h"
#include "text/tokenizer.h"

namespace thimble::app {
namespace {

struct TokenizerFlags {
  Path texts;
  Path out;
  uint32_t size = 4096;
  uint64_t least = 2;
};

// Every text of a JSON value: what a record of JSON lines says, whatever its keys.
void add_strings(const nlohmann::json& value, text::BpeTrainer& trainer) {
  if (value.is_string()) {
    trainer.add(value.get_ref<const std::string&>());
  } else if (value.is_structured()) {
    for (const auto& item : value) add_strings(item, trainer);
  }
}

Result<void> add_records(const Path& file, text::BpeTrainer& trainer) {
  auto lines = THIMBLE_TRY(base::PieceReader::open(file, "\n"));
  uint64_t number = 0;
  while (const auto line = THIMBLE_TRY(lines.next())) {
    ++number;
    if (line->find_first_not_of(" \t\r") == std::string_view::npos) continue;
    try {
      add_strings(nlohmann::json::parse(*line), trainer);
    } catch (const nlohmann::json::exception& e) {
      return base::fail(ErrorCode::kCorrupt, "{} line {}: {}", file.string(), number, e.what());
    }
  }
  return {};
}

Result<void> add_file(const Path& file, text::BpeTrainer& trainer) {
  if (file.extension() == ".jsonl") return add_records(file, trainer);
  const std::string content = THIMBLE_TRY(base::read_file(file, 4ULL << 30));
  trainer.add(content);
  return {};
}

// A file, or every regular file of a folder in order of name.
Result<std::vector<Path>> files_of(const Path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return std::vector<Path>{path};
  std::vector<Path> out;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    if (entry.is_regular_file()) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

Result<int> run_train(const TokenizerFlags& flags) {
  auto trainer = THIMBLE_TRY(text::BpeTrainer::create());
  const auto files = THIMBLE_TRY(files_of(flags.texts));
  for (const Path& file : files) THIMBLE_TRY(add_file(file, trainer));
  if (trainer.words() == 0) {
    return base::fail(ErrorCode::kInvalidArgument, "{} holds no text", flags.texts.string());
  }
  const std::string json = trainer.finish(static_cast<int32_t>(flags.size), flags.least);
  const auto tokenizer = THIMBLE_TRY(text::Tokenizer::parse(json));
  THIMBLE_TRY(base::write_file_atomic(flags.out, json));
  print_out(fmt::format("{}: {} ids from {} distinct words\n", flags.out.string(), tokenizer.size(),
                        trainer.words()));
  return kExitDone;
}

Result<void> check(const TokenizerFlags& flags) {
  return check_range("--size", flags.size, static_cast<uint64_t>(text::byte_tokenizer_size()),
                     1'000'000);
}

Command train_tokenizer_command() {
  auto flags = std::make_shared<TokenizerFlags>();
  return {.name = "train",
          .summary = "Learn a byte-level BPE vocabulary from text",
          .details =
              "Writes a tokenizer.json in the released layout: its pre-tokenizer and control "
              "tokens, merges by frequency. TEXTS is a file or a folder; of .jsonl files every "
              "string is counted, of others the whole text. The same texts give the same file.",
          .examples = {{"thimble tokenizer train texts/ --size 4096 --out tokenizer.json", ""}},
          .describe =
              [flags](Options& options) {
                options.add("TEXTS", flags->texts, "file or folder", Need::kRequired);
                options.add("--out", flags->out, "tokenizer.json to write", Need::kRequired);
                options.add("--size", flags->size, "ids, control tokens included");
                options.add("--least", flags->least, "merge pairs that occur so often at least");
              },
          .check = [flags] { return check(*flags); },
          .run = [flags] { return run_train(*flags); }};
}

}  // namespace

Command tokenizer_command() {
  return {.name = "tokenizer",
          .summary = "Make a tokenizer",
          .details = "For models trained from nothing; the released one comes with its own.",
          .examples = {},
          .subcommands = {train_tokenizer_command()}};
}

}  // namespace thimble::app
