#include "text/internal/bpe.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"
#include "text/internal/byte_level.h"

namespace thimble::text {
namespace {

constexpr size_t kShortSymbolsMax = 48;  // Above this a heap beats scanning for the minimum.
constexpr uint32_t kNone = UINT32_MAX;   // End of the linked list.

uint64_t pair_hash(int32_t left, int32_t right) {
  const uint64_t key = (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
  return (key * 0x9E3779B97F4A7C15ULL) >> 20;
}

// Words are mostly short: up to 16 bytes take two overlapping loads and one multiplication.
uint64_t word_hash(std::string_view bytes) {
  const char* data = bytes.data();
  const size_t size = bytes.size();
  uint64_t a = 0;
  uint64_t b = 0;
  if (size >= 8) {
    a = base::load<uint64_t>(data);
    b = base::load<uint64_t>(data + size - 8);
    for (size_t at = 8; at + 8 < size; at += 8)
      a = base::mix64(a ^ base::load<uint64_t>(data + at));
  } else if (size >= 4) {
    a = base::load<uint32_t>(data);
    b = base::load<uint32_t>(data + size - 4);
  } else if (size > 0) {
    a = static_cast<uint8_t>(data[0]) | (uint64_t{static_cast<uint8_t>(data[size / 2])} << 8);
    b = static_cast<uint8_t>(data[size - 1]);
  }
  const auto product = static_cast<base::Uint128>(a ^ (size * 0x9E3779B97F4A7C15ULL)) *
                       static_cast<base::Uint128>(b ^ 0xD1B54A32D192ED03ULL);
  return base::mix64(static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64) ^ a);
}

size_t slots_for(size_t count) { return std::bit_ceil(std::max<size_t>(count * 2, 16)); }

}  // namespace

Result<Bpe> Bpe::create(std::span<const std::string> token_bytes, std::span<const TokenKind> kinds,
                        std::span<const Merge> merges) {
  CHECK_EQ(token_bytes.size(), kinds.size());
  CHECK_LT(token_bytes.size(), static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  Bpe bpe;
  bpe.token_bytes_ = token_bytes;
  bpe.kinds_ = kinds;
  THIMBLE_TRY(bpe.insert_bytes_and_words());
  THIMBLE_TRY(bpe.insert_merges(merges));
  bpe.mark_whole_words();
  return bpe;
}

Result<void> Bpe::insert_bytes_and_words() {
  byte_ids_.fill(-1);
  words_.resize(slots_for(token_bytes_.size()));
  for (size_t id = 0; id < token_bytes_.size(); ++id) {
    const std::string& bytes = token_bytes_[id];
    if (kinds_[id] != TokenKind::kBytes) continue;
    longest_token_ = std::max(longest_token_, bytes.size());
    if (bytes.size() == 1) byte_ids_[static_cast<uint8_t>(bytes[0])] = static_cast<int32_t>(id);
    CHECK(find_word(bytes) == nullptr);
    const uint64_t hash = word_hash(bytes);
    size_t slot = hash & (words_.size() - 1);
    while (words_[slot].id >= 0) slot = (slot + 1) & (words_.size() - 1);
    words_[slot] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(id)};
  }
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (byte_ids_[byte] >= 0) continue;
    const char as_char = static_cast<char>(byte);
    return base::fail(ErrorCode::kCorrupt, "vocabulary: no token for byte {} (\"{}\")", byte,
                      spell_bytes({&as_char, 1}));
  }
  return {};
}

Result<void> Bpe::insert_merges(std::span<const Merge> merges) {
  CHECK_LT(merges.size(), size_t{kNoRank});
  pairs_.resize(slots_for(merges.size()));
  byte_ranks_.assign(256 * 256, kNoRank);
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    if (lookup(merge.left, merge.right).rank != kNoRank) {
      return base::fail(ErrorCode::kCorrupt,
                        "merges[{}]: the pair of ids {} and {} is listed twice", rank, merge.left,
                        merge.right);
    }
    size_t slot = pair_hash(merge.left, merge.right) & (pairs_.size() - 1);
    while (pairs_[slot].left >= 0) slot = (slot + 1) & (pairs_.size() - 1);
    pairs_[slot] = {merge.left, merge.right, static_cast<uint32_t>(rank), merge.result};
    const std::string& left = token_bytes_[static_cast<size_t>(merge.left)];
    const std::string& right = token_bytes_[static_cast<size_t>(merge.right)];
    if (left.size() == 1 && right.size() == 1) {
      byte_ranks_[static_cast<uint8_t>(left[0]) * 256U + static_cast<uint8_t>(right[0])] =
          static_cast<uint32_t>(rank);
    }
  }
  return {};
}

void Bpe::mark_whole_words() {
  whole_.resize(token_bytes_.size());
  Scratch scratch;
  std::vector<int32_t> ids;
  for (size_t id = 0; id < token_bytes_.size(); ++id) {
    if (kinds_[id] != TokenKind::kBytes) continue;
    ids.clear();
    merge(token_bytes_[id], scratch, ids);
    whole_[id] = ids.size() == 1;
  }
}

