#include "cache/tokens.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/check.h"

namespace thimble::cache {
namespace {

constexpr uint64_t kNowhere = std::numeric_limits<uint64_t>::max();

bool starts_before(const ContentMark& mark, uint64_t position) { return mark.position < position; }

// Index of the first mark that is not the same in both lists.
size_t first_difference(std::span<const ContentMark> a, std::span<const ContentMark> b) {
  const size_t shorter = std::min(a.size(), b.size());
  size_t i = 0;
  while (i < shorter && a[i] == b[i]) ++i;
  return i;
}

uint64_t position_of(std::span<const ContentMark> marks, size_t i) {
  return i < marks.size() ? marks[i].position : kNowhere;
}

// The mark at `position`, if the i-th is there: no mark is less than any.
std::optional<ContentMark> mark_at(std::span<const ContentMark> marks, size_t i,
                                   uint64_t position) {
  if (position_of(marks, i) != position) return std::nullopt;
  return marks[i];
}

}  // namespace

TokenView TokenView::slice(uint64_t from, uint64_t to) const {
  CHECK(begin <= from && from <= to && to <= end());
  const auto first = std::lower_bound(marks.begin(), marks.end(), from, starts_before);
  const auto last = std::lower_bound(first, marks.end(), to, starts_before);
  return {ids.subspan(from - begin, to - from), {first, last}, from};
}

Comparison compare(const TokenView& a, const TokenView& b) {
  CHECK_EQ(a.begin, b.begin);
  const uint64_t shorter = std::min(a.size(), b.size());
  const auto ids =
      std::mismatch(a.ids.begin(), a.ids.begin() + static_cast<ptrdiff_t>(shorter), b.ids.begin());
  const size_t mark = first_difference(a.marks, b.marks);
  const uint64_t mark_position = std::min(position_of(a.marks, mark), position_of(b.marks, mark));
  Comparison result;
  result.common = static_cast<uint64_t>(ids.first - a.ids.begin());
  if (mark_position != kNowhere) result.common = std::min(result.common, mark_position - a.begin);
  if (result.common == shorter) {
    result.order = a.size() <=> b.size();
    return result;
  }
  result.order = a.ids[result.common] <=> b.ids[result.common];
  if (result.order == std::strong_ordering::equal) {
    const uint64_t position = a.begin + result.common;
    result.order = mark_at(a.marks, mark, position) <=> mark_at(b.marks, mark, position);
  }
  return result;
}

TokenLog::TokenLog(const TokenView& tokens) : begin_(tokens.begin) { append(tokens); }

void TokenLog::append(const TokenView& tokens) {
  CHECK_EQ(tokens.begin, end());
  ids_.insert(ids_.end(), tokens.ids.begin(), tokens.ids.end());
  marks_.insert(marks_.end(), tokens.marks.begin(), tokens.marks.end());
}

void TokenLog::truncate(uint64_t end) {
  CHECK(begin_ <= end && end <= this->end());
  ids_.resize(end - begin_);
  marks_.erase(std::lower_bound(marks_.begin(), marks_.end(), end, starts_before), marks_.end());
}

}  // namespace thimble::cache
