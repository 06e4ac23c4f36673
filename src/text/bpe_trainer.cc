#include "text/bpe_trainer.h"

#include <algorithm>
#include <map>
#include <queue>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/byte_tokenizer.h"
#include "text/internal/regex_splitter.h"
#include "text/internal/tokenizer_json.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

using Pair = std::pair<int32_t, int32_t>;  // symbols: bytes 0 to 255, then merges in order

struct PairHash {
  size_t operator()(const Pair& p) const {
    return std::hash<uint64_t>()((static_cast<uint64_t>(p.first) << 32) |
                                 static_cast<uint32_t>(p.second));
  }
};

struct Word {
  std::vector<int32_t> symbols;
  int64_t count = 0;
};

struct PairInfo {
  int64_t count = 0;
  std::vector<uint32_t> words;  // that held it when counted; may be stale or doubled
};

struct Candidate {
  int64_t count = 0;
  Pair pair;
  // The heap's top: largest count, then smallest pair.
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

// Merges in the order of frequency, over words with counts.
class Merger {
 public:
  explicit Merger(std::vector<Word> words) : words_(std::move(words)) {
    for (uint32_t w = 0; w < words_.size(); ++w) count_word(w, 1, nullptr);
    for (const auto& [pair, info] : pairs_) heap_.push({info.count, pair});
    for (int byte = 0; byte < 256; ++byte) symbol_of(std::string(1, static_cast<char>(byte)));
  }

  // Results so far. Two merges may spell the same bytes; they share a symbol.
  size_t results() const { return bytes_.size() - 256; }

  // The next merge, as bytes; false when no pair occurs `least` times.
  bool next(int64_t least, std::pair<std::string, std::string>& merge) {
    while (!heap_.empty()) {
      const Candidate best = heap_.top();
      heap_.pop();
      PairInfo& info = pairs_[best.pair];
      if (info.count != best.count) continue;  // an old count; the new one is in the heap too
      if (best.count < least) return false;
      merge = {bytes_[static_cast<size_t>(best.pair.first)],
               bytes_[static_cast<size_t>(best.pair.second)]};
      apply(best.pair, std::move(info.words));
      return true;
    }
    return false;
  }

 private:
  // Adds (sign 1) or takes away (-1) the pairs of a word.
  void count_word(uint32_t w, int64_t sign, std::vector<Pair>* changed) {
    const Word& word = words_[w];
    for (size_t i = 0; i + 1 < word.symbols.size(); ++i) {
      const Pair pair{word.symbols[i], word.symbols[i + 1]};
      PairInfo& info = pairs_[pair];
      info.count += sign * word.count;
      if (sign > 0 && (info.words.empty() || info.words.back() != w)) info.words.push_back(w);
      if (changed != nullptr) changed->push_back(pair);
    }
  }

  void apply(const Pair& pair, std::vector<uint32_t> where) {
    const int32_t symbol = symbol_of(bytes_[static_cast<size_t>(pair.first)] +
                                     bytes_[static_cast<size_t>(pair.second)]);
    std::sort(where.begin(), where.end());
    where.erase(std::unique(where.begin(), where.end()), where.end());
    std::vector<Pair> changed;
    for (const uint32_t w : where) {
      if (!holds(w, pair)) continue;
      count_word(w, -1, &changed);
      replace(words_[w].symbols, pair, symbol);
      count_word(w, 1, &changed);
    }
    pairs_.erase(pair);
    std::sort(changed.begin(), changed.end());
    changed.erase(std::unique(changed.begin(), changed.end()), changed.end());
    for (const Pair& p : changed) {
      const auto found = pairs_.find(p);
      if (found != pairs_.end() && found->second.count > 0) heap_.push({found->second.count, p});
    }
  }

  int32_t symbol_of(const std::string& bytes) {
    const auto [found, added] = symbols_.emplace(bytes, static_cast<int32_t>(bytes_.size()));
    if (added) bytes_.push_back(bytes);
    return found->second;
  }

  bool holds(uint32_t w, const Pair& pair) const {
    const auto& s = words_[w].symbols;
    for (size_t i = 0; i + 1 < s.size(); ++i) {
      if (s[i] == pair.first && s[i + 1] == pair.second) return true;
    }
    return false;
  }

  static void replace(std::vector<int32_t>& symbols, const Pair& pair, int32_t by) {
    size_t to = 0;
    for (size_t i = 0; i < symbols.size(); ++to) {
      const bool match =
          i + 1 < symbols.size() && symbols[i] == pair.first && symbols[i + 1] == pair.second;
      symbols[to] = match ? by : symbols[i];
      i += match ? 2 : 1;
    }
    symbols.resize(to);
  }

  std::vector<Word> words_;
  std::vector<std::string> bytes_;  // of each symbol
  std::unordered_map<std::string, int32_t> symbols_;
  std::unordered_map<Pair, PairInfo, PairHash> pairs_;
  std::priority_queue<Candidate> heap_;
};

}  // namespace

struct BpeTrainer::Impl {
  RegexSplitter splitter;
  RegexSplitter::Scratch scratch;
  std::map<std::string, int64_t, std::less<>> counts;  // ordered: the same words, the same file

  explicit Impl(RegexSplitter s) : splitter(std::move(s)) {}
};

BpeTrainer::BpeTrainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BpeTrainer::BpeTrainer(BpeTrainer&&) noexcept = default;
BpeTrainer::~BpeTrainer() = default;

Result<BpeTrainer> BpeTrainer::create() {
  const TokenizerSpec spec = THIMBLE_TRY(parse_tokenizer_json(make_byte_tokenizer_json()));
  auto splitter = THIMBLE_TRY(RegexSplitter::compile(spec.split_patterns));
  return BpeTrainer(std::make_unique<Impl>(std::move(splitter)));
}

void BpeTrainer::add(std::string_view text) {
  const std::string valid = to_valid_utf8(text);
  uint32_t begin = 0;
  for (const uint32_t end : impl_->splitter.split(valid, impl_->scratch)) {
    ++impl_->counts[valid.substr(begin, end - begin)];
    begin = end;
  }
}

uint64_t BpeTrainer::words() const { return impl_->counts.size(); }

std::string BpeTrainer::finish(int32_t size, uint64_t least) {
  CHECK(size >= byte_tokenizer_size());
  std::vector<Word> words;
  for (const auto& [text, count] : impl_->counts) {
    Word word{.symbols = {}, .count = count};
    for (const char c : text) word.symbols.push_back(static_cast<uint8_t>(c));
    words.push_back(std::move(word));
  }
  Merger merger(std::move(words));
  std::vector<std::pair<std::string, std::string>> merges;
  std::pair<std::string, std::string> merge;
  while (static_cast<int32_t>(merger.results()) < size - byte_tokenizer_size() &&
         merger.next(static_cast<int64_t>(least), merge)) {
    merges.push_back(merge);
  }
  return make_bpe_tokenizer_json(merges);
}

}  // namespace thimble::text
