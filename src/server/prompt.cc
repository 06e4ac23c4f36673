#include "server/prompt.h"

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"
#include "text/call_grammar.h"

namespace thimble::server {
namespace {

tl::unexpected<ApiError> too_long(std::string param, std::string message,
                                  const ContextNumbers& numbers) {
  return tl::unexpected(
      ApiError{400, std::move(message), std::move(param), "context_length_exceeded", {}, numbers});
}

// The prompt alone has to leave room for one token; else a shorter answer would not help.
ApiResult<void> check_length(const Prompt& prompt, const GenerationFields& fields,
                             uint64_t context) {
  const uint64_t used = prompt.ids.size();
  const ContextNumbers numbers{context, used, fields.max_tokens};
  if (used >= context) {
    return too_long(prompt.field,
                    fmt::format("this model's context is {} tokens, but the prompt has {} and "
                                "leaves no room for an answer: shorten '{}'",
                                context, used, prompt.field),
                    numbers);
  }
  if (!fields.max_tokens || *fields.max_tokens <= context - used) return {};
  return too_long(
      fields.max_tokens_name,
      fmt::format("this model's context is {} tokens, but the prompt has {} and the answer may "
                  "have {}: shorten the prompt or lower '{}'",
                  context, used, *fields.max_tokens, fields.max_tokens_name),
      numbers);
}

ApiResult<void> check_bias(const GenerationFields& fields, const ModelInfo& model) {
  for (const engine::LogitBias& bias : fields.sampling.logit_bias) {
    if (static_cast<uint32_t>(bias.token) < model.vocab_size) continue;
    return bad_field("logit_bias",
                     fmt::format("'logit_bias' names token {}, expected 0 to {} (the model's "
                                 "vocabulary)",
                                 bias.token, model.vocab_size - 1));
  }
  return {};
}

ApiResult<void> check_ids(const std::vector<int32_t>& ids, uint32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (static_cast<uint32_t>(ids[i]) < vocab_size) continue;
    return bad_field("prompt", fmt::format("token {} of 'prompt' is {}, expected 0 to {} (the "
                                           "model's vocabulary)",
                                           i, ids[i], vocab_size - 1));
  }
  return {};
}

text::ReasoningEffort effort_of(const ReasoningFields& fields, const PromptDefaults& defaults) {
  text::ReasoningEffort effort;
  effort.thinking = fields.thinking.value_or(defaults.thinking);
  effort.budget = fields.budget.value_or(defaults.effort);
  return effort;
}

// Sets what a demanded call changes: the turn begins with it, so there is no reasoning.
ApiResult<void> force_call(const ChatRequest& request, text::ChatOptions& options) {
  if (request.reasoning.thinking.value_or(false)) {
    return bad_field("tool_choice",
                     "'tool_choice' demands a call, which goes with reasoning off only; send "
                     "'auto', or turn reasoning off");
  }
  if (!options.ending.add_generation_prompt || options.ending.continue_final_message) {
    return bad_field("tool_choice", "'tool_choice' demands a call, which begins a turn of its own");
  }
  options.effort.thinking = false;
  options.ending.forced = text::ForcedCall{request.tools.choice.name};
  return {};
}

// The renderer names the message, or the field, that it cannot take; a client knows the former by
// its place in the request.
ApiError render_error(Error error, const ChatRequest& request) {
  std::string at = request.field;
  if (!error.steps.empty()) {
    std::string& step = error.steps.back();
    for (size_t i = 0; i < request.sources.size(); ++i) {
      if (step != fmt::format("messages[{}]", i)) continue;
      step = request.sources[i];
      break;
    }
    at = step;
  }
  ApiError out = api_error(error);
  out.param = std::move(at);
  return out;
}

ApiResult<text::ChatOptions> chat_options(const ChatRequest& request, const ModelInfo& model,
                                          const PromptDefaults& defaults) {
  text::ChatOptions options{.encoding = defaults.encoding,
                            .effort = effort_of(request.reasoning, defaults),
                            .past_reasoning = request.reasoning.past,
                            .ending = request.ending};
  options.texts = model.texts;
  if (request.common.format) options.answer_format = request.common.format->schema;
  const ToolChoice& choice = request.tools.choice;
  if (choice.kind == ToolChoice::Kind::kNone || request.tools.tools.empty()) return options;
  for (const text::Tool& tool : request.tools.tools) {
    if (choice.name.empty() || choice.name == tool.name) options.tools.push_back(tool);
  }
  if (choice.kind == ToolChoice::Kind::kRequired) THIMBLE_TRY(force_call(request, options));
  return options;
}

// A demanded call, or the form that was asked for; where tools are on offer, or any calls.
ApiResult<void> set_form(const ChatRequest& request, const text::ChatOptions& options,
                         Prompt& prompt) {
  if (request.tools.demanded) {
    if (prompt.forced.empty()) {
      return bad_field("tool_choice",
                       "'tool_choice' demands a call, which no turn begins after this message");
    }
    prompt.form = request.tools.demanded;
    prompt.form_field = "tool_choice";
  } else if (const auto& format = request.common.format) {
    prompt.form =
        options.tools.empty()
            ? format->grammar
            : std::make_shared<const text::Grammar>(text::answer_or_calls(*format->grammar));
    prompt.form_field = "response_format";
  }
  return {};
}

// Reasoning is free, but it may not end the answer, nor begin a call.
ApiResult<engine::AnswerForm> form_of(const Prompt& prompt, const ModelInfo& model) {
  if (!model.trie->spells_everything()) {
    return not_yet(prompt.form_field,
                   fmt::format("'{}' needs a tokenizer with a token for each byte, which this "
                               "model's is not",
                               prompt.form_field));
  }
  engine::AnswerForm form{std::make_shared<text::TokenMasker>(prompt.form, model.trie), {}, {}};
  if (!prompt.starts_in_reasoning) return form;
  form.begins_after = prompt.think_close;
  if (prompt.dsml) form.barred_before.push_back(*prompt.dsml);
  return form;
}

}  // namespace

