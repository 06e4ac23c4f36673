// Bytes of a fuzzer, taken apart into choices. An exhausted input gives zeros and empty texts, so
// that every input means something.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace thimble::fuzz {

class Input {
 public:
  Input(const uint8_t* data, size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  bool empty() const { return rest_.empty(); }

  uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto value = static_cast<uint8_t>(rest_[0]);
    rest_.remove_prefix(1);
    return value;
  }

  bool flag() { return (byte() & 1) != 0; }

  // Uniform enough in [0, bound). REQUIRES: 0 < bound <= 65536.
  size_t below(size_t bound) {
    const size_t low = byte();
    const size_t high = bound > 256 ? byte() : 0;
    return (high * 256 + low) % bound;
  }

  // A length byte (two above 255), then that many bytes, or as many as there are.
  std::string text(size_t longest) {
    const size_t size = std::min(below(longest + 1), rest_.size());
    const std::string out(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return out;
  }

  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

}  // namespace thimble::fuzz
