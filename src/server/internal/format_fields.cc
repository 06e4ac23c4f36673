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

AnswerFormat any_object() {
  return {AnswerFormat::Kind::kObject, std::make_shared<text::Grammar>(text::json_object_grammar()),
          R"({"type": "json_object"})"};
}

// `fields`: the object that has name and schema, spelled so.
ApiResult<AnswerFormat> of_schema(const Fields& fields, std::string_view spelling) {
  const auto name = THIMBLE_TRY(fields.string("name"));
  if (!name || !text::is_tool_name(*name)) {
    return bad_field(fields.path_of("name"),
                     fmt::format("'{}' must be 1 to {} letters, digits, underscores and hyphens",
                                 fields.path_of("name"), text::kToolNameBytesMax));
  }
  THIMBLE_TRY(fields.boolean("strict"));  // a schema holds in any case
  const std::string at = fields.path_of("schema");
  const std::string_view schema = spelled(spelling, "schema");
  if (schema.empty() || schema == "null") return bad_field(at, fmt::format("'{}' is missing", at));
  auto grammar = text::compile_json_schema(schema);
  if (!grammar) return refused_field(at, grammar.error());
  return AnswerFormat{AnswerFormat::Kind::kSchema,
                      std::make_shared<text::Grammar>(std::move(*grammar)),
                      text::python_json(schema).value_or(std::string(schema))};
}

ApiResult<AnswerFormat> of_schema(const Fields& format, std::string_view spelling,
                                  FormatShape shape) {
  if (shape == FormatShape::kFlat) return of_schema(format, spelling);
  const auto nested = THIMBLE_TRY(format.object("json_schema"));
  const std::string at = format.path_of("json_schema");
  if (!nested) return bad_field(at, fmt::format("'{}' is missing", at));
  return of_schema(*nested, spelled(spelling, "json_schema"));
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

ApiResult<std::optional<AnswerFormat>> read_answer_format(const Fields& holder, const char* name,
                                                          std::string_view spelling,
                                                          FormatShape shape) {
  const auto format = THIMBLE_TRY(holder.object(name));
  if (!format) return std::nullopt;
  const auto type = THIMBLE_TRY(format->string("type"));
  const std::string at = format->path_of("type");
  if (!type) return bad_field(at, fmt::format("'{}' is missing", at));
  if (type == "text") return std::nullopt;
  if (type == "json_object") return any_object();
  if (type == "json_schema") {
    return THIMBLE_TRY(of_schema(*format, spelled(spelling, name), shape));
  }
  return bad_field(at, fmt::format("'{}' must be 'text', 'json_object' or 'json_schema'", at));
}

ApiResult<void> check_format_ends(const GenerationFields& common) {
  if (!common.format || !common.ignore_eos) return {};
  return bad_field("ignore_eos",
                   "'ignore_eos' does not go with a form of the answer: such an answer ends when "
                   "it is complete");
}

ApiResult<void> check_answer_format(const ChatRequest& request, const char* path) {
  if (request.tools.demanded && request.common.ignore_eos) {
    return bad_field("ignore_eos",
                     "'ignore_eos' does not go with a demanded call: such an answer ends when it "
                     "is complete");
  }
  if (!request.common.format) return {};
  THIMBLE_TRY(check_format_ends(request.common));
  const auto said = [&](const char* what) { return fmt::format("'{}' {}", path, what); };
  if (request.tools.choice.kind == ToolChoice::Kind::kRequired) {
    return bad_field(path,
                     said("asks for an answer and 'tool_choice' for a call; send one of them"));
  }
  if (!request.ending.add_generation_prompt || request.ending.continue_final_message) {
    return bad_field(path, said("holds for an answer from its beginning; it does not go on with a "
                                "message"));
  }
  const auto& messages = request.messages;
  if (request.common.format->kind == AnswerFormat::Kind::kObject &&
      std::none_of(messages.begin(), messages.end(), says_json)) {
    return bad_field(request.field,
                     said("of type 'json_object' needs the word 'json' in some message"));
  }
  return {};
}

}  // namespace thimble::server
