// The window rings of one sequence: for every layer, the rows of its last positions.
//
// A ring has kWindowSlackRows slots more than the window, so that a short step that is not accepted
// leaves the window whole. The model writes rows through the views; this class knows which
// positions are there, forgets those that were not accepted, and packs a window into a snapshot or
// back. Owned by one sequence; engine thread only. Sources: backbone spec section 7; serving spec
// sections 3.2 and 8.2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arch/cache_layout.h"
#include "arch/config.h"
#include "base/bytes.h"
#include "base/result.h"
#include "kernels/paged_rows.h"

namespace thimble::cache {

// What the rings look like, the same for all sequences of a model.
struct WindowGeometry {
  uint32_t layers = 0;
  uint32_t window = 0;
  uint32_t row_bytes = 0;
  uint32_t dims = 0;
  kernels::RowFormat format = kernels::RowFormat::kWindowFp8;

  uint32_t slots() const { return window + arch::kWindowSlackRows; }
  uint64_t ring_bytes() const { return uint64_t{slots()} * row_bytes; }
  uint64_t bytes() const { return layers * ring_bytes(); }
  // Rows a snapshot at `position` holds of each layer, and its bytes in all layers.
  uint64_t snapshot_rows(uint64_t position) const;
  uint64_t snapshot_bytes(uint64_t position) const {
    return layers * snapshot_rows(position) * row_bytes;
  }
};

WindowGeometry make_window_geometry(const arch::Config& config, const arch::CacheLayout& layout);

class WindowRings {
 public:
  // Rings of zeros; kResourceExhausted names the bytes when memory is out.
  static Result<WindowRings> create(const WindowGeometry& geometry);

  std::vector<kernels::RingRows> views() const;  // [layers]
  uint64_t bytes() const { return geometry_.bytes(); }

  // The rows of positions [begin(), end()) are there, in every layer.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  // May the next token, at `position`, run? All it sees before itself must be there.
  bool complete(uint64_t position) const;
  // Is all there that a snapshot at `position` holds?
  bool can_pack(uint64_t position) const;

  // Starts an empty range at `position`. REQUIRES: nothing was written yet.
  void begin_at(uint64_t position);
  // The model wrote the rows of [from, to), of which the last slots() are kept. Rows from `to` on
  // are forgotten (a replay begins below them), and so are rows that do not adjoin these.
  void written(uint64_t from, uint64_t to);
  // Forgets positions from `end` on. Rows up to `touched` may have been written, so what they
  // overwrote is gone too.
  void erase(uint64_t end, uint64_t touched);

  // The last rows before `position`, oldest first: [layers, snapshot_rows(position), row_bytes].
  // REQUIRES: can_pack(position).
  std::vector<std::byte> pack(uint64_t position) const;
  // What pack(position) gave, less the rows from `end` on. REQUIRES: nothing was written yet.
  void unpack(Bytes rows, uint64_t position, uint64_t end);
  void copy_from(const WindowRings& other);

  // Every slot outside of [begin(), end()) is zero, in every layer.
  bool rest_is_zero() const;

 private:
  struct FreeAligned {
    void operator()(std::byte* bytes) const;
  };

  explicit WindowRings(const WindowGeometry& geometry) : geometry_(geometry) {}
  std::byte* row(uint32_t layer, uint64_t position) const {
    return bytes_.get() + layer * geometry_.ring_bytes() +
           (position % geometry_.slots()) * geometry_.row_bytes;
  }
  void zero(uint64_t from, uint64_t to);

  WindowGeometry geometry_;
  std::unique_ptr<std::byte[], FreeAligned> bytes_;  // [layers, slots, row_bytes]
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace thimble::cache
