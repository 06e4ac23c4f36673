#include "server/internal/format_fields.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "server/internal/spelled.h"
#include "text/json_schema.h"
#include "text/json_text.h"
#include "text/tools.h"

namespace thimble::server {
namespace {

constexpr const char* kField = "response_format";
constexpr const char* kSchemaField = "response_format.json_schema.schema";

AnswerFormat any_object() {
  return {AnswerFormat::Kind::kObject, std::make_shared<text::Grammar>(text::json_object_grammar()),
          R"({"type": "json_object"})"};
}

ApiResult<AnswerFormat> of_schema(const Fields& format, std::string_view body) {
  const auto fields = THIMBLE_TRY(format.object("json_schema"));
  const std::string at = format.path_of("json_schema");
  if (!fields) return bad_field(at, fmt::format("'{}' is missing", at));
  const auto name = THIMBLE_TRY(fields->string("name"));
  if (!name || !text::is_tool_name(*name)) {
    return bad_field(fields->path_of("name"),
                     fmt::format("'{}' must be 1 to {} letters, digits, underscores and hyphens",
                                 fields->path_of("name"), text::kToolNameBytesMax));
  }
  THIMBLE_TRY(fields->boolean("strict"));  // a schema holds in any case
  const std::string_view schema = spelled(spelled(spelled(body, kField), "json_schema"), "schema");
  if (schema.empty() || schema == "null") {
    return bad_field(kSchemaField, fmt::format("'{}' is missing", kSchemaField));
  }
  auto grammar = text::compile_json_schema(schema);
  if (!grammar) {
    std::string message = fmt::format("'{}': {}", kSchemaField, grammar.error().describe());
    return grammar.error().code == ErrorCode::kUnsupported
               ? not_yet(kSchemaField, std::move(message))
               : bad_field(kSchemaField, std::move(message));
  }
  return AnswerFormat{AnswerFormat::Kind::kSchema,
                      std::make_shared<text::Grammar>(std::move(*grammar)),
                      text::python_json(schema).value_or(std::string(schema))};
}

// Any case.
bool says_json(const text::ChatMessage& message) {
  constexpr std::string_view kWord = "json";
  return std::any_of(message.content.begin(), message.content.end(), [&](const auto& part) {
    const auto same = [](char a, char b) {
      return std::tolower(static_cast<unsigned char>(a)) == b;
    };
    return std::search(part.text.begin(), part.text.end(), kWord.begin(), kWord.end(), same) !=
           part.text.end();
  });
}

}  // namespace

ApiResult<std::optional<AnswerFormat>> read_answer_format(const Fields& fields,
                                                          std::string_view body) {
  const auto format = THIMBLE_TRY(fields.object(kField));
  if (!format) return std::nullopt;
  const auto type = THIMBLE_TRY(format->string("type"));
  const std::string at = format->path_of("type");
  if (!type) return bad_field(at, fmt::format("'{}' is missing", at));
  if (type == "text") return std::nullopt;
  if (type != "json_object" && type != "json_schema") {
    return bad_field(at, fmt::format("'{}' must be 'text', 'json_object' or 'json_schema'", at));
  }
  if (THIMBLE_TRY(fields.boolean("ignore_eos")).value_or(false)) {
    return bad_field("ignore_eos",
                     "'ignore_eos' does not go with a 'response_format': such an "
                     "answer ends when it is complete");
  }
  if (type == "json_object") return any_object();
  return THIMBLE_TRY(of_schema(*format, body));
}

ApiResult<void> check_answer_format(const ChatRequest& request) {
  if (request.tools.choice.kind == ToolChoice::Kind::kRequired) {
    return bad_field(kField,
                     "'response_format' asks for an answer and 'tool_choice' for a call; "
                     "send one of them");
  }
  if (request.tools.choice.kind == ToolChoice::Kind::kAuto && !request.tools.tools.empty()) {
    return not_yet(kField,
                   "'response_format' beside 'tools' is not supported yet; send "
                   "'tool_choice': 'none'");
  }
  if (!request.ending.add_generation_prompt || request.ending.continue_final_message) {
    return bad_field(kField,
                     "'response_format' holds for an answer from its beginning; it does not "
                     "go on with a message");
  }
  const auto& messages = request.messages;
  if (request.common.format->kind == AnswerFormat::Kind::kObject &&
      std::none_of(messages.begin(), messages.end(), says_json)) {
    return bad_field("messages",
                     "'response_format' of type 'json_object' needs the word 'json' in "
                     "some message");
  }
  return {};
}

}  // namespace thimble::server
