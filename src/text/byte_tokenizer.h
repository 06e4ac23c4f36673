// A tokenizer.json in the released layout with no merges: one token a byte and the control tokens.
//
// For models that `thimble init` makes: small vocabulary, every text, the whole chat format.
// Other implementations of the file format load it too (tests/tokenizer).
#pragma once

#include <string>

namespace thimble::text {

// Ids the file defines where none are added.
int32_t byte_tokenizer_size();

// BOS, EOS and pad are ids 0 to 2, byte b is id 3 + b, then the other control tokens, then place
// holders up to `size` ids, which are never sampled. REQUIRES: size >= byte_tokenizer_size().
std::string make_byte_tokenizer_json(int32_t size = byte_tokenizer_size());

}  // namespace thimble::text
