// tokenizer.json read and checked: what the file means, in ids and bytes.
//
// The layout is that of Hugging Face `tokenizers`, restricted to what the released model uses:
// byte-level BPE, isolating regex splits, no normaliser, plain added tokens. Everything else is
// refused by name, since reading it differently would silently change ids.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/internal/bpe.h"

namespace thimble::text {

struct TokenizerSpec {
  std::vector<std::string> bytes;  // [ids] What the id decodes to; never empty, no gaps.
  std::vector<TokenKind> kinds;    // [ids]
  std::vector<Merge> merges;       // By rank.
  std::vector<std::string> split_patterns;
};

Result<TokenizerSpec> parse_tokenizer_json(std::string_view json);

}  // namespace thimble::text
