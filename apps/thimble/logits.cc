#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "apps/thimble/commands.h"
#include "apps/thimble/decision_recorder.h"
#include "apps/thimble/mode_flag.h"
#include "arch/checkpoint.h"
#include "base/bytes.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "engine/resumed_run.h"
#include "model/reference.h"

namespace thimble::app {
namespace {

struct LogitsFlags {
  Path model;
  Path ids;
  Path out;
  std::string mode = "exact";
  std::string impl = "engine";
  std::optional<uint64_t> chunk;
  std::optional<uint64_t> decode_from;
  std::string compat = "none";
  std::optional<std::string> replay;
  uint64_t hit = 0;
  uint32_t threads = 0;
};

// Whitespace-separated token ids. The model checks their range.
Result<std::vector<int32_t>> read_ids(const Path& file) {
  const std::string text = THIMBLE_TRY(base::read_file(file));
  std::vector<int32_t> ids;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (true) {
    at = std::find_if(at, end, [](unsigned char c) { return std::isspace(c) == 0; });
    if (at == end) break;
    int32_t id = 0;
    const auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc{} ||
        (next != end && std::isspace(static_cast<unsigned char>(*next)) == 0)) {
      const char* word_end =
          std::find_if(at, end, [](unsigned char c) { return std::isspace(c) != 0; });
      return base::fail(ErrorCode::kInvalidArgument,
                        "{}, byte {}: expected a token id, found \"{}\"", file.string(),
                        at - text.data(), base::printable({at, word_end}, 24));
    }
    ids.push_back(id);
    at = next;
  }
  if (ids.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} holds no token ids", file.string());
  }
  return ids;
}

Result<void> check_flags(const LogitsFlags& flags) {
  const bool reference_only = flags.mode == "actq" || flags.mode == "official";
  if (flags.impl == "engine" && reference_only) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "--mode {} is computed by --impl reference only; the engine has exact, nokvq "
                      "and fast",
                      flags.mode);
  }
  if (flags.impl == "reference" && flags.mode == "fast") {
    return base::fail(
        ErrorCode::kInvalidArgument,
        "--mode fast is the engine's; the reference has exact, nokvq, actq and official");
  }
  if (flags.impl == "reference" && flags.chunk) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "--chunk cuts the engine's prefill; the reference takes the prompt whole");
  }
  if (flags.replay) THIMBLE_TRY(base::in(engine::parse_replay(*flags.replay), "--replay"));
  if (flags.impl == "reference" && (flags.replay || flags.hit > 0)) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "--replay and --hit are about the engine's cache; the reference has none");
  }
  if (flags.chunk == 0) {
    return base::fail(ErrorCode::kInvalidArgument, "--chunk is 0, expected at least 1");
  }
  return check_range("--threads", flags.threads, 0, engine::kThreadsMax);
}

// Before minutes of work, not after.
Result<void> check_target(const Path& out) {
  std::error_code ignored;
  if (std::filesystem::is_directory(out, ignored)) {
    return base::fail(ErrorCode::kInvalidArgument, "--out {} is a directory", out.string());
  }
  const Path parent = out.has_parent_path() ? out.parent_path() : Path(".");
  if (std::filesystem::is_directory(parent, ignored)) return {};
  return base::fail(ErrorCode::kNotFound, "--out {}: {} is not a directory", out.string(),
                    parent.string());
}

void note_idle_decode_from(const LogitsFlags& flags, uint64_t tokens) {
  if (flags.decode_from.value_or(0) < tokens) return;
  fmt::print(stderr, "note: --decode-from {} has no effect: there are only {}\n",
             *flags.decode_from, base::counted(tokens, "token", "tokens"));
}

model::IndexKeys index_keys(const LogitsFlags& flags) {
  return flags.compat == "stale-index-keys" ? model::IndexKeys::kStale : model::IndexKeys::kOwn;
}

engine::Cuts cuts(const LogitsFlags& flags, uint64_t whole) {
  return {flags.chunk.value_or(whole), flags.decode_from.value_or(0)};
}

// The published slip happens on steps of one token only, so without one the flag does nothing.
void note_idle_compat(const LogitsFlags& flags, uint64_t tokens) {
  if (index_keys(flags) == model::IndexKeys::kOwn) return;
  const uint64_t whole = flags.impl == "engine" ? engine::Cuts{}.chunk : tokens;
  const auto steps = engine::step_lengths(tokens, cuts(flags, whole));
  if (std::ranges::find(steps, uint64_t{1}) != steps.end()) return;
  fmt::print(stderr,
             "note: --compat stale-index-keys changes steps of one token, and this run of {} has "
             "none; --decode-from P makes them\n",
             base::counted(tokens, "token", "tokens"));
}

Result<std::vector<float>> run_engine(const LogitsFlags& flags, const arch::Checkpoint& checkpoint,
                                      std::span<const int32_t> token_map,
                                      std::span<const int32_t> ids, model::Trace* trace) {
  model::ModelOptions options;
  options.mode = mode_of(flags.mode);
  options.index_keys = index_keys(flags);
  options.token_map = token_map;
  options.packing = engine::packing_here(checkpoint);
  const auto model = THIMBLE_TRY(model::Model::create(checkpoint, options));
  base::ThreadPool pool(flags.threads);
  const engine::Replay replay = engine::parse_replay(flags.replay.value_or("auto")).value();
  const engine::Resumption how{flags.hit, replay, cuts(flags, engine::Cuts{}.chunk)};
  return engine::run_resumed(*model, ids, how, pool, trace);
}

