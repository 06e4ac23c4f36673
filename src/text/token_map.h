// The compressed vocabulary that Engram hashes: ids whose texts differ only in case, accents,
// width or white space share a class (spec/engram-dspark-vision.md section 2.3).
//
// Built once from the tokenizer and handed to the model as a plain table. Stateless; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace thimble::text {

struct TokenMap {
  std::vector<int32_t> class_of;  // [tokenizer.size()] Classes are numbered by first appearance.
  int32_t class_count = 0;
};

Result<TokenMap> build_token_map(const Tokenizer& tokenizer);

// The key of a token's text: NFKC, NFD, without marks (category M), lower case code point by code
// point, runs of space/tab/CR/LF as one space (a lone one survives), trimmed of White_Space. The
// text itself where nothing would remain. REQUIRES: well-formed UTF-8.
Result<std::string> token_key(std::string_view text);

}  // namespace thimble::text
