// A tokenizer.json in the released layout with no merges: one token a byte and the control tokens.
//
// For models that `thimble init` makes: small vocabulary, every text, the whole chat format.
// Other implementations of the file format load it too (tests/tokenizer).
#pragma once

#include <span>
#include <string>
#include <utility>

namespace thimble::text {

// Ids the file defines where none are added.
int32_t byte_tokenizer_size();

// BOS, EOS and pad are ids 0 to 2, byte b is id 3 + b, then the other control tokens, then place
// holders up to `size` ids, which are never sampled. REQUIRES: size >= byte_tokenizer_size().
std::string make_byte_tokenizer_json(int32_t size = byte_tokenizer_size());

// The same layout with merges, pairs of bytes in order of rank: each new result takes the next id
// from 259 on, the other control tokens follow. REQUIRES: every part is a byte or an earlier
// result.
std::string make_bpe_tokenizer_json(std::span<const std::pair<std::string, std::string>> merges);

}  // namespace thimble::text
