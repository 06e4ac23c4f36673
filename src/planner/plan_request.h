// What a plan is asked for: sizes, rates and a machine, each a field with a name, a default and a
// range.
//
// The command line, the server's query and the page's sliders all come from the one list of fields.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "planner/machine.h"

namespace thimble::planner {

struct PlanRequest {
  std::string modes;            // a mix of layers instead of the model's own; empty: its own
  uint64_t latent = 0;          // values of a main row; 0: the model's
  uint64_t context_tokens = 0;  // of one context; 0: 10^6, or the model's maximum
  uint64_t memory_bytes = 40ULL << 30;  // for contexts
  uint64_t contexts = 1;                // that the machine holds at once
  std::string machine = "desktop";
  std::optional<Machine> measured;  // instead of `machine`
  Machine own;                      // sizes and rates above 0 replace the machine's
  std::optional<uint64_t> gpu_bytes;
  uint64_t hit_tokens = 8192;               // cached
  uint64_t new_tokens = 256;                // after them
  uint64_t tier_bytes = 4'000'000'000'000;  // disk of the persistent tier
  double write_tokens_per_second = 20'000;
  double snapshots_per_minute = 30;
  double ttl_minutes = 10;
  double link_gbps = 50;  // 1e9 bytes a second
  double link_latency_us = 20;
};

enum class FieldKind { kText, kCount, kBytes, kReal };

struct PlanField {
  const char* name;  // "context", "dram-gbps": --context, ?context=
  const char* help;
  FieldKind kind;
  double low;   // smallest useful value of a slider, whose steps are powers
  double high;  // 0: no slider
  Result<void> (*set)(PlanRequest&, std::string_view text);
  std::string (*get)(const PlanRequest&);
};

std::span<const PlanField> plan_fields();

// kInvalidArgument names the field, what it held and what would do; kNotFound for an unknown name.
Result<void> set_field(PlanRequest& request, std::string_view name, std::string_view text);

}  // namespace thimble::planner
