// Ids in, text out, as a stream that never shows half a character.
//
// The concatenation of all deltas equals to_valid_utf8() of the whole byte string: a character
// whose bytes are spread over tokens is held back until its last byte, and malformed parts become
// U+FFFD as soon as they are known to be malformed. Not thread-safe: one per stream.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace thimble::text {

// The same for bytes.
class Utf8Stream {
 public:
  // The text that `bytes` completes.
  std::string push(std::string_view bytes);

  // What was held back, as U+FFFD. Afterwards the stream is as new.
  std::string finish();

 private:
  std::string held_;  // At most three bytes: the beginning of a character.
};

class StreamDecoder {
 public:
  // `tokenizer` must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // The text that `id` completes; often empty. Fails on an id outside the vocabulary, which leaves
  // the stream as it was.
  Result<std::string> push(int32_t id);

  // What was held back, as U+FFFD.
  std::string finish() { return stream_.finish(); }

 private:
  const Tokenizer* tokenizer_;
  Utf8Stream stream_;
};

}  // namespace thimble::text
