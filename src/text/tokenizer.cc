#include "text/tokenizer.h"

#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "text/internal/added_tokens.h"
#include "text/internal/bpe.h"
#include "text/internal/byte_level.h"
#include "text/internal/regex_splitter.h"
#include "text/internal/tokenizer_json.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

constexpr uint64_t kFileBytesMax = 256ULL << 20;

// Scratch that served a longer text is freed, so that one request does not pin its memory.
constexpr size_t kPooledTextBytesMax = 4 << 20;

struct Scratch {
  RegexSplitter::Scratch splitter;
  Bpe::Scratch bpe;
};

// Scratch memory for whoever is encoding now. Grows to the largest number of threads seen at once.
class ScratchPool {
 public:
  std::unique_ptr<Scratch> acquire() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<Scratch>();
    auto scratch = std::move(free_.back());
    free_.pop_back();
    return scratch;
  }
  void release(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> free_;
};

AddedTokenFinder make_finder(const TokenizerSpec& spec) {
  std::vector<AddedToken> added;
  for (size_t id = 0; id < spec.bytes.size(); ++id) {
    if (spec.kinds[id] == TokenKind::kAdded) {
      added.push_back({static_cast<int32_t>(id), spec.bytes[id]});
    }
  }
  return AddedTokenFinder(std::move(added));
}

}  // namespace

struct Tokenizer::Impl {
  Impl(TokenizerSpec&& parsed, RegexSplitter&& splitter_in)
      : spec(std::move(parsed)), finder(make_finder(spec)), splitter(std::move(splitter_in)) {}

  void encode_valid(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
    uint32_t begin = 0;
    for (const uint32_t end : splitter.split(text, scratch.splitter)) {
      bpe->encode(text.substr(begin, end - begin), scratch.bpe, out);
      begin = end;
    }
  }

  // Malformed stretches stand between well-formed texts, each as one piece.
  void encode_any(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
    while (!text.empty()) {
      const bool valid = next_code_point(text).valid;
      size_t bytes = 0;
      while (bytes < text.size()) {
        const Utf8Step step = next_code_point(text.substr(bytes));
        if (step.valid != valid) break;
        bytes += step.bytes;
      }
      if (valid) {
        encode_valid(text.substr(0, bytes), scratch, out);
      } else {
        bpe->encode(text.substr(0, bytes), scratch.bpe, out);
      }
      text.remove_prefix(bytes);
    }
  }

  void encode_plain(std::string_view text, Scratch& scratch, std::vector<int32_t>& out) const {
    if (is_valid_utf8(text)) {
      encode_valid(text, scratch, out);
    } else {
      encode_any(text, scratch, out);
    }
  }

  TokenizerSpec spec;  // Viewed by bpe.
  AddedTokenFinder finder;
  RegexSplitter splitter;
  std::optional<Bpe> bpe;
  std::unordered_map<std::string_view, int32_t> literals;  // kLiteral tokens by spelling.
  mutable ScratchPool pool;
};

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::parse(std::string_view json) {
  TokenizerSpec spec = THIMBLE_TRY(parse_tokenizer_json(json));
  auto splitter = THIMBLE_TRY(in(RegexSplitter::compile(spec.split_patterns), "pre_tokenizer"));
  auto impl = std::make_unique<Impl>(std::move(spec), std::move(splitter));
  impl->bpe =
      THIMBLE_TRY(in(Bpe::create(impl->spec.bytes, impl->spec.kinds, impl->spec.merges), "model"));
  impl->spec.merges.clear();
  impl->spec.merges.shrink_to_fit();
  for (size_t id = 0; id < impl->spec.bytes.size(); ++id) {
    if (impl->spec.kinds[id] != TokenKind::kLiteral) continue;
    impl->literals.emplace(impl->spec.bytes[id], static_cast<int32_t>(id));
  }
  return Tokenizer(std::move(impl));
}

Result<Tokenizer> Tokenizer::open(const Path& file) {
  const std::string json = THIMBLE_TRY(base::read_file(file, kFileBytesMax));
  return in(parse(json), file.string());
}

uint32_t Tokenizer::size() const { return static_cast<uint32_t>(impl_->spec.bytes.size()); }

std::vector<int32_t> Tokenizer::encode(std::string_view text, AddedTokens added) const {
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 4);
  auto scratch = impl_->pool.acquire();
  size_t begin = 0;
  if (added == AddedTokens::kMatch) {
    while (const auto match = impl_->finder.find(text, begin)) {
      impl_->encode_plain(text.substr(begin, match->begin - begin), *scratch, ids);
      ids.push_back(match->id);
      begin = match->end;
    }
  }
  impl_->encode_plain(text.substr(begin), *scratch, ids);
  if (text.size() <= kPooledTextBytesMax) impl_->pool.release(std::move(scratch));
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids) const {
  std::string bytes;
  bytes.reserve(ids.size() * 4);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<uint32_t>(ids[i]) >= size()) {
      return base::fail(ErrorCode::kInvalidArgument, "ids[{}] is {}, expected 0 to {}", i, ids[i],
                        size() - 1);
    }
    bytes += impl_->spec.bytes[static_cast<size_t>(ids[i])];
  }
  return bytes;
}

const std::string& Tokenizer::token_bytes(int32_t id) const {
  CHECK(id >= 0);
  CHECK_LT(static_cast<uint32_t>(id), size());
  return impl_->spec.bytes[static_cast<size_t>(id)];
}

std::string Tokenizer::raw_token(int32_t id) const {
  const std::string& bytes = token_bytes(id);
  return impl_->spec.kinds[static_cast<size_t>(id)] == TokenKind::kBytes ? spell_bytes(bytes)
                                                                         : bytes;
}

bool Tokenizer::is_added(int32_t id) const {
  CHECK(id >= 0);
  CHECK_LT(static_cast<uint32_t>(id), size());
  return impl_->spec.kinds[static_cast<size_t>(id)] == TokenKind::kAdded;
}

std::optional<int32_t> Tokenizer::find_added(std::string_view content) const {
  return impl_->finder.exact(content);
}

std::optional<int32_t> Tokenizer::find(std::string_view content) const {
  if (const auto id = find_added(content)) return id;
  if (const auto literal = impl_->literals.find(content); literal != impl_->literals.end()) {
    return literal->second;
  }
  const auto bytes = unspell_bytes(content);
  if (!bytes || bytes->empty()) return std::nullopt;
  return impl_->bpe->find(*bytes);
}

}  // namespace thimble::text
