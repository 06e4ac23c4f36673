// How an answer reads: the one seam between what becomes of tokens (server/answer.h) and the shape
// that a route's clients expect.
//
// A stream is begin(), then parts and the end of each choice, then end() or failure(); each gives
// bytes to send, which may be none. A whole answer is one call of whole(). One object per answer,
// used by one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "server/errors.h"
#include "server/openai_answers.h"

namespace thimble::server {

class AnswerWriter {
 public:
  virtual ~AnswerWriter() = default;

  // The request was accepted: a later failure is no HTTP status any more if this has bytes.
  virtual std::string begin() = 0;
  virtual std::string part(const AnswerPart& part) = 0;
  virtual std::string choice_end(uint32_t choice, AnswerEnd end) = 0;
  virtual std::string end(const Usage& usage) = 0;
  virtual std::string failure(const ApiError& error) = 0;

  // REQUIRES: at least one choice.
  virtual std::string whole(std::span<const WholeChoice> choices, const Usage& usage) = 0;
};

}  // namespace thimble::server
