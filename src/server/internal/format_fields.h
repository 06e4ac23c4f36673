// response_format, or text.format of responses: the form that an answer must have.
#pragma once

#include <optional>
#include <string_view>

#include "server/internal/json.h"
#include "server/openai_types.h"

namespace thimble::server {

// Where a schema and its name are.
enum class FormatShape {
  kNested,  // in an object `json_schema` of the format: chat, completions
  kFlat,    // in the format itself: responses
};

// The member `name` of `holder`; empty: any text. `spelling` is the text that `holder` was parsed
// from: a schema is read as it was spelled, since its properties are to come in its order.
ApiResult<std::optional<AnswerFormat>> read_answer_format(const Fields& holder, const char* name,
                                                          std::string_view spelling,
                                                          FormatShape shape);

// What other fields must not say beside a format. Nothing to check without one.
ApiResult<void> check_format_ends(const GenerationFields& common);
// The same of a chat; `path` is where its format stood.
ApiResult<void> check_answer_format(const ChatRequest& request, const char* path);

}  // namespace thimble::server
