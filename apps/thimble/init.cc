#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "apps/thimble/commands.h"
#include "arch/presets.h"
#include "arch/random_weights.h"
#include "base/bytes.h"
#include "base/terminal.h"
#include "text/byte_tokenizer.h"
#include "text/encoding_texts.h"
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

// What is to be written, decided before anything is.
struct Recipe {
  arch::Config config;
  std::string tokenizer_json;      // empty: the vocabulary has no room for one
  std::vector<std::string> notes;  // what the user did not ask for
};

// Classes that Engram will hash the tokenizer's ids by.
Result<uint32_t> count_classes(const std::string& tokenizer_json) {
  const auto tokenizer = THIMBLE_TRY(text::Tokenizer::parse(tokenizer_json));
  const auto map = THIMBLE_TRY(text::build_token_map(tokenizer));
  return static_cast<uint32_t>(map.class_count);
}

// A vocabulary below the tokenizer's: the model gets none, unless Engram cannot hash without.
Result<void> go_without_tokenizer(const std::string& preset, Recipe& recipe) {
  const uint32_t vocab_size = recipe.config.vocab_size;
  const int32_t needed = text::byte_tokenizer_size();
  if (!recipe.config.engram.layer_ids.empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "{}: vocab_size is {}; with engram_layer_ids it must be at least {}, because "
                "Engram hashes by the tokenizer (256 bytes and the control tokens)",
                preset, vocab_size, needed);
  }
  recipe.notes.push_back(
      fmt::format("no tokenizer: vocab_size is {}, and 256 bytes with the control tokens need {}; "
                  "`thimble logits` runs this model, text does not reach it",
                  vocab_size, needed));
  return {};
}

Result<Recipe> make_recipe(const std::string& preset) {
  Recipe recipe;
  arch::Config& config = recipe.config;
  if (preset == "nano") {
    recipe.tokenizer_json = text::make_byte_tokenizer_json();
    const uint32_t classes = THIMBLE_TRY(count_classes(recipe.tokenizer_json));
    config = arch::nano_config(static_cast<uint32_t>(text::byte_tokenizer_size()), classes);
    return recipe;
  }
  config = THIMBLE_TRY(arch::load_config(preset));
  const auto vocab_size = static_cast<int32_t>(config.vocab_size);
  if (vocab_size < text::byte_tokenizer_size()) {
    THIMBLE_TRY(go_without_tokenizer(preset, recipe));
    return recipe;
  }
  recipe.tokenizer_json = text::make_byte_tokenizer_json(vocab_size);
  if (config.engram.layer_ids.empty()) return recipe;
  const uint32_t classes = THIMBLE_TRY(count_classes(recipe.tokenizer_json));
  uint32_t& said = config.engram.compressed_vocab_size;
  if (said != classes) {
    recipe.notes.push_back(
        fmt::format("engram_compressed_vocab_size is {} here, not {}: as many classes of tokens as "
                    "the tokenizer has",
                    classes, said));
  }
  said = classes;
  return recipe;
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
         name == "model.safetensors.index.json" || name == "encoding" ||
         name.ends_with(".safetensors");
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

Result<void> write_model(const Path& directory, const Recipe& recipe, uint64_t seed) {
  base::Progress bar("writing", arch::totals(arch::expected_tensors(recipe.config)).bytes,
                     base::Progress::Unit::kBytes);
  THIMBLE_TRY(arch::write_random_checkpoint(recipe.config, directory, seed,
                                            [&](uint64_t bytes) { bar.add(bytes); }));
  if (recipe.tokenizer_json.empty()) return {};
  THIMBLE_TRY(base::write_file_atomic(directory / "tokenizer.json", recipe.tokenizer_json));
  THIMBLE_TRY(base::write_file_atomic(directory / "tokenizer_config.json", kTokenizerConfig));
  return text::write_encoding_texts(directory, text::own_encoding_texts());
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
  const Recipe recipe = THIMBLE_TRY(make_recipe(flags.preset));
  THIMBLE_TRY(check_target(flags.out, flags.force));
  NewDirectory directory(flags.out);
  THIMBLE_TRY(directory.create());
  THIMBLE_TRY(check_space(directory.path(), recipe.config));
  THIMBLE_TRY(write_model(directory.path(), recipe, flags.seed));
  THIMBLE_TRY(directory.commit());
  const auto sum = arch::totals(arch::expected_tensors(recipe.config));
  fmt::print(stderr, "{}: {}, {}; random weights from seed {}, so its words are noise\n",
             flags.out.string(), base::counted(sum.tensors, "tensor", "tensors"),
             base::human_bytes(sum.bytes), flags.seed);
  for (const std::string& note : recipe.notes) {
    fmt::print(stderr, "{}: {}\n", flags.out.string(), note);
  }
  return kExitDone;
}

}  // namespace

Command init_command() {
  auto flags = std::make_shared<InitFlags>();
  return {
      .name = "init",
      .summary = "Make a model with random weights in the released layout",
      .details =
          "Writes config.json, safetensors, a tokenizer of 256 bytes and the control tokens, and "
          "the texts that introduce tools. "
          "The same preset and seed give the same bytes everywhere. Useful to try every command "
          "without a download, and as a start for training; its words are noise. "
          "Of a config.json every dimension is kept. Ids beyond the tokenizer's become place "
          "holders that are never sampled; with a vocab_size below it the model gets no tokenizer, "
          "or is refused where it has Engram layers. engram_compressed_vocab_size becomes what the "
          "tokenizer has. What differs from the file is said.",
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
