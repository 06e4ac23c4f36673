// The part of a request that all ways to generate share, and the refusals they share.
#pragma once

#include <array>
#include <span>

#include "server/internal/json.h"
#include "server/openai_types.h"

namespace thimble::server {

// OpenAI's newer name wins where a client sends both.
inline constexpr std::array<const char*, 2> kMaxTokensNames{"max_completion_tokens", "max_tokens"};

// All of GenerationFields but the answer's log-probabilities, whose spelling differs, as the names
// of the longest answer do.
ApiResult<GenerationFields> read_generation_fields(const Fields& fields,
                                                   std::span<const char* const> max_tokens_names);

// Fields that change answers everywhere and that thimble does not know how to honour.
ApiResult<void> refuse_unsupported(const Fields& fields);

// An array of token ids at `path`, each a non-negative 32-bit number.
ApiResult<std::vector<int32_t>> read_token_ids(const Json& array, const std::string& path);

// thinking, reasoning_effort and chat_template_kwargs, which may not contradict each other.
ApiResult<ReasoningFields> read_reasoning_fields(const Fields& fields);
// These, and reasoning.effort.
ApiResult<ReasoningFields> read_responses_reasoning(const Fields& fields);

}  // namespace thimble::server
