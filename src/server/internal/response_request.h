// A request of the Responses API as the chat it asks for.
//
// Nothing is kept between requests: what would need it (previous_response_id, conversation,
// background, item references) is a 400 that says so, and `store` is answered with false.
// Stateless; any thread. Source: OpenAI's API reference, "Create a model response".
#pragma once

#include <string_view>

#include "server/internal/json.h"
#include "server/openai_types.h"

namespace thimble::server {

struct ResponseRequest {
  ChatRequest chat;
  OrderedJson echo;  // fields that the response repeats, defaults filled in
};

ApiResult<ResponseRequest> parse_response_request(std::string_view body);

}  // namespace thimble::server
