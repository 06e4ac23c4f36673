// The part of a request that chat and plain completions share, and the refusals they share.
#pragma once

#include "server/internal/json.h"
#include "server/openai_types.h"

namespace thimble::server {

// All of GenerationFields but the answer's log-probabilities, whose spelling differs.
ApiResult<GenerationFields> read_generation_fields(const Fields& fields);

// Fields that change answers everywhere and that thimble does not know how to honour.
ApiResult<void> refuse_unsupported(const Fields& fields);

// An array of token ids at `path`, each a non-negative 32-bit number.
ApiResult<std::vector<int32_t>> read_token_ids(const Json& array, const std::string& path);

// thinking, reasoning_effort and chat_template_kwargs, which may not contradict each other.
ApiResult<ReasoningFields> read_reasoning_fields(const Fields& fields);

}  // namespace thimble::server
