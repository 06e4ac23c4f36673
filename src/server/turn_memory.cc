#include "server/turn_memory.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/random.h"

namespace thimble::server {
namespace {

constexpr size_t kAnswersOfAPlaceMax = 8;  // of one prompt asked again and again
constexpr uint64_t kOverheadBytes = 256;   // list, map and vectors

uint64_t process_secret() {
  static const uint64_t secret = base::entropy_u64();
  return secret;
}

}  // namespace

PrefixHash::PrefixHash() : value_(process_secret()) {}

void PrefixHash::add(std::span<const int32_t> ids) {
  for (const int32_t id : ids) {
    value_ = base::mix64(value_ * 0x9E3779B97F4A7C15ULL + static_cast<uint32_t>(id) + 1);
  }
}

std::optional<std::vector<int32_t>> spelling(std::span<const int32_t> ids,
                                             std::span<const TurnPart> parts,
                                             const text::Tokenizer& tokenizer) {
  size_t used = 0;
  for (const TurnPart& part : parts) {
    if (part.id) {
      if (used == ids.size() || ids[used] != *part.id) return {};
      ++used;
      continue;
    }
    for (std::string_view rest = part.text; !rest.empty(); ++used) {
      if (used == ids.size()) return {};
      const int32_t id = ids[used];
      if (id < 0 || static_cast<uint32_t>(id) >= tokenizer.size() || tokenizer.is_added(id)) {
        return {};
      }
      const std::string& bytes = tokenizer.token_bytes(id);
      if (bytes.empty() || !rest.starts_with(bytes)) return {};
      rest.remove_prefix(bytes.size());
    }
  }
  return std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(used));
}

uint64_t TurnMemory::Turn::bytes() const {
  return kOverheadBytes + 2 * place.salt.size() + ids.size() * sizeof(int32_t);
}

size_t TurnMemory::PlaceHash::operator()(const Place& place) const {
  return std::hash<std::string>()(place.salt) ^ static_cast<size_t>(place.prefix);
}

void TurnMemory::remember(const Place& place, std::vector<int32_t> ids) {
  if (ids.empty()) return;
  ids.shrink_to_fit();
  const std::lock_guard lock(mutex_);
  auto& here = by_place_[place];
  const auto same =
      std::find_if(here.begin(), here.end(), [&](const auto& turn) { return turn->ids == ids; });
  if (same != here.end()) {  // now the newest
    by_use_.splice(by_use_.begin(), by_use_, *same);
    std::rotate(same, same + 1, here.end());
    return;
  }
  by_use_.push_front({place, std::move(ids)});
  here.push_back(by_use_.begin());
  bytes_ += by_use_.front().bytes();
  if (here.size() > kAnswersOfAPlaceMax) forget(here.front());
  while (bytes_ > bytes_max_) forget(std::prev(by_use_.end()));
}

std::optional<std::vector<int32_t>> TurnMemory::find(const Place& place,
                                                     std::span<const TurnPart> parts,
                                                     const text::Tokenizer& tokenizer) {
  const std::lock_guard lock(mutex_);
  const auto here = by_place_.find(place);
  if (here == by_place_.end()) return {};
  for (auto turn = here->second.rbegin(); turn != here->second.rend(); ++turn) {
    auto ids = spelling((*turn)->ids, parts, tokenizer);
    if (!ids) continue;
    by_use_.splice(by_use_.begin(), by_use_, *turn);
    return ids;
  }
  return {};
}

uint64_t TurnMemory::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

void TurnMemory::forget(Turns::iterator turn) {
  const auto here = by_place_.find(turn->place);
  std::erase(here->second, turn);
  if (here->second.empty()) by_place_.erase(here);
  bytes_ -= turn->bytes();
  by_use_.erase(turn);
}

}  // namespace thimble::server
