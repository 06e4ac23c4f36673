// A tokenizer.json in the released layout with no merges: one token a byte and the control tokens.
//
// For models that `thimble init` makes: small vocabulary, every text, the whole chat format.
// Other implementations of the file format load it too (tests/tokenizer).
#pragma once

#include <string>

namespace thimble::text {

// BOS, EOS and pad are ids 0 to 2, byte b is id 3 + b, then the other control tokens.
std::string make_byte_tokenizer_json();

// Ids the file defines.
int32_t byte_tokenizer_size();

}  // namespace thimble::text
