#include "server/openai_types.h"

#include "server/internal/content.h"
#include "server/internal/format_fields.h"
#include "server/internal/generation_fields.h"
#include "server/internal/json.h"
#include "server/internal/tool_fields.h"

namespace thimble::server {
namespace {

ApiResult<text::Role> read_role(const Fields& message) {
  const std::string path = message.path_of("role");
  const auto name = THIMBLE_TRY(message.string("role"));
  if (!name) return bad_field(path, fmt::format("'{}' is missing", path));
  if (*name == "function") {
    return not_yet(path, fmt::format("'{}': 'function' is not supported; send 'tool'", path));
  }
  const auto role = text::parse_role(*name);
  if (!role) return bad_field(path, fmt::format("'{}': {}", path, role.error().describe()));
  return *role;
}

ApiResult<text::ChatMessage> read_message(const Fields& fields) {
  text::ChatMessage message;
  message.role = THIMBLE_TRY(read_role(fields));
  // vLLM's newer name for the same thing is accepted too.
  auto reasoning = THIMBLE_TRY(fields.string("reasoning_content"));
  if (!reasoning) reasoning = THIMBLE_TRY(fields.string("reasoning"));
  const bool assistant = message.role == text::Role::kAssistant;
  if (assistant) {
    message.reasoning = reasoning.value_or("");
    message.calls = THIMBLE_TRY(read_tool_calls(fields));
  } else if (message.role == text::Role::kTool) {
    message.call_id = THIMBLE_TRY(fields.string("tool_call_id")).value_or("");
  }
  if (const Json* content = fields.find("content")) {
    message.content =
        THIMBLE_TRY(read_content(*content, fields.path_of("content"), PartNames::kChat));
  } else if (!assistant || (!reasoning && message.calls.empty())) {
    return bad_field(fields.path_of("content"),
                     fmt::format("'{}' is missing", fields.path_of("content")));
  }
  return message;
}

ApiResult<std::vector<text::ChatMessage>> read_messages(const Fields& fields) {
  const Json* list = THIMBLE_TRY(fields.array("messages"));
  if (list == nullptr || list->empty()) {
    return bad_field("messages", "'messages' must have at least one message");
  }
  std::vector<text::ChatMessage> messages;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = indexed("messages", i);
    if (!(*list)[i].is_object()) {
      return bad_field(path,
                       fmt::format("'{}' must be an object, not {}", path, type_name((*list)[i])));
    }
    messages.push_back(THIMBLE_TRY(read_message(Fields((*list)[i], path))));
  }
  return messages;
}

ApiResult<void> refuse_modalities(const Fields& fields) {
  const Json* modalities = THIMBLE_TRY(fields.array("modalities"));
  if (modalities == nullptr || *modalities == Json::array({"text"})) return {};
  return not_yet("modalities", "only ['text'] is supported");
}

ApiResult<std::optional<uint32_t>> read_chat_logprobs(const Fields& fields) {
  const bool wanted = THIMBLE_TRY(fields.boolean("logprobs")).value_or(false);
  const auto top = THIMBLE_TRY(fields.integer("top_logprobs", 0, kChatTopLogprobsMax));
  if (top && *top > 0 && !wanted) {
    return bad_field("top_logprobs", "'top_logprobs' needs 'logprobs': true");
  }
  if (!wanted) return std::nullopt;
  return static_cast<uint32_t>(top.value_or(0));
}

struct Continue {
  std::optional<bool> asked;
  std::string by;  // the field
};

// `prefix: true` on the last message is DeepSeek's spelling of continue_final_message.
ApiResult<Continue> read_continue(const Fields& fields) {
  const auto asked = THIMBLE_TRY(fields.boolean("continue_final_message"));
  const Json& list = *fields.find("messages");
  const Fields last(list.back(), indexed("messages", list.size() - 1));
  const auto prefix = THIMBLE_TRY(last.boolean("prefix"));
  if (prefix.value_or(false) && !asked) return Continue{prefix, last.path_of("prefix")};
  return Continue{asked, "continue_final_message"};
}

ApiResult<text::PromptEnding> read_ending(const Fields& fields,
                                          const std::vector<text::ChatMessage>& messages) {
  const auto open = THIMBLE_TRY(fields.boolean("add_generation_prompt"));
  const auto resume = THIMBLE_TRY(read_continue(fields));
  const auto ending = text::make_prompt_ending(open, resume.asked);
  if (!ending) return bad_field(resume.by, ending.error().describe());
  if (resume.asked.value_or(false) && messages.back().role != text::Role::kAssistant) {
    return bad_field(resume.by,
                     fmt::format("'{}' needs a last message from the assistant", resume.by));
  }
  return *ending;
}

// `body`: what `fields` were parsed from.
ApiResult<ChatRequest> read_chat_request(const Fields& fields, std::string_view body) {
  ChatRequest out;
  out.common = THIMBLE_TRY(read_generation_fields(fields, kMaxTokensNames));
  THIMBLE_TRY(refuse_unsupported(fields));
  THIMBLE_TRY(refuse_modalities(fields));
  out.common.format =
      THIMBLE_TRY(read_answer_format(fields, "response_format", body, FormatShape::kNested));
  out.tools = THIMBLE_TRY(read_tool_fields(fields, body, ToolShape::kNested));
  out.common.top_logprobs = THIMBLE_TRY(read_chat_logprobs(fields));
  out.messages = THIMBLE_TRY(read_messages(fields));
  out.reasoning = THIMBLE_TRY(read_reasoning_fields(fields));
  out.ending = THIMBLE_TRY(read_ending(fields, out.messages));
  THIMBLE_TRY(check_answer_format(out, "response_format"));
  return out;
}

// Text, ids, or a list of one of these.
ApiResult<std::variant<std::string, std::vector<int32_t>>> read_prompt(const Json& prompt,
                                                                       const std::string& path) {
  if (prompt.is_string()) return prompt.get<std::string>();
  if (!prompt.is_array()) {
    return bad_field(path, fmt::format("'{}' must be a string or an array of token ids, not {}",
                                       path, type_name(prompt)));
  }
  if (prompt.empty()) return bad_field(path, fmt::format("'{}' has no tokens", path));
  if (prompt[0].is_number()) return THIMBLE_TRY(read_token_ids(prompt, path));
  if (prompt.size() > 1) {
    return not_yet(path, fmt::format("'{}' holds {} prompts; only one at a time is supported", path,
                                     prompt.size()));
  }
  if (path != "prompt") return bad_field(path, fmt::format("'{}' nests too deep", path));
  return read_prompt(prompt[0], indexed(path, 0));
}

ApiResult<void> refuse_completion_fields(const Fields& fields) {
  if (THIMBLE_TRY(fields.boolean("echo")).value_or(false)) {
    return not_yet("echo", "'echo' is not supported yet");
  }
  const auto suffix = THIMBLE_TRY(fields.string("suffix"));
  if (!suffix.value_or("").empty()) return not_yet("suffix", "'suffix' is not supported yet");
  const auto best = THIMBLE_TRY(fields.integer("best_of", 0, 1 << 20));
  if (best.value_or(1) != 1) return not_yet("best_of", "'best_of' above 1 is not supported yet");
  return {};
}

}  // namespace

