// Rotary position tables: one frequency per adjacent pair, YaRN for layers that read compressed KV.
//
// Every step (power, reciprocal, ramp, blend) is a float32 step and the angle is rounded to float32
// before its cosine, as the published reference does. Source: backbone spec 3.5 and 14.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "arch/config.h"

namespace thimble::model {

struct RopeFrequencies {
  std::vector<float> window;      // [pairs]: layers of ratio 0, plain theta
  std::vector<float> compressed;  // [pairs]: all other layers, compressed theta with YaRN

  const std::vector<float>& of(bool compressed_rope) const {
    return compressed_rope ? compressed : window;
  }
};

RopeFrequencies make_rope_frequencies(const arch::Config& config);

// cos and sin of the float32 angle position * frequency, correctly rounded. Spans: [pairs].
void rope_row(std::span<const float> frequencies, uint64_t position, std::span<float> cos,
              std::span<float> sin);

// The same of the unrounded angle and frequency, "Mode E" of backbone spec 11.3. Spans: [pairs].
void unrounded_rope_row(const arch::Config& config, bool compressed_rope, uint64_t position,
                        std::span<double> cos, std::span<double> sin);

}  // namespace thimble::model
