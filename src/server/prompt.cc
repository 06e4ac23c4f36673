#include "server/prompt.h"

#include <algorithm>

#include "base/random.h"

namespace thimble::server {
namespace {

tl::unexpected<ApiError> too_long(uint64_t context, uint64_t prompt, uint64_t answer) {
  ApiError error;
  error.message = fmt::format(
      "this model's context is {} tokens, but the prompt has {} and the answer may have {}: "
      "shorten the prompt or lower max_tokens",
      context, prompt, answer);
  error.param = "max_tokens";
  error.code = "context_length_exceeded";
  return tl::unexpected(std::move(error));
}

text::ReasoningEffort effort_of(const ReasoningFields& fields, const PromptDefaults& defaults) {
  text::ReasoningEffort effort;
  effort.thinking = fields.thinking.value_or(defaults.thinking);
  effort.budget = fields.budget.value_or(defaults.effort);
  return effort;
}

}  // namespace

ApiResult<Prompt> chat_prompt(const ChatRequest& request, const ModelInfo& model,
                              const PromptDefaults& defaults) {
  if (!model.chat_tokens) {
    ApiError error = api_error(model.chat_tokens.error());
    error.status = 400;
    error.message = fmt::format("model '{}' cannot chat, only complete text: {}", model.name,
                                model.chat_tokens.error().describe());
    error.code = "not_supported";
    return tl::unexpected(std::move(error));
  }
  const text::ChatOptions options{defaults.encoding, effort_of(request.reasoning, defaults),
                                  request.reasoning.past, request.ending};
  const auto rendered = text::render_chat(request.messages, options, *model.chat_tokens);
  if (!rendered) {
    ApiError error = api_error(rendered.error());
    error.param = "messages";
    return tl::unexpected(std::move(error));
  }
  Prompt prompt;
  prompt.ids = text::encode_prompt(*rendered, *model.tokenizer);
  prompt.starts_in_reasoning = rendered->opens_in_reasoning;
  prompt.think_close = model.chat_tokens->think_close;
  return prompt;
}

ApiResult<Prompt> completion_prompt(const CompletionRequest& request, const ModelInfo& model) {
  Prompt prompt;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    prompt.ids = *ids;
  } else {
    prompt.ids =
        model.tokenizer->encode(std::get<std::string>(request.prompt), text::AddedTokens::kMatch);
    const bool has_bos = !prompt.ids.empty() && model.bos == prompt.ids.front();
    if (model.bos && !has_bos) prompt.ids.insert(prompt.ids.begin(), *model.bos);
  }
  if (prompt.ids.empty()) return bad_field("prompt", "'prompt' has no tokens");
  return prompt;
}

ApiResult<engine::GenerationRequest> generation_request(const Prompt& prompt,
                                                        const GenerationFields& fields,
                                                        const ModelInfo& model,
                                                        const PromptDefaults& defaults) {
  const uint64_t used = prompt.ids.size();
  const uint64_t left = model.context_tokens > used ? model.context_tokens - used : 0;
  const uint64_t wanted = fields.max_tokens.value_or(1);
  if (wanted > left) return too_long(model.context_tokens, used, wanted);

  engine::GenerationRequest out;
  out.prompt = prompt.ids;
  out.sampling = fields.sampling;
  out.sampling.seed = fields.seed ? *fields.seed : base::entropy_u64();
  const uint64_t usual =
      prompt.starts_in_reasoning ? defaults.thinking_tokens : defaults.answer_tokens;
  out.max_tokens =
      fields.max_tokens ? *fields.max_tokens : static_cast<uint32_t>(std::min(usual, left));
  if (model.eos) {
    (fields.ignore_eos ? out.masked_tokens : out.stop_tokens).push_back(*model.eos);
  }
  out.top_logprobs = fields.top_logprobs;
  return out;
}

}  // namespace thimble::server