Bpe::Ranked Bpe::lookup(int32_t left, int32_t right) const {
  size_t slot = pair_hash(left, right) & (pairs_.size() - 1);
  while (true) {
    const Pair& pair = pairs_[slot];
    if (pair.left == left && pair.right == right) return {pair.rank, pair.result};
    if (pair.left < 0) return {};
    slot = (slot + 1) & (pairs_.size() - 1);
  }
}

const Bpe::Word* Bpe::find_word(std::string_view bytes) const {
  const uint64_t hash = word_hash(bytes);
  size_t slot = hash & (words_.size() - 1);
  for (; words_[slot].id >= 0; slot = (slot + 1) & (words_.size() - 1)) {
    const Word& word = words_[slot];
    if (word.hash != static_cast<uint32_t>(hash >> 32)) continue;
    if (token_bytes_[static_cast<size_t>(word.id)] == bytes) return &word;
  }
  return nullptr;
}

std::optional<int32_t> Bpe::find(std::string_view bytes) const {
  const Word* word = find_word(bytes);
  if (word == nullptr) return std::nullopt;
  return word->id;
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  DCHECK(!piece.empty());
  if (piece.size() <= longest_token_) {
    const Word* word = find_word(piece);
    if (word != nullptr && whole_[static_cast<size_t>(word->id)]) {
      out.push_back(word->id);
      return;
    }
  }
  merge(piece, scratch, out);
}

void Bpe::merge(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  const size_t count = piece.size();
  CHECK_LT(count, static_cast<size_t>(std::numeric_limits<int32_t>::max()));
  scratch.ids_.resize(count);
  scratch.ranks_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const auto byte = static_cast<uint8_t>(piece[i]);
    scratch.ids_[i] = byte_ids_[byte];
    if (i > 0) {
      const size_t left = static_cast<uint8_t>(piece[i - 1]);
      scratch.ranks_[i - 1] = byte_ranks_[left * 256 + byte];
    }
  }
  scratch.ranks_[count - 1] = kNoRank;
  if (count <= kShortSymbolsMax) {
    merge_short(scratch, count, out);
  } else {
    merge_long(scratch, count, out);
  }
}

// Symbols stay packed: merging i closes the gap behind it.
void Bpe::merge_short(Scratch& scratch, size_t count, std::vector<int32_t>& out) const {
  int32_t* ids = scratch.ids_.data();
  uint32_t* ranks = scratch.ranks_.data();
  while (count > 1) {
    const auto best = static_cast<size_t>(std::min_element(ranks, ranks + count - 1) - ranks);
    if (ranks[best] == kNoRank) break;
    ids[best] = lookup(ids[best], ids[best + 1]).result;
    std::copy(ids + best + 2, ids + count, ids + best + 1);
    std::copy(ranks + best + 2, ranks + count, ranks + best + 1);
    --count;
    ranks[best] = best + 1 < count ? lookup(ids[best], ids[best + 1]).rank : kNoRank;
    if (best > 0) ranks[best - 1] = lookup(ids[best - 1], ids[best]).rank;
  }
  out.insert(out.end(), ids, ids + count);
}

// Symbols form a linked list over the first byte's position; the heap may hold pairs that have
// changed since, which their rank gives away.
void Bpe::merge_long(Scratch& scratch, size_t count, std::vector<int32_t>& out) const {
  std::vector<int32_t>& ids = scratch.ids_;
  std::vector<uint32_t>& ranks = scratch.ranks_;
  std::vector<uint32_t>& next = scratch.next_;
  std::vector<uint32_t>& previous = scratch.previous_;
  std::vector<uint64_t>& heap = scratch.heap_;
  next.resize(count);
  previous.resize(count);
  heap.clear();
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kNone;
    previous[i] = i > 0 ? i - 1 : kNone;
    if (ranks[i] != kNoRank) heap.push_back((uint64_t{ranks[i]} << 32) | i);
  }
  const std::greater<uint64_t> later;
  std::make_heap(heap.begin(), heap.end(), later);

  const auto rank_again = [&](uint32_t at) {
    ranks[at] = next[at] == kNone ? kNoRank : lookup(ids[at], ids[next[at]]).rank;
    if (ranks[at] == kNoRank) return;
    heap.push_back((uint64_t{ranks[at]} << 32) | at);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const uint64_t top = heap.back();
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    if (ranks[at] != static_cast<uint32_t>(top >> 32)) continue;
    const uint32_t eaten = next[at];
    ids[at] = lookup(ids[at], ids[eaten]).result;
    ranks[eaten] = kNoRank;
    next[at] = next[eaten];
    if (next[at] != kNone) previous[next[at]] = at;
    rank_again(at);
    if (previous[at] != kNone) rank_again(previous[at]);
  }
  for (uint32_t at = 0; at != kNone; at = next[at]) out.push_back(ids[at]);
}

}  // namespace thimble::text
