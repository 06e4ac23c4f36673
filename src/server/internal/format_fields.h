// response_format: the form that an answer must have.
#pragma once

#include <optional>
#include <string_view>

#include "server/internal/json.h"
#include "server/openai_types.h"

namespace thimble::server {

// Empty: any text. `body` is the text that `fields` were parsed from: a schema is read as it was
// spelled, since its properties are to come in its order.
ApiResult<std::optional<AnswerFormat>> read_answer_format(const Fields& fields,
                                                          std::string_view body);

// What a chat's other fields must not say beside it. REQUIRES: request.common.format.
ApiResult<void> check_answer_format(const ChatRequest& request);

}  // namespace thimble::server