ApiResult<ChatRequest> parse_chat_request(std::string_view body) {
  const Json object = THIMBLE_TRY(parse_object(body));
  return read_chat_request(Fields(object, ""), body);
}

ApiResult<CompletionRequest> parse_completion_request(std::string_view body) {
  const Json object = THIMBLE_TRY(parse_object(body));
  const Fields fields(object, "");
  CompletionRequest out;
  out.common = THIMBLE_TRY(read_generation_fields(fields, kMaxTokensNames));
  THIMBLE_TRY(refuse_unsupported(fields));
  THIMBLE_TRY(refuse_completion_fields(fields));
  out.common.format =
      THIMBLE_TRY(read_answer_format(fields, "response_format", body, FormatShape::kNested));
  THIMBLE_TRY(check_format_ends(out.common));
  if (const auto n = THIMBLE_TRY(fields.integer("logprobs", 0, kCompletionLogprobsMax))) {
    out.common.top_logprobs = static_cast<uint32_t>(*n);
  }
  const Json* prompt = fields.find("prompt");
  if (prompt == nullptr) return bad_field("prompt", "'prompt' is missing");
  out.prompt = THIMBLE_TRY(read_prompt(*prompt, "prompt"));
  return out;
}

ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body) {
  const Json object = THIMBLE_TRY(parse_object(body));
  const Fields fields(object, "");
  TokenizeRequest out;
  out.with_strings = THIMBLE_TRY(fields.boolean("return_token_strs")).value_or(false);
  out.with_pieces = THIMBLE_TRY(fields.boolean("with_pieces")).value_or(false);
  if (fields.find("messages") != nullptr) {
    out.chat = THIMBLE_TRY(read_chat_request(fields, body));
    return out;
  }
  // llama.cpp's name, then vLLM's.
  auto content = THIMBLE_TRY(fields.string("content"));
  if (!content) content = THIMBLE_TRY(fields.string("prompt"));
  if (!content) return bad_field("content", "'content' (or 'prompt', or 'messages') is missing");
  out.text = std::move(*content);
  auto special = THIMBLE_TRY(fields.boolean("add_special"));
  if (!special) special = THIMBLE_TRY(fields.boolean("add_special_tokens"));
  out.add_special = special.value_or(false);
  const bool match = THIMBLE_TRY(fields.boolean("parse_special")).value_or(true);
  out.added = match ? text::AddedTokens::kMatch : text::AddedTokens::kPlain;
  return out;
}

ApiResult<std::vector<int32_t>> parse_detokenize_request(std::string_view body) {
  const Json object = THIMBLE_TRY(parse_object(body));
  const Fields fields(object, "");
  const Json* tokens = THIMBLE_TRY(fields.array("tokens"));
  if (tokens == nullptr) return bad_field("tokens", "'tokens' is missing");
  return read_token_ids(*tokens, "tokens");
}

}  // namespace thimble::server
