#include "text/token_map.h"

#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "text/utf8.h"

namespace thimble::text {
namespace {

using icu::UnicodeString;

// Stands for a text that is one space, while white space is trimmed.
constexpr UChar32 kLoneSpace = 0xE000;

struct Normalizers {
  const icu::Normalizer2* nfkc = nullptr;
  const icu::Normalizer2* nfd = nullptr;
};

Result<Normalizers> load_normalizers() {
  UErrorCode status = U_ZERO_ERROR;
  const Normalizers normalizers{icu::Normalizer2::getNFKCInstance(status),
                                icu::Normalizer2::getNFDInstance(status)};
  if (U_FAILURE(status)) {
    return base::fail(ErrorCode::kInternal, "ICU normalisation data: {}", u_errorName(status));
  }
  return normalizers;
}

Result<UnicodeString> decompose(std::string_view text, const Normalizers& normalizers) {
  const auto source = UnicodeString::fromUTF8({text.data(), static_cast<int32_t>(text.size())});
  UErrorCode status = U_ZERO_ERROR;
  UnicodeString composed = normalizers.nfkc->normalize(source, status);
  UnicodeString decomposed = normalizers.nfd->normalize(composed, status);
  if (U_FAILURE(status)) {
    return base::fail(ErrorCode::kInternal, "ICU normalisation: {}", u_errorName(status));
  }
  return decomposed;
}

// Full mapping of one code point alone, so that sigma has no final form.
void append_lower(UChar32 code_point, UnicodeString& out) {
  if (code_point < 0x80) {
    out.append(static_cast<char16_t>(u_tolower(code_point)));
    return;
  }
  UnicodeString lower(code_point);
  out.append(lower.toLower(icu::Locale::getRoot()));
}

bool is_plain_space(UChar32 c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

UnicodeString fold(const UnicodeString& decomposed) {
  UnicodeString lower;
  for (int32_t at = 0; at < decomposed.length(); at = decomposed.moveIndex32(at, 1)) {
    const UChar32 c = decomposed.char32At(at);
    if ((U_GET_GC_MASK(c) & U_GC_M_MASK) == 0) append_lower(c, lower);
  }
  UnicodeString folded;
  for (int32_t at = 0; at < lower.length(); at = lower.moveIndex32(at, 1)) {
    const UChar32 c = lower.char32At(at);
    const bool again = at > 0 && is_plain_space(lower.charAt(at - 1));
    if (!is_plain_space(c)) {
      folded.append(c);
    } else if (!again) {
      folded.append(u' ');
    }
  }
  if (folded == UnicodeString(u' ')) folded = UnicodeString(kLoneSpace);
  int32_t begin = 0;
  int32_t end = folded.length();
  while (begin < end && u_isUWhiteSpace(folded.char32At(begin))) ++begin;
  while (end > begin && u_isUWhiteSpace(folded.char32At(end - 1))) --end;
  return {folded, begin, end - begin};
}

Result<std::string> key_of_text(std::string_view text, const Normalizers& normalizers) {
  UnicodeString folded = fold(THIMBLE_TRY(decompose(text, normalizers)));
  if (folded.isEmpty()) return std::string(text);
  folded.findAndReplace(UnicodeString(kLoneSpace), UnicodeString(u' '));
  std::string key;
  folded.toUTF8String(key);
  return key;
}

}  // namespace

Result<std::string> token_key(std::string_view text) {
  return key_of_text(text, THIMBLE_TRY(load_normalizers()));
}

Result<TokenMap> build_token_map(const Tokenizer& tokenizer) {
  const Normalizers normalizers = THIMBLE_TRY(load_normalizers());
  TokenMap map;
  map.class_of.reserve(tokenizer.size());
  // Raw spellings and folded texts share one dictionary: the byte token "¡" and the character ¡
  // meet.
  std::unordered_map<std::string, int32_t> classes;
  classes.reserve(tokenizer.size());
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
    const std::string text = to_valid_utf8(tokenizer.token_bytes(id));
    const bool malformed = text.find(kReplacementUtf8) != std::string::npos;
    std::string key =
        malformed ? tokenizer.raw_token(id) : THIMBLE_TRY(key_of_text(text, normalizers));
    const auto next = static_cast<int32_t>(classes.size());
    map.class_of.push_back(classes.emplace(std::move(key), next).first->second);
  }
  map.class_count = static_cast<int32_t>(classes.size());
  return map;
}

}  // namespace thimble::text
