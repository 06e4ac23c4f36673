#include "cache/window_rings.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "arch/layer_plan.h"
#include "base/check.h"
#include "cache/internal/block_rows.h"

namespace thimble::cache {
namespace {

constexpr std::align_val_t kAlignment{64};

}  // namespace

uint64_t WindowGeometry::snapshot_rows(uint64_t position) const {
  return std::min<uint64_t>(position, window);
}

WindowGeometry make_window_geometry(const arch::Config& config, const arch::CacheLayout& layout) {
  WindowGeometry geometry;
  geometry.layers = layout.window_layers;
  geometry.window = config.sliding_window;
  geometry.row_bytes = layout.window_row_bytes;
  geometry.dims = config.head_dim;
  geometry.format = layout.format == arch::CacheFormat::kFloat ? kernels::RowFormat::kFloat
                                                               : kernels::RowFormat::kWindowFp8;
  return geometry;
}

void WindowRings::FreeAligned::operator()(std::byte* bytes) const {
  ::operator delete(bytes, kAlignment);
}

Result<WindowRings> WindowRings::create(const WindowGeometry& geometry) {
  WindowRings rings(geometry);
  rings.bytes_.reset(
      static_cast<std::byte*>(::operator new(geometry.bytes(), kAlignment, std::nothrow)));
  if (rings.bytes_ == nullptr) {
    return base::fail(ErrorCode::kResourceExhausted,
                      "no memory for the {} bytes of a sequence's window rings",
                      base::with_commas(geometry.bytes()));
  }
  std::memset(rings.bytes_.get(), 0, geometry.bytes());
  return rings;
}

std::vector<kernels::RingRows> WindowRings::views() const {
  std::vector<kernels::RingRows> views;
  for (uint32_t layer = 0; layer < geometry_.layers; ++layer) {
    views.push_back({.base = row(layer, 0),
                     .slots = geometry_.slots(),
                     .row_bytes = geometry_.row_bytes,
                     .dims = geometry_.dims,
                     .format = geometry_.format});
  }
  return views;
}

bool WindowRings::complete(uint64_t position) const {
  return end_ == position && begin_ <= arch::first_visible(position, geometry_.window);
}

bool WindowRings::can_pack(uint64_t position) const {
  return end_ == position && begin_ + geometry_.snapshot_rows(position) <= position;
}

void WindowRings::begin_at(uint64_t position) {
  CHECK_EQ(begin_, end_);
  begin_ = position;
  end_ = position;
}

void WindowRings::written(uint64_t from, uint64_t to) {
  CHECK_LE(from, to);
  if (from == to) return;
  const uint64_t slots = geometry_.slots();
  const uint64_t oldest = to > slots ? to - slots : 0;
  const bool goes_on = from <= end_;
  const bool covers_end = to >= end_;
  begin_ = std::max(goes_on ? std::min(begin_, from) : from, oldest);
  end_ = to;
  if (!goes_on || !covers_end) zero(end_, begin_ + slots);
}

void WindowRings::erase(uint64_t end, uint64_t touched) {
  const uint64_t slots = geometry_.slots();
  touched = std::max(touched, end_);
  if (touched <= end) return;
  zero(end, std::min(touched, end + slots));
  const uint64_t oldest = touched > slots ? touched - slots : 0;
  const uint64_t begin_before = begin_;
  end_ = std::min(end_, end);
  begin_ = std::min(std::max(begin_, oldest), end_);
  zero(begin_before, std::max(begin_before, begin_));
}

void WindowRings::zero(uint64_t from, uint64_t to) {
  for (uint32_t layer = 0; layer < geometry_.layers; ++layer) {
    for (uint64_t position = from; position < to; ++position) {
      std::memset(row(layer, position), 0, geometry_.row_bytes);
    }
  }
}

std::vector<std::byte> WindowRings::pack(uint64_t position) const {
  CHECK(can_pack(position));
  std::vector<std::byte> packed(geometry_.snapshot_bytes(position));
  std::byte* to = packed.data();
  for (uint32_t layer = 0; layer < geometry_.layers; ++layer) {
    for (uint64_t at = position - geometry_.snapshot_rows(position); at < position; ++at) {
      std::memcpy(to, row(layer, at), geometry_.row_bytes);
      to += geometry_.row_bytes;
    }
  }
  return packed;
}

void WindowRings::unpack(Bytes rows, uint64_t position, uint64_t end) {
  CHECK_EQ(begin_, end_);
  CHECK_LE(end, position);
  CHECK_EQ(rows.size(), geometry_.snapshot_bytes(position));
  begin_ = position - geometry_.snapshot_rows(position);
  end_ = std::max(end, begin_);
  const std::byte* from = rows.data();
  for (uint32_t layer = 0; layer < geometry_.layers; ++layer) {
    for (uint64_t at = begin_; at < position; ++at, from += geometry_.row_bytes) {
      if (at < end_) std::memcpy(row(layer, at), from, geometry_.row_bytes);
    }
  }
}

void WindowRings::copy_from(const WindowRings& other) {
  CHECK_EQ(geometry_.bytes(), other.geometry_.bytes());
  std::memcpy(bytes_.get(), other.bytes_.get(), geometry_.bytes());
  begin_ = other.begin_;
  end_ = other.end_;
}

bool WindowRings::rest_is_zero() const {
  for (uint32_t layer = 0; layer < geometry_.layers; ++layer) {
    for (uint64_t position = end_; position < begin_ + geometry_.slots(); ++position) {
      if (!is_zero(row(layer, position), geometry_.row_bytes)) return false;
    }
  }
  return true;
}

}  // namespace thimble::cache
