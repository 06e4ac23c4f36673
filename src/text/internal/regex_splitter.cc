#include "text/internal/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8  // style-ok: pcre2.h asks for it
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "text/internal/split_pattern.h"

namespace thimble::text {
namespace {

// Backtracking steps allowed in one match: what the released pattern needs (about one a byte, on a
// long run of white space) with room, and far from seconds.
constexpr uint32_t kMatchStepsBase = 100'000;
constexpr uint32_t kMatchStepsPerByte = 8;
constexpr size_t kJitStackBytesMin = 32 << 10;
constexpr size_t kJitStackBytesMax = 1 << 20;
constexpr uint32_t kHeapKibibytesMax = 64 << 10;

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};

std::string pcre2_message(int error) {
  std::array<PCRE2_UCHAR, 256> buffer{};
  pcre2_get_error_message(error, buffer.data(), buffer.size());
  return reinterpret_cast<const char*>(buffer.data());
}

}  // namespace

struct RegexSplitter::Pattern {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
};

struct RegexSplitter::Scratch::Match {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackBytesMin, kJitStackBytesMax, nullptr);

  Match() {
    CHECK(data != nullptr && context != nullptr);
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, kHeapKibibytesMax);
  }
  ~Match() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_jit_stack_free(stack);
  }
  Match(const Match&) = delete;
  Match& operator=(const Match&) = delete;
};

RegexSplitter::Scratch::Scratch() : match_(std::make_unique<Match>()) {}
RegexSplitter::Scratch::~Scratch() = default;

RegexSplitter::RegexSplitter(std::vector<Pattern> patterns) : patterns_(std::move(patterns)) {}
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

Result<RegexSplitter> RegexSplitter::compile(std::span<const std::string> patterns) {
  std::vector<Pattern> compiled;
  for (const std::string& pattern : patterns) {
    const std::string translated = THIMBLE_TRY(translate_split_pattern(pattern));
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code =
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C | PCRE2_NO_AUTO_CAPTURE,
                      &error, &offset, nullptr);
    if (code == nullptr) {
      return base::fail(ErrorCode::kCorrupt, "regex \"{}\": {} at byte {} of its PCRE2 form",
                        pattern, pcre2_message(error), offset);
    }
    compiled.push_back({std::unique_ptr<pcre2_code, CodeDeleter>(code)});
    // A system without JIT still matches, slower: pcre2_match chooses.
    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  }
  return RegexSplitter(std::move(compiled));
}

std::span<const uint32_t> RegexSplitter::split(std::string_view text, Scratch& scratch) const {
  CHECK_LE(text.size(), static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  std::vector<uint32_t>& ends = scratch.ends_;
  ends.clear();
  if (text.empty()) return ends;
  ends.push_back(static_cast<uint32_t>(text.size()));
  const uint64_t steps = kMatchStepsBase + uint64_t{kMatchStepsPerByte} * text.size();
  pcre2_set_match_limit(scratch.match_->context,
                        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(scratch.match_->data);

  for (const Pattern& pattern : patterns_) {
    std::swap(ends, scratch.previous_ends_);
    ends.clear();
    uint32_t begin = 0;
    for (const uint32_t end : scratch.previous_ends_) {
      const auto* piece = reinterpret_cast<PCRE2_SPTR>(text.data() + begin);
      const size_t bytes = end - begin;
      size_t cut = 0;  // Within the piece; everything before it is settled.
      size_t search = 0;
      while (search < bytes) {
        const int matched =
            pcre2_match(pattern.code.get(), piece, bytes, search, PCRE2_NO_UTF_CHECK,
                        scratch.match_->data, scratch.match_->context);
        if (matched < 0) break;  // No match, or one of the limits.
        if (found[0] > cut) ends.push_back(begin + static_cast<uint32_t>(found[0]));
        if (found[1] > found[0]) ends.push_back(begin + static_cast<uint32_t>(found[1]));
        cut = found[1];
        search = found[1];
        if (found[1] == found[0]) {  // An empty match cuts, then the search moves on a character.
          do ++search;
          while (search < bytes && (piece[search] & 0xC0) == 0x80);
        }
      }
      if (cut < bytes) ends.push_back(end);
      begin = end;
    }
  }
  return ends;
}

std::string regex_unicode_version() {
  std::array<char, 32> version{};
  const int bytes = pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, nullptr);
  CHECK(bytes > 0 && static_cast<size_t>(bytes) <= version.size());
  pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version.data());
  return version.data();
}

}  // namespace thimble::text