ApiResult<Prompt> chat_prompt(const ChatRequest& request, const ModelInfo& model,
                              const PromptDefaults& defaults, TurnMemory& turns) {
  if (!model.chat_tokens) {
    ApiError error = api_error(model.chat_tokens.error());
    error.status = 400;
    error.param = "model";
    error.message = fmt::format("model '{}' cannot chat, only complete text: {}", model.name,
                                model.chat_tokens.error().describe());
    error.code = "not_supported";
    return tl::unexpected(std::move(error));
  }
  const text::ChatOptions options = THIMBLE_TRY(chat_options(request, model, defaults));
  const auto rendered = text::render_chat(request.messages, options, *model.chat_tokens);
  if (!rendered) return tl::unexpected(render_error(rendered.error(), request));
  Prompt prompt;
  prompt.field = request.field;
  ChatTokens encoded = encode_chat(*rendered, *model.tokenizer, *model.chat_tokens,
                                   request.common.cache_salt, &turns);
  prompt.snapshot_points =
      resume_points(*rendered, encoded, request.messages, options, *model.chat_tokens);
  prompt.ids = std::move(encoded.ids);
  prompt.open_turn = std::move(encoded.open);
  prompt.starts_in_reasoning = rendered->opens_in_reasoning;
  prompt.think_close = model.chat_tokens->think_close;
  prompt.dsml = model.chat_tokens->dsml;
  prompt.calls = options.tools.empty() ? engine::Calls::kDrop : engine::Calls::kReport;
  if (!request.tools.parallel) prompt.calls_max = 1;
  prompt.forced = rendered->forced;
  THIMBLE_TRY(set_form(request, options, prompt));
  return prompt;
}

ApiResult<Prompt> completion_prompt(const CompletionRequest& request, const ModelInfo& model) {
  Prompt prompt;
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
    THIMBLE_TRY(check_ids(*ids, model.vocab_size));
    prompt.ids = *ids;
  } else {
    prompt.ids =
        model.tokenizer->encode(std::get<std::string>(request.prompt), text::AddedTokens::kMatch);
    const bool has_bos = !prompt.ids.empty() && model.bos == prompt.ids.front();
    if (model.bos && !has_bos) prompt.ids.insert(prompt.ids.begin(), *model.bos);
  }
  if (prompt.ids.empty()) return bad_field("prompt", "'prompt' has no tokens");
  if (request.common.format) prompt.form = request.common.format->grammar;
  prompt.form_field = "response_format";
  return prompt;
}

ApiResult<engine::GenerationRequest> generation_request(const Prompt& prompt,
                                                        const GenerationFields& fields,
                                                        const ModelInfo& model,
                                                        const PromptDefaults& defaults) {
  THIMBLE_TRY(check_length(prompt, fields, model.context_tokens));
  THIMBLE_TRY(check_bias(fields, model));
  const uint64_t left = model.context_tokens - prompt.ids.size();
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
  if (prompt.form) out.form = THIMBLE_TRY(form_of(prompt, model));
  out.top_logprobs = fields.top_logprobs;
  out.prompt_logprobs = fields.prompt_logprobs;
  out.replay = fields.replay.value_or(defaults.replay);
  out.priority = fields.priority;
  if (fields.deadline_ms) out.deadline_us = base::monotonic_us() + *fields.deadline_ms * 1000LL;
  out.cache_salt = fields.cache_salt;
  out.reuse = fields.reuse;
  out.snapshot_points = prompt.snapshot_points;
  return out;
}

std::vector<engine::GenerationRequest> choices_of(engine::GenerationRequest request,
                                                  uint32_t choices) {
  std::vector<engine::GenerationRequest> out = {std::move(request)};
  base::SplitMix64 seeds(out.front().sampling.seed);
  while (out.size() < choices) {
    engine::GenerationRequest next = out.front();
    next.sampling.seed = seeds.next();
    next.prompt_logprobs.reset();  // the first one's are everybody's
    out.push_back(std::move(next));
  }
  return out;
}

}  // namespace thimble::server
