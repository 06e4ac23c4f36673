// Bytes to token ids and back: the byte-level BPE tokenizer of a checkpoint's tokenizer.json.
//
// encode() takes any bytes, well-formed UTF-8 or not, and decode(encode(x)) == x. Added tokens
// (turn markers, <think>, ...) are matched leftmost-longest by content, and only when asked:
// text that a caller supplied is encoded with AddedTokens::kPlain, which never yields one
// (spec/chat-format.md sections 1 and 9). No id is built in; find() resolves tokens by content.
//
// Immutable after parse(). All const methods may run on any number of threads at once; scratch
// memory is kept in an internal pool, one piece per thread that is encoding at that moment.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace thimble::text {

enum class AddedTokens {
  kMatch,  // The text may contain control tokens: templates, raw completion prompts.
  kPlain,  // Their spellings are ordinary text.
};

class Tokenizer {
 public:
  // Refuses, by name and place, what it does not understand exactly (internal/tokenizer_json.h).
  static Result<Tokenizer> parse(std::string_view json);
  static Result<Tokenizer> open(const Path& file);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  // Ids are 0 .. size() - 1, without gaps. A model's vocabulary may be larger.
  uint32_t size() const;

  // REQUIRES: text of less than 2 GiB.
  std::vector<int32_t> encode(std::string_view text, AddedTokens added) const;

  // The bytes of the ids in order; they need not be well-formed UTF-8 (to_valid_utf8() makes them
  // so). Fails on an id that is out of range.
  Result<std::string> decode(std::span<const int32_t> ids) const;

  // What one id decodes to. REQUIRES: 0 <= id < size().
  const std::string& token_bytes(int32_t id) const;

  // The id's spelling in the vocabulary file ("Ġthe"); an added token's content.
  // REQUIRES: 0 <= id < size().
  std::string raw_token(int32_t id) const;

  // REQUIRES: 0 <= id < size().
  bool is_added(int32_t id) const;

  // The id of exactly this added token or, failing that, of this vocabulary spelling.
  std::optional<int32_t> find(std::string_view content) const;

  // The id of exactly this added token.
  std::optional<int32_t> find_added(std::string_view content) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::text
