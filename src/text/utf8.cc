#include "text/utf8.h"

#include <simdjson.h>

#include "base/check.h"

namespace thimble::text {
namespace {

// What the first byte of a well-formed sequence promises (Unicode Standard, table 3-7).
struct Lead {
  uint8_t bytes = 0;          // 0: cannot begin a sequence of several bytes.
  uint8_t second_low = 0x80;  // Range of the second byte; the others are 80..BF.
  uint8_t second_high = 0xBF;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0xC2 || byte > 0xF4) return {};
  if (byte < 0xE0) return {.bytes = 2};
  if (byte < 0xF0) {
    return {.bytes = 3,
            .second_low = static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            .second_high = static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  }
  return {.bytes = 4,
          .second_low = static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
          .second_high = static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
}

}  // namespace

Utf8Step next_code_point(std::string_view bytes) {
  DCHECK(!bytes.empty());
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {.code_point = first, .bytes = 1, .valid = true};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {};
  char32_t value = first & (0x7FU >> lead.bytes);
  for (uint8_t i = 1; i < lead.bytes; ++i) {
    if (i == bytes.size()) return {.bytes = i, .incomplete = true};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {.bytes = i};
    value = (value << 6) | (byte & 0x3FU);
  }
  return {.code_point = value, .bytes = lead.bytes, .valid = true};
}

void append_utf8(char32_t code_point, std::string& out) {
  DCHECK(code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF));
  const auto push = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | (code_point >> 6));
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | (code_point >> 12));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | (code_point >> 18));
    push(0x80 | ((code_point >> 12) & 0x3F));
    push(0x80 | ((code_point >> 6) & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

bool is_valid_utf8(std::string_view bytes) {
  return simdjson::validate_utf8(bytes.data(), bytes.size());
}

std::string to_valid_utf8(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  out.reserve(bytes.size() + 16);
  while (!bytes.empty()) {
    const Utf8Step step = next_code_point(bytes);
    out.append(step.valid ? bytes.substr(0, step.bytes) : kReplacementUtf8);
    bytes.remove_prefix(step.bytes);
  }
  return out;
}

}  // namespace thimble::text
