#include <fmt/format.h>
#include <unistd.h>

#include <memory>

#include "apps/thimble/commands.h"
#include "arch/presets.h"
#include "arch/random_weights.h"
#include "base/bytes.h"
#include "base/terminal.h"
#include "text/byte_tokenizer.h"
#include "text/token_map.h"
#include "text/tokenizer.h"

namespace thimble::app {
namespace {

struct InitFlags {
  std::string preset;
  Path out;
  uint64_t seed = 1;
  bool force = false;
};

// The tokenizer every made model gets, and what its model must know of it.
struct MadeTokenizer {
  std::string json;
  uint32_t size = 0;
  uint32_t classes = 0;
};

Result<MadeTokenizer> make_tokenizer() {
  MadeTokenizer made;
  made.json = text::make_byte_tokenizer_json();
  const auto tokenizer = THIMBLE_TRY(text::Tokenizer::parse(made.json));
  made.size = tokenizer.size();
  const auto map = THIMBLE_TRY(text::build_token_map(tokenizer));
  made.classes = static_cast<uint32_t>(map.class_count);
  return made;
}

Result<arch::Config> choose_config(const std::string& preset, const MadeTokenizer& tokenizer) {
  if (preset == "nano") return arch::nano_config(tokenizer.size, tokenizer.classes);
  arch::Config config = THIMBLE_TRY(arch::load_config(preset));
  if (config.vocab_size < tokenizer.size) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: vocab_size is {}; the tokenizer of a made model (256 bytes and the control "
                "tokens) has {} ids",
                preset, config.vocab_size, tokenizer.size);
  }
  const bool engram = !config.engram.layer_ids.empty();
  if (engram && config.engram.compressed_vocab_size != tokenizer.classes) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: engram_compressed_vocab_size is {}; the tokenizer of a made model has {} "
                "classes of tokens",
                preset, config.engram.compressed_vocab_size, tokenizer.classes);
  }
  return config;
}

constexpr std::string_view kTokenizerConfig = R"({
  "bos_token": "<｜begin▁of▁sentence｜>",
  "eos_token": "<｜end▁of▁sentence｜>",
  "pad_token": "<｜▁pad▁｜>",
  "add_bos_token": false,
  "add_eos_token": false,
  "clean_up_tokenization_spaces": false,
  "model_max_length": 65536,
  "tokenizer_class": "PreTrainedTokenizerFast"
}
)";

bool is_model_file(const std::string& name) {
  return name == "config.json" || name == "tokenizer.json" || name == "tokenizer_config.json" ||
         name == "model.safetensors.index.json" || name.ends_with(".safetensors");
}

// May `out` be replaced? Only where it is empty, or holds nothing but a model and --force was said.
Result<void> check_target(const Path& out, bool force) {
  std::error_code error;
  if (!std::filesystem::exists(out, error)) return {};
  if (!std::filesystem::is_directory(out, error)) {
    return fail(ErrorCode::kInvalidArgument, "{} exists and is no directory", out.string());
  }
  for (const auto& entry : std::filesystem::directory_iterator(out, error)) {
    const std::string name = entry.path().filename().string();
    if (!force) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} is not empty (it has {}); --force replaces a model", out.string(), name);
    }
    if (!is_model_file(name)) {
      return fail(ErrorCode::kInvalidArgument,
                  "{} holds {}, which is no model file; it is not replaced", out.string(), name);
    }
  }
  if (error) return fail(ErrorCode::kIo, "cannot list {}: {}", out.string(), error.message());
  return {};
}

// A sibling of the target that takes its place on commit() and is removed otherwise, so that no
// half-made model is ever found under the name that was asked for.
class NewDirectory {
 public:
  explicit NewDirectory(const Path& target) : target_(std::filesystem::absolute(target)) {
    if (!target_.has_filename()) target_ = target_.parent_path();
    path_ = target_;
    path_ += fmt::format(".{}.new", ::getpid());
  }
  ~NewDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  const Path& path() const { return path_; }

