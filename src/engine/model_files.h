// What a model directory holds beside its weights: the tokenizer, what Engram needs of it, and how
// weights are laid out here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "arch/checkpoint.h"
#include "base/result.h"
#include "model/forward.h"
#include "planner/startup_plan.h"
#include "text/tokenizer.h"

namespace thimble::engine {

// Empty when the directory has no tokenizer.json. Refuses one with more ids than the vocabulary.
Result<std::optional<text::Tokenizer>> open_tokenizer(const arch::Checkpoint& checkpoint);

// Compressed ids for Engram, [vocab_size]; empty when the model has none. kNotFound without a
// tokenizer.
Result<std::vector<int32_t>> engram_map(const arch::Checkpoint& checkpoint,
                                        const std::optional<text::Tokenizer>& tokenizer);

// What a plan of packed weights is called to the model.
model::Packing packing_of(const planner::PackingPlan& plan);
// How a model is made where this was planned. Views `token_map`.
model::ModelOptions model_options_of(const planner::StartupPlan& plan, model::Mode mode,
                                     std::span<const int32_t> token_map);
// Of packing alone, where nothing else was planned: what this machine's memory allows.
model::Packing packing_here(const arch::Checkpoint& checkpoint);

}  // namespace thimble::engine
