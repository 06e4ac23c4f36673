// The texts of a checkpoint's prompt format that are data: what introduces tools, and what asks for
// an answer of a given form (chat-format spec 6.1 and 7).
//
//   encoding/tools_head.txt       before the tools' lines, the blank line before them included
//   encoding/tools_tail.txt       after them, likewise
//   encoding/response_format.txt  before a schema
//
// They lie in the model's directory and are taken byte for byte. A model was trained with its own,
// so the released model's are compared with their published digests. Values; any thread.
#pragma once

#include <string>

#include "base/file.h"
#include "base/result.h"

namespace thimble::text {

struct EncodingTexts {
  std::string tools_head;  // empty: none, the model cannot be offered tools
  std::string tools_tail;
  std::string response_format;  // empty: none
};

enum class TextsOf { kReleasedModel, kOtherModel };

// Files that are not there leave their text empty. kCorrupt: the head without the tail or the
// reverse, a text that is not UTF-8, or one of the released model with another digest than
// published; the error has both.
Result<EncodingTexts> open_encoding_texts(const Path& model_dir, TextsOf of);

// For models that are made here.
EncodingTexts own_encoding_texts();

Result<void> write_encoding_texts(const Path& model_dir, const EncodingTexts& texts);

}  // namespace thimble::text
