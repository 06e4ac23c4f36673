#include "planner/attribution.h"

#include <algorithm>

#include "base/check.h"

namespace thimble::planner {
namespace {

double entries_per_token(const std::vector<LayerMode>& modes, bool shared, bool compressed) {
  double entries = 0;
  for (const LayerMode& mode : modes) {
    if (mode.ratio == 0) continue;
    if (shared && mode.mode != arch::AttentionMode::kFull) continue;
    entries += compressed ? 1.0 / mode.ratio : 1.0;
  }
  return entries;
}

}  // namespace

const LatticePoint& Attribution::at(bool shared, bool compressed, ValueFormat format) const {
  const auto found = std::ranges::find_if(points, [&](const LatticePoint& point) {
    return point.shared == shared && point.compressed == compressed && point.format == format;
  });
  CHECK(found != points.end());
  return *found;
}

Attribution attribute(const std::vector<LayerMode>& modes, uint32_t latent, uint32_t index) {
  Attribution out;
  out.values = latent + index;
  for (const bool shared : {false, true}) {
    for (const ValueFormat format : {ValueFormat::kBf16, ValueFormat::kFp8, ValueFormat::kFp4}) {
      for (const bool compressed : {false, true}) {
        LatticePoint point{.shared = shared, .compressed = compressed, .format = format};
        point.entries_per_token = entries_per_token(modes, shared, compressed);
        const StoredBytes main = main_bytes(format, latent);
        const StoredBytes key = index_bytes(format, index);
        const auto payload = static_cast<double>(main.payload + key.payload);
        const auto scales = static_cast<double>(main.scales + key.scales);
        point.payload_bytes = point.entries_per_token * payload;
        point.bytes = point.entries_per_token * (payload + scales);
        out.points.push_back(point);
      }
    }
  }
  const LatticePoint& shared_fp8 = out.at(true, true, ValueFormat::kFp8);
  if (shared_fp8.payload_bytes == 0) return out;
  out.sharing_factor =
      out.at(false, true, ValueFormat::kFp8).payload_bytes / shared_fp8.payload_bytes;
  out.format_factor = shared_fp8.payload_bytes / out.at(true, true, ValueFormat::kFp4).bytes;
  return out;
}

}  // namespace thimble::planner
