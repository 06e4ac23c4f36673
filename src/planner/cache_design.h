// Global KV of an attention design as a list of streams of rows, from which its bytes a token
// follow, with the formula that gives them.
//
// Built from a configuration of this architecture, or one of the generations before it, whose
// record widths are public (docs/planner.md has each with its source). Bytes a token are exact in a
// double: sums of small integers over powers of two.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arch/config.h"
#include "planner/modes.h"

namespace thimble::planner {

// How a value is stored: alone, or in groups with a shared scale.
enum class ValueFormat { kBf16, kFp8, kFp4 };
const char* to_string(ValueFormat format);

// Rows of one kind in some layers: one row holds `tokens` tokens.
struct RowStream {
  std::string what;      // "main", "index", "latent record"
  uint64_t layers = 1;   // that store one
  uint64_t payload = 0;  // bytes of codes
  uint64_t scales = 0;   // bytes of scales
  uint64_t plain = 0;    // bytes of unquantised values and padding
  uint64_t tokens = 1;   // per row
  std::string widths;    // how payload, scales and the rest come about

  uint64_t row_bytes() const { return payload + scales + plain; }
  double bytes_per_token() const {
    return static_cast<double>(layers * row_bytes()) / static_cast<double>(tokens);
  }
};

struct CacheDesign {
  std::string id;  // what --config takes
  std::string name;
  std::vector<RowStream> streams;
  uint64_t sequence_bytes = 0;  // of any length: windows and such; 0: none, or not public
  // What our allocator takes for this architecture: blocks in a pool, ring rows beyond the window.
  struct Paged {
    uint64_t block_bytes = 0;
    uint64_t slack_bytes = 0;
  };
  std::optional<Paged> paged;
  std::string note;  // what public facts leave open; may be empty
  // Published bytes a token, where there is a figure; 0: none.
  double published = 0;

  double bytes_per_token() const;
  // "95 x 4096 = 389,120"
  std::string formula() const;
};

// The four generations, oldest first; the last is `latest`, of the released configuration.
std::vector<CacheDesign> generations();

// Of a model of this architecture; `name` is shown.
CacheDesign design_of(const arch::Config& config, std::string name);
// The same with any mix of layers and `latent` values a main row.
CacheDesign design_of(const arch::Config& config, const std::vector<LayerMode>& modes,
                      uint32_t latent, std::string name);

// Bytes of `values` values: codes, and the scales of this model's groups (16 for FP4 main rows, 32
// for index rows and FP8).
struct StoredBytes {
  uint64_t payload = 0;
  uint64_t scales = 0;
};
StoredBytes main_bytes(ValueFormat format, uint32_t values);
StoredBytes index_bytes(ValueFormat format, uint32_t values);

}  // namespace thimble::planner
