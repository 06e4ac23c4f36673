#include "engine/model_files.h"

#include <filesystem>

#include "base/available_memory.h"
#include "text/token_map.h"

namespace thimble::engine {
namespace {

constexpr const char* kTokenizerFile = "tokenizer.json";

}  // namespace

Result<std::optional<text::Tokenizer>> open_tokenizer(const arch::Checkpoint& checkpoint) {
  const Path file = checkpoint.directory() / kTokenizerFile;
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  auto tokenizer = THIMBLE_TRY(text::Tokenizer::open(file));
  if (tokenizer.size() > checkpoint.config().vocab_size) {
    return base::fail(ErrorCode::kCorrupt, "{} has {} ids, the model's vocab_size is {}",
                      file.string(), tokenizer.size(), checkpoint.config().vocab_size);
  }
  return tokenizer;
}

Result<std::vector<int32_t>> engram_map(const arch::Checkpoint& checkpoint,
                                        const std::optional<text::Tokenizer>& tokenizer) {
  if (checkpoint.config().engram.layer_ids.empty()) return std::vector<int32_t>();
  if (!tokenizer) {
    return base::fail(ErrorCode::kNotFound,
                      "{} has no {}, which the Engram layers' hash needs: it is made of the "
                      "tokens' texts",
                      checkpoint.directory().string(), kTokenizerFile);
  }
  return THIMBLE_TRY(text::build_token_map(*tokenizer)).class_of;
}

model::Packing packing_of(const planner::PackingPlan& plan) {
  if (plan.experts_bytes > 0) return model::Packing::kAll;
  return plan.dense_bytes > 0 ? model::Packing::kDense : model::Packing::kNone;
}

model::ModelOptions model_options_of(const planner::StartupPlan& plan, model::Mode mode,
                                     std::span<const int32_t> token_map) {
  model::ModelOptions options;
  options.mode = mode;
  options.packing = packing_of(plan.packing);
  options.read_ahead = plan.exceeds_memory();
  options.token_map = token_map;
  return options;
}

model::Packing packing_here(const arch::Checkpoint& checkpoint) {
  return packing_of(planner::plan_packing(checkpoint.config(), base::available_memory().bytes));
}

}  // namespace thimble::engine
