// What this server's model answered, in token ids, so that a conversation that comes back as text
// is tokenised as it was sampled.
//
// Byte-level BPE has many spellings of a text: the ids that a model samples need not be those that
// its text is encoded to, and a cached prefix serves only the ids it was computed for. A turn is
// remembered under the tenant and a hash of all ids before it, so it is found by the conversation
// that it belongs to and by no other. What is found is used only if it spells exactly the text that
// the rendering has at that place: it never changes a prompt's text, and control tokens are never
// taken from it. Bounded, least recently used first out. Any thread. Source: serving spec 4.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"

namespace thimble::server {

// Goes over ids one after the other. Equal sequences have equal hashes in one process alone.
class PrefixHash {
 public:
  PrefixHash();
  void add(std::span<const int32_t> ids);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_;
};

// A stretch of a rendered turn: one control token of the format, or text.
struct TurnPart {
  std::optional<int32_t> id;  // empty: text
  std::string text;
};

// The first of `ids` that spell exactly `parts`, a tail that was not shown left out. Empty if they
// do not, or only with an added token where the parts have text.
std::optional<std::vector<int32_t>> spelling(std::span<const int32_t> ids,
                                             std::span<const TurnPart> parts,
                                             const text::Tokenizer& tokenizer);

class TurnMemory {
 public:
  // Where a turn begins: whose it is, and the PrefixHash of all ids before it.
  struct Place {
    std::string salt;
    uint64_t prefix = 0;
    bool operator==(const Place&) const = default;
  };

  explicit TurnMemory(uint64_t bytes_max) : bytes_max_(bytes_max) {}
  TurnMemory(const TurnMemory&) = delete;
  TurnMemory& operator=(const TurnMemory&) = delete;

  // The ids of the turn that was answered there. Of one place the newest few are kept.
  void remember(const Place& place, std::vector<int32_t> ids);

  // Ids that were answered there and spell `parts`; the newest that do.
  std::optional<std::vector<int32_t>> find(const Place& place, std::span<const TurnPart> parts,
                                           const text::Tokenizer& tokenizer);

  uint64_t bytes() const;

 private:
  struct Turn {
    Place place;
    std::vector<int32_t> ids;
    uint64_t bytes() const;
  };
  struct PlaceHash {
    size_t operator()(const Place& place) const;
  };
  using Turns = std::list<Turn>;

  void forget(Turns::iterator turn);

  const uint64_t bytes_max_;
  mutable std::mutex mutex_;  // guards the rest
  Turns by_use_;              // most recently used first
  std::unordered_map<Place, std::vector<Turns::iterator>, PlaceHash> by_place_;  // oldest first
  uint64_t bytes_ = 0;
};

}  // namespace thimble::server
