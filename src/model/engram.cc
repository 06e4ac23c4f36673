#include "model/engram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "arch/engram_tables.h"
#include "base/check.h"

namespace thimble::model {
namespace {

__extension__ using Uint128 = unsigned __int128;

// numpy's SeedSequence: spreads a seed over a pool of four words and draws state words from it.
class SeedSequence {
 public:
  explicit SeedSequence(uint64_t seed) {
    const std::array<uint32_t, 2> entropy = {static_cast<uint32_t>(seed),
                                             static_cast<uint32_t>(seed >> 32)};
    const size_t words = entropy[1] != 0 ? 2 : 1;
    uint32_t constant = 0x43b0d7e5U;
    const auto hash = [&constant](uint32_t value) {
      return scramble(value, constant, 0x931e8875U);
    };
    for (size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(i < words ? entropy[i] : 0);
    for (size_t from = 0; from < pool_.size(); ++from) {
      for (size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
      }
    }
  }

  // Four 64-bit words, low half drawn first.
  std::array<uint64_t, 4> state() const {
    std::array<uint32_t, 8> words{};
    uint32_t constant = 0x8b51f9ddU;
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = scramble(pool_[i % pool_.size()], constant, 0x58f38dedU);
    }
    std::array<uint64_t, 4> out{};
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = words[2 * i] | (static_cast<uint64_t>(words[2 * i + 1]) << 32);
    }
    return out;
  }

 private:
  static uint32_t scramble(uint32_t value, uint32_t& constant, uint32_t multiplier) {
    value ^= constant;
    constant *= multiplier;
    value *= constant;
    return value ^ (value >> 16);
  }
  static uint32_t mix(uint32_t x, uint32_t y) {
    const uint32_t mixed = 0xca01f9ddU * x - 0x4973f715U * y;
    return mixed ^ (mixed >> 16);
  }
  std::array<uint32_t, 4> pool_{};
};

// numpy's default generator: a 128-bit linear congruence, output by xor-shift-low and rotation.
class Pcg64 {
 public:
  explicit Pcg64(uint64_t seed) {
    const auto words = SeedSequence(seed).state();
    increment_ = ((static_cast<Uint128>(words[2]) << 64 | words[3]) << 1) | 1;
    step();
    state_ += static_cast<Uint128>(words[0]) << 64 | words[1];
    step();
  }

  uint64_t next() {
    step();
    const auto folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

  // Uniform in [0, bound) by Lemire's multiplication with rejection.
  uint64_t below(uint64_t bound) {
    Uint128 product = static_cast<Uint128>(next()) * bound;
    if (static_cast<uint64_t>(product) < bound) {
      const uint64_t threshold = (0 - bound) % bound;
      while (static_cast<uint64_t>(product) < threshold) {
        product = static_cast<Uint128>(next()) * bound;
      }
    }
    return static_cast<uint64_t>(product >> 64);
  }

 private:
  void step() {
    constexpr Uint128 kMultiplier =
        static_cast<Uint128>(2549297995355413924ULL) << 64 | 4865540595714422341ULL;
    state_ = state_ * kMultiplier + increment_;
  }
  Uint128 state_ = 0;
  Uint128 increment_ = 0;
};

}  // namespace

std::vector<int64_t> engram_multipliers(uint32_t layer, uint32_t compressed_vocab_size,
                                        uint32_t count) {
  CHECK(compressed_vocab_size > 0);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const int64_t bound = std::max<int64_t>(1, kMax / compressed_vocab_size / 2);
  Pcg64 random(10007ULL * layer);
  std::vector<int64_t> out(count);
  for (int64_t& multiplier : out) {
    multiplier = static_cast<int64_t>(2 * random.below(static_cast<uint64_t>(bound)) + 1);
  }
  return out;
}

Result<EngramHasher> EngramHasher::create(const arch::Config& config,
                                          std::span<const int32_t> token_map) {
  const arch::EngramConfig& engram = config.engram;
  CHECK(!engram.layer_ids.empty());
  if (token_map.size() != config.vocab_size) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "the Engram token map has {} tokens, vocab_size is {}", token_map.size(),
                      config.vocab_size);
  }
  int32_t largest = -1;
  for (const int32_t id : token_map) {
    if (id < 0) return base::fail(ErrorCode::kInvalidArgument, "the Engram token map holds {}", id);
    largest = std::max(largest, id);
  }
  if (static_cast<uint32_t>(largest) + 1 != engram.compressed_vocab_size) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "the tokenizer compresses to {} classes, engram_compressed_vocab_size is {}: "
                      "another tokenizer than the model's?",
                      largest + 1, engram.compressed_vocab_size);
  }
  EngramHasher hasher;
  hasher.map_.assign(token_map.begin(), token_map.end());
  hasher.ngrams_ = engram.max_ngram_size;
  hasher.heads_ = engram.n_heads;
  hasher.pad_ = token_map[engram.pad_token_id];
  hasher.primes_ = arch::engram_primes(engram);
  for (const auto& primes : hasher.primes_) {
    hasher.offsets_.push_back(arch::engram_row_offsets(primes));
  }
  for (const uint32_t layer : engram.layer_ids) {
    hasher.multipliers_.push_back(
        engram_multipliers(layer, engram.compressed_vocab_size, engram.max_ngram_size));
  }
  return hasher;
}

std::vector<int32_t> EngramHasher::history_after(std::span<const int32_t> ids) const {
  std::vector<int32_t> history(history_tokens(), kDeadToken);
  const size_t known = std::min<size_t>(ids.size(), history.size());
  for (size_t i = 0; i < known; ++i) {
    history[history.size() - 1 - i] = static_cast<int32_t>(compressed(ids[ids.size() - 1 - i]));
  }
  return history;
}

void EngramHasher::row_ids(uint32_t engram, std::span<const int32_t> recent,
                           std::span<int64_t> rows) const {
  CHECK_EQ(recent.size(), static_cast<size_t>(ngrams_));
  CHECK_EQ(rows.size(), static_cast<size_t>((ngrams_ - 1) * heads_));
  uint64_t hash = 0;
  bool blocked = false;  // a latch: one dead position hides everything older
  size_t lookup = 0;
  for (uint32_t back = 0; back < ngrams_; ++back) {
    const int32_t token = recent[ngrams_ - 1 - back];
    blocked = blocked || token == kDeadToken;
    const int64_t id = blocked ? pad_ : token;
    hash ^= static_cast<uint64_t>(id) * static_cast<uint64_t>(multipliers_[engram][back]);
    if (back == 0) continue;
    for (uint32_t head = 0; head < heads_; ++head, ++lookup) {
      rows[lookup] =
          static_cast<int64_t>(hash % primes_[engram][lookup] + offsets_[engram][lookup]);
    }
  }
}

}  // namespace thimble::model
