// Answers of chat and plain completions (server/openai_answers.h).
#pragma once

#include <memory>

#include "server/answer_writer.h"

namespace thimble::server {

// `tokenizer` must outlive it.
std::unique_ptr<AnswerWriter> make_chunk_writer(AnswerFrame frame,
                                                const text::Tokenizer& tokenizer);

}  // namespace thimble::server