  Result<void> create() {
    std::error_code error;
    std::filesystem::create_directories(path_, error);
    if (error) return fail(ErrorCode::kIo, "cannot create {}: {}", path_.string(), error.message());
    return {};
  }

  Result<void> commit() {
    std::error_code error;
    Path old = target_;
    old += fmt::format(".{}.old", ::getpid());
    const bool replaces = std::filesystem::exists(target_, error);
    if (replaces) std::filesystem::rename(target_, old, error);
    if (!error) std::filesystem::rename(path_, target_, error);
    if (error) {
      return fail(ErrorCode::kIo, "cannot move the model to {}: {}", target_.string(),
                  error.message());
    }
    if (replaces) std::filesystem::remove_all(old, error);
    return {};
  }

 private:
  Path target_;
  Path path_;
};

Result<void> write_model(const Path& directory, const arch::Config& config,
                         const MadeTokenizer& tokenizer, uint64_t seed) {
  base::Progress bar("writing", arch::totals(arch::expected_tensors(config)).bytes,
                     base::Progress::Unit::kBytes);
  THIMBLE_TRY(arch::write_random_checkpoint(config, directory, seed,
                                            [&](uint64_t bytes) { bar.add(bytes); }));
  THIMBLE_TRY(base::write_file_atomic(directory / "tokenizer.json", tokenizer.json));
  return base::write_file_atomic(directory / "tokenizer_config.json", kTokenizerConfig);
}

// Room for the tensors, before the first is written.
Result<void> check_space(const Path& directory, const arch::Config& config) {
  std::error_code error;
  const auto space = std::filesystem::space(directory, error);
  const uint64_t bytes = arch::totals(arch::expected_tensors(config)).bytes;
  if (error || space.available >= bytes) return {};
  return fail(ErrorCode::kResourceExhausted, "the model takes {}, but {} has {} free",
              base::human_bytes(bytes), directory.string(), base::human_bytes(space.available));
}

Result<int> run_init(const InitFlags& flags) {
  const MadeTokenizer tokenizer = THIMBLE_TRY(make_tokenizer());
  const arch::Config config = THIMBLE_TRY(choose_config(flags.preset, tokenizer));
  THIMBLE_TRY(check_target(flags.out, flags.force));
  NewDirectory directory(flags.out);
  THIMBLE_TRY(directory.create());
  THIMBLE_TRY(check_space(directory.path(), config));
  THIMBLE_TRY(write_model(directory.path(), config, tokenizer, flags.seed));
  THIMBLE_TRY(directory.commit());
  const auto sum = arch::totals(arch::expected_tensors(config));
  fmt::print(stderr, "{}: {} tensors, {}; random weights from seed {}, so its words are noise\n",
             flags.out.string(), sum.tensors, base::human_bytes(sum.bytes), flags.seed);
  return kExitDone;
}

}  // namespace

Command init_command() {
  auto flags = std::make_shared<InitFlags>();
  return {
      .name = "init",
      .summary = "Make a model with random weights in the released layout",
      .details =
          "Writes config.json, safetensors and a tokenizer of 256 bytes and the control tokens. "
          "The same preset and seed give the same bytes everywhere. Useful to try every command "
          "without a download, and as a start for training; its words are noise.",
      .examples = {{"thimble init --preset nano --out models/nano", "a complete text model"},
                   {"thimble init --preset config.json --out models/x --seed 7", ""}},
      .describe =
          [flags](Options& options) {
            options.add("--preset", flags->preset, "`nano`, or the path of a config.json",
                        Need::kRequired);
            options.add("--out", flags->out, "directory to make", Need::kRequired);
            options.add("--seed", flags->seed, "where the random numbers start");
            options.flag("--force", flags->force, "replace a model that is already there");
          },
      .run = [flags] { return run_init(*flags); }};
}

}  // namespace thimble::app
