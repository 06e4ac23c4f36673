#include "server/internal/response_request.h"

#include <array>

#include "server/internal/format_fields.h"
#include "server/internal/generation_fields.h"
#include "server/internal/response_items.h"
#include "server/internal/spelled.h"
#include "server/internal/tool_fields.h"

namespace thimble::server {
namespace {

constexpr std::array<const char*, 1> kMaxOutputTokens{"max_output_tokens"};
constexpr size_t kMetadataMax = 16;
constexpr size_t kMetadataKeyBytesMax = 64;
constexpr size_t kMetadataValueBytesMax = 512;

ApiResult<void> refuse_stored(const Fields& fields) {
  for (const char* name : {"previous_response_id", "conversation", "prompt"}) {
    if (fields.find(name) == nullptr) continue;
    return not_yet(name, fmt::format("'{}': responses are not stored here; send the whole "
                                     "conversation in 'input'",
                                     name));
  }
  if (THIMBLE_TRY(fields.boolean("background")).value_or(false)) {
    return not_yet("background",
                   "'background': responses are not stored here, so none can be "
                   "fetched later");
  }
  THIMBLE_TRY(fields.boolean("store"));
  return {};
}

// What would change the answer. Hints that cannot (service_tier, prompt_cache_key, ...) pass as
// unknown fields do.
ApiResult<void> refuse_responses_fields(const Fields& fields) {
  THIMBLE_TRY(refuse_stored(fields));
  const auto truncation = THIMBLE_TRY(fields.string("truncation")).value_or("disabled");
  if (truncation == "auto") {
    return not_yet("truncation", "'truncation' 'auto' is not supported: no item is left out");
  }
  if (truncation != "disabled") {
    return bad_field("truncation", "'truncation' must be 'auto' or 'disabled'");
  }
  if (THIMBLE_TRY(fields.integer("top_logprobs", 0, kChatTopLogprobsMax)).value_or(0) > 0) {
    return not_yet("top_logprobs", "'top_logprobs' is not supported by this route yet");
  }
  return {};
}

// Parts of answers that are extra. Those of items that no answer of ours has change nothing, and
// reasoning is never encrypted: it comes as it is.
ApiResult<void> check_include(const Fields& fields) {
  const Json* list = THIMBLE_TRY(fields.array("include"));
  if (list == nullptr) return {};
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = indexed("include", i);
    if (!(*list)[i].is_string()) {
      return bad_field(path, fmt::format("'{}' must be a string", path));
    }
    if ((*list)[i] != "message.output_text.logprobs") continue;
    return not_yet(
        path, fmt::format("'{}': log-probabilities are not supported by this route yet", path));
  }
  return {};
}

// OpenAI's limits.
ApiResult<void> check_metadata(const Fields& fields) {
  const auto metadata = THIMBLE_TRY(fields.object("metadata"));
  if (!metadata) return {};
  const Json& object = *fields.find("metadata");
  if (object.size() > kMetadataMax) {
    return bad_field("metadata", fmt::format("'metadata' has {} values, at most {} are allowed",
                                             object.size(), kMetadataMax));
  }
  for (const auto& [key, value] : object.items()) {
    const bool fits = key.size() <= kMetadataKeyBytesMax && value.is_string() &&
                      value.get_ref<const std::string&>().size() <= kMetadataValueBytesMax;
    if (fits) continue;
    return bad_field("metadata", fmt::format("'metadata' must have keys of at most {} bytes, and "
                                             "strings of at most {} bytes for values",
                                             kMetadataKeyBytesMax, kMetadataValueBytesMax));
  }
  return {};
}

ApiResult<GenerationFields> read_common(const Fields& fields) {
  GenerationFields out = THIMBLE_TRY(read_generation_fields(fields, kMaxOutputTokens));
  THIMBLE_TRY(refuse_unsupported(fields));
  if (out.choices > 1) return not_yet("n", "'n': a response is one answer");
  if (out.prompt_logprobs) {
    return not_yet("prompt_logprobs", "'prompt_logprobs' are not supported by this route");
  }
  return out;
}

ApiResult<std::optional<AnswerFormat>> read_format(const Fields& fields, std::string_view body) {
  const auto text = THIMBLE_TRY(fields.object("text"));
  if (!text) return std::nullopt;
  return read_answer_format(*text, "format", spelled(body, "text"), FormatShape::kFlat);
}

// As it was sent, or else.
OrderedJson sent(const Fields& fields, const char* name, OrderedJson otherwise) {
  const Json* value = fields.find(name);
  return value == nullptr ? std::move(otherwise) : OrderedJson(*value);
}

OrderedJson sent_in(const Fields& fields, const char* object, const char* name) {
  const Json* holder = fields.find(object);
  return holder == nullptr ? OrderedJson() : OrderedJson(holder->value(name, Json()));
}

OrderedJson format_of(const Fields& fields) {
  OrderedJson format = sent_in(fields, "text", "format");
  return format.is_null() ? OrderedJson{{"type", "text"}} : format;
}

// REQUIRES: the fields were found to be in order.
OrderedJson echo_of(const Fields& fields) {
  constexpr double kTopP = 0.95;
  static_assert(static_cast<float>(kTopP) == kDefaultTopP);
  return {{"background", false},
          {"instructions", sent(fields, "instructions", nullptr)},
          {"max_output_tokens", sent(fields, "max_output_tokens", nullptr)},
          {"metadata", sent(fields, "metadata", OrderedJson::object())},
          {"parallel_tool_calls", sent(fields, "parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", sent_in(fields, "reasoning", "effort")}, {"summary", nullptr}}},
          {"store", false},
          {"temperature", sent(fields, "temperature", 1.0)},
          {"text", {{"format", format_of(fields)}}},
          {"tool_choice", sent(fields, "tool_choice", "auto")},
          {"tools", sent(fields, "tools", OrderedJson::array())},
          {"top_p", sent(fields, "top_p", kTopP)},
          {"truncation", "disabled"},
          {"user", sent(fields, "user", nullptr)}};
}

}  // namespace

ApiResult<ResponseRequest> parse_response_request(std::string_view body) {
  const Json object = THIMBLE_TRY(parse_object(body));
  const Fields fields(object, "");
  ResponseRequest out;
  ChatRequest& chat = out.chat;
  chat.common = THIMBLE_TRY(read_common(fields));
  THIMBLE_TRY(refuse_responses_fields(fields));
  THIMBLE_TRY(check_include(fields));
  THIMBLE_TRY(check_metadata(fields));
  chat.tools = THIMBLE_TRY(read_tool_fields(fields, body, ToolShape::kFlat));
  ItemTurns turns = THIMBLE_TRY(read_items(fields));
  chat.field = "input";
  chat.messages = std::move(turns.messages);
  chat.sources = std::move(turns.sources);
  chat.reasoning = THIMBLE_TRY(read_responses_reasoning(fields));
  chat.common.format = THIMBLE_TRY(read_format(fields, body));
  THIMBLE_TRY(check_answer_format(chat, "text.format"));
  out.echo = echo_of(fields);
  return out;
}

}  // namespace thimble::server