Result<std::vector<float>> run_reference(const LogitsFlags& flags,
                                         const arch::Checkpoint& checkpoint,
                                         std::span<const int32_t> token_map,
                                         std::span<const int32_t> ids, model::Trace* trace) {
  model::ReferenceOptions options;
  options.mode = flags.mode == "exact"   ? model::ReferenceMode::kExact
                 : flags.mode == "nokvq" ? model::ReferenceMode::kNokvq
                 : flags.mode == "actq"  ? model::ReferenceMode::kActq
                                         : model::ReferenceMode::kOfficial;
  options.index_keys = index_keys(flags);
  options.token_map = token_map;
  const auto reference = THIMBLE_TRY(model::Reference::create(checkpoint, options));
  std::vector<float> logits;
  base::Progress progress("reference", ids.size(), base::Progress::Unit::kCount);
  uint64_t done = 0;
  for (const uint64_t length : engine::step_lengths(ids.size(), cuts(flags, ids.size()))) {
    const auto rows = THIMBLE_TRY(reference->forward(ids.subspan(done, length), trace));
    logits.insert(logits.end(), rows.begin(), rows.end());
    done += length;
    progress.add(length);
  }
  return logits;
}

Result<int> run_logits(const LogitsFlags& flags) {
  THIMBLE_TRY(check_target(flags.out));
  const std::vector<int32_t> ids = THIMBLE_TRY(read_ids(flags.ids));
  const auto checkpoint = THIMBLE_TRY(arch::Checkpoint::open(flags.model));
  const auto tokenizer = THIMBLE_TRY(engine::open_tokenizer(checkpoint));
  const auto token_map = THIMBLE_TRY(engine::engram_map(checkpoint, tokenizer));
  if (flags.hit >= ids.size()) {
    return base::fail(
        ErrorCode::kInvalidArgument,
        "--hit {} leaves nothing to run: the prompt has {}, and a hit at most all but "
        "one",
        flags.hit, base::counted(ids.size(), "token", "tokens"));
  }
  note_idle_decode_from(flags, ids.size());
  note_idle_compat(flags, ids.size());
  DecisionRecorder recorder(checkpoint.config(), ids.size());
  const auto run = flags.impl == "engine" ? run_engine : run_reference;
  const auto logits = THIMBLE_TRY(run(flags, checkpoint, token_map, ids, &recorder));
  std::vector<arch::TensorToWrite> tensors = {{"logits",
                                               arch::DType::kF32,
                                               {ids.size(), checkpoint.config().vocab_size},
                                               std::as_bytes(std::span(logits))}};
  const auto decisions = recorder.tensors();
  tensors.insert(tensors.end(), decisions.begin(), decisions.end());
  THIMBLE_TRY(arch::write_safetensors(flags.out, tensors));
  fmt::print(stderr, "{} rows of logits and {} decision tables written to {}\n", ids.size(),
             decisions.size(), flags.out.string());
  return kExitDone;
}

}  // namespace

Command logits_command() {
  const auto flags = std::make_shared<LogitsFlags>();
  Command command;
  command.name = "logits";
  command.summary = "Run given token ids and write the logits of every position";
  command.details =
      "Teacher forcing, for comparison with other engines and with our own reference. Writes "
      "safetensors: logits F32 [N, vocab], and the decisions on the way: topk.L and "
      "expert_ids.layers.L I32, candidates.L U8 (absent where the model has no such layer). The "
      "rows do not depend on --chunk, --decode-from or --threads. With --hit H the first H tokens "
      "come from the cache, where a run of their own put them; their rows are that run's. Windows "
      "are then rebuilt as --replay says (docs/replay.md): exact computes all rows; bounded, and "
      "auto where little text follows the hit, compute those of the last window, and the others "
      "are NaN in logits and, in layers that did not run them, -1 in the I32 tables and 0 in the "
      "U8 ones.";
  command.examples = {
      {"thimble logits --model DIR --ids ids.txt --out out.safetensors", "the engine, exact"},
      {"thimble logits --model DIR --ids ids.txt --out out.safetensors --impl reference --mode "
       "actq",
       ""},
      {"thimble logits --model DIR --ids ids.txt --out out.safetensors --chunk 64 --decode-from "
       "100",
       "the same rows"},
      {"thimble logits --model DIR --ids ids.txt --out out.safetensors --hit 500 --replay bounded",
       "after a cache hit"},
  };
  command.describe = [flags](Options& options) {
    options.add("--model", flags->model, "model directory in the released layout", Need::kRequired);
    options.add("--ids", flags->ids, "file of whitespace-separated token ids", Need::kRequired);
    options.add("--out", flags->out, "safetensors file to write", Need::kRequired);
    options.choice("--mode", flags->mode, {"exact", "nokvq", "actq", "official", "fast"},
                   "numeric mode (docs/numerics.md)");
    options.choice("--impl", flags->impl, {"engine", "reference"},
                   "the float32 engine, or the double-precision reference");
    options.add("--chunk", flags->chunk, "prompt tokens a step (engine; 256 unless given)");
    options.add("--decode-from", flags->decode_from, "from this position on, one token a step");
    options.choice("--compat", flags->compat, {"none", "stale-index-keys"},
                   "stale-index-keys: score as the published decode loop does, "
                   "on steps of one token");
    options.add("--hit", flags->hit, "so many tokens come from the cache");
    options.add("--replay", flags->replay,
                "how windows are rebuilt after it: auto (unless given), exact or bounded");
    options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
  };
  command.check = [flags] { return check_flags(*flags); };
  command.run = [flags] { return run_logits(*flags); };
  return command;
}

}  // namespace thimble::app
