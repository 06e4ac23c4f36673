// Aim: rings know which rows are there; short steps can be taken back at every place of the ring,
// longer ones cannot and say so; a packed window comes back as it was. Method: rows that spell
// their layer and position; every length around several turns of the ring.
#include "cache/window_rings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#if defined(__SANITIZE_ADDRESS__)
// The exhaustion test asks for more than can exist: null, as without the sanitizer, not an abort.
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#elif defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
#endif

namespace thimble::cache {
namespace {

constexpr uint32_t kWindow = 8;
constexpr uint64_t kSlots = kWindow + arch::kWindowSlackRows;

WindowGeometry geometry() { return {.layers = 3, .window = kWindow, .row_bytes = 4, .dims = 4}; }

WindowRings make() {
  auto rings = WindowRings::create(geometry());
  EXPECT_TRUE(rings.has_value());
  return std::move(*rings);
}

uint32_t word(uint32_t layer, uint64_t position) {
  return layer * 1000 + static_cast<uint32_t>(position) + 1;
}

void put(WindowRings& rings, uint64_t from, uint64_t to) {
  const auto views = rings.views();
  for (uint32_t layer = 0; layer < views.size(); ++layer) {
    for (uint64_t p = from; p < to; ++p) {
      const uint32_t value = word(layer, p);
      std::memcpy(views[layer].row(p), &value, 4);
    }
  }
}

void write(WindowRings& rings, uint64_t from, uint64_t to) {
  put(rings, from, to);
  rings.written(from, to);
}

bool holds_what_it_says(const WindowRings& rings) {
  const auto views = rings.views();
  for (uint32_t layer = 0; layer < views.size(); ++layer) {
    for (uint64_t p = rings.begin(); p < rings.end(); ++p) {
      if (base::load<uint32_t>(views[layer].row(p)) != word(layer, p)) return false;
    }
  }
  return rings.end() - rings.begin() <= kSlots && rings.rest_is_zero();
}

TEST(WindowRings, RejectedRowsAreForgottenAtEveryPlaceOfTheRing) {
  for (uint64_t length = 0; length <= 4 * kSlots; ++length) {
    for (uint64_t rejected = 0; rejected <= 2 * kSlots; ++rejected) {
      WindowRings rings = make();
      write(rings, 0, length);
      put(rings, length, length + rejected);
      rings.erase(length, length + rejected);
      ASSERT_TRUE(holds_what_it_says(rings)) << length << " " << rejected;
      ASSERT_EQ(rings.end(), length);
      // Eight rows of slack: a step so short never costs the window.
      const bool is_short = length == 0 || length + rejected <= kSlots;
      ASSERT_EQ(rings.complete(length), is_short || rejected <= arch::kWindowSlackRows + 1)
          << length << " " << rejected;
      ASSERT_EQ(rings.can_pack(length), is_short || rejected <= arch::kWindowSlackRows);
    }
  }
}

TEST(WindowRings, ShorteningGoesOnLikeARunThatNeverHadTheTokens) {
  for (uint64_t length = 1; length <= 3 * kSlots; ++length) {
    for (uint64_t cut = 0; cut <= length; ++cut) {
      WindowRings rings = make();
      write(rings, 0, length);
      rings.erase(length - cut, length);
      ASSERT_TRUE(holds_what_it_says(rings));
      if (!rings.complete(length - cut)) {
        ASSERT_GT(cut, arch::kWindowSlackRows);
        const uint64_t from = length - cut > kWindow ? length - cut - kWindow : 0;
        write(rings, from, length - cut);  // replay
      }
      ASSERT_TRUE(rings.complete(length - cut));
      write(rings, length - cut, length + 3);
      ASSERT_TRUE(holds_what_it_says(rings)) << length << " " << cut;
    }
  }
}

TEST(WindowRings, ReplayFillsInBeforeAndAGapForgets) {
  WindowRings rings = make();
  rings.begin_at(100);
  EXPECT_FALSE(rings.complete(100));
  write(rings, 92, 100);
  EXPECT_EQ(rings.begin(), 92u);
  EXPECT_TRUE(rings.complete(100));
  EXPECT_TRUE(rings.can_pack(100));
  write(rings, 120, 121);
  EXPECT_EQ(rings.begin(), 120u);
  EXPECT_FALSE(rings.complete(121));
  rings.written(500, 500);
  EXPECT_EQ(rings.end(), 121u) << "nothing written, nothing forgotten";
  EXPECT_TRUE(holds_what_it_says(rings));
}

TEST(WindowRings, ReplayMayComeInPieces) {
  for (uint64_t length = 1; length <= 3 * kSlots; ++length) {
    for (uint64_t begin = 0; begin <= length; ++begin) {
      for (const uint64_t piece : {1u, 2u, 3u, 7u, 20u}) {
        WindowRings rings = make();
        // Rows that a rewind has left, or none at all.
        write(rings, 0, length);
        if (piece % 2 == 0) rings.erase(0, length);
        if (rings.end() == 0) rings.begin_at(length);
        for (uint64_t from = begin; from < length; from += piece) {
          write(rings, from, std::min(from + piece, length));
          ASSERT_TRUE(holds_what_it_says(rings)) << length << " " << begin << " " << piece;
        }
        ASSERT_EQ(rings.end(), length);
        if (begin == length) continue;
        ASSERT_LE(rings.begin(), std::max(begin, length > kSlots ? length - kSlots : 0));
      }
    }
  }
}

TEST(WindowRings, APackedWindowHasNoSlackAndComesBack) {
  for (uint64_t position = 0; position <= 3 * kSlots; ++position) {
    WindowRings rings = make();
    write(rings, 0, position);
    const std::vector<std::byte> packed = rings.pack(position);
    EXPECT_EQ(packed.size(), 3 * std::min<uint64_t>(position, kWindow) * 4);
    for (uint64_t back = 0; back <= std::min<uint64_t>(position, 1); ++back) {
      WindowRings again = make();
      again.begin_at(position);
      again.unpack(packed, position, position - back);
      ASSERT_TRUE(again.complete(position - back));
      ASSERT_TRUE(holds_what_it_says(again)) << position << " " << back;
    }
  }
}

TEST(WindowRings, OutOfMemoryIsAnErrorThatNamesTheBytes) {
  WindowGeometry large = geometry();
  large.layers = 1u << 31;
  large.row_bytes = 1u << 22;
  const auto rings = WindowRings::create(large);
  ASSERT_FALSE(rings.has_value());
  EXPECT_EQ(rings.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(rings.error().message, testing::HasSubstr("144,115,188,075,855,872"));
}

}  // namespace
}  // namespace thimble::cache
