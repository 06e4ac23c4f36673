// Log-probabilities as OpenAI spells them, one shape for chat and another for plain completions,
// and those of prompts, which are vLLM's.
#pragma once

#include <vector>

#include "server/internal/json.h"
#include "server/openai_answers.h"

namespace thimble::server {

// {"content": [...], "reasoning_content": [...]}; the second only if there is reasoning, as
// DeepSeek's API has it. Half characters appear as U+FFFD in `token` and exactly in `bytes`.
OrderedJson chat_logprobs(const std::vector<TokenRecord>& records,
                          const text::Tokenizer& tokenizer);

// {"tokens", "token_logprobs", "top_logprobs", "text_offset"}; half characters as "bytes:\xe4".
OrderedJson completion_logprobs(const std::vector<TokenRecord>& records,
                                const text::Tokenizer& tokenizer);

// vLLM's shape: null for the first token, then {"ID": {"logprob", "rank", "decoded_token"}, ...}
// for each, the prompt's own token first.
OrderedJson prompt_logprobs_json(const std::vector<engine::PromptToken>& tokens,
                                 const text::Tokenizer& tokenizer);

}  // namespace thimble::server
