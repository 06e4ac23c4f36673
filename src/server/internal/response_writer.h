// Answers as OpenAI's Responses API has them: a response with items, or named events that build it.
//
// One answer becomes up to three kinds of items, in this order: reasoning, a message, a function
// call for each call. Reasoning is the model's own text, so it stands in the item's `content` as
// `reasoning_text`, and `summary` is empty. A response has one item at least. In a stream each item
// is opened, added to and closed before the next one; events are numbered from 0, the first two
// leave as soon as the request is accepted, and the last one holds the whole response. There is no
// [DONE]. Source: OpenAI's API reference, "Streaming events".
#pragma once

#include <memory>
#include <string>

#include "server/answer_writer.h"
#include "server/internal/json.h"

namespace thimble::server {

struct ResponseFrame {
  std::string id;
  int64_t created = 0;
  std::string model;
  OrderedJson echo;  // ResponseRequest::echo
};

std::unique_ptr<AnswerWriter> make_response_writer(ResponseFrame frame);

}  // namespace thimble::server
