// The whole plan: everything that follows from a configuration, a machine and some wishes before a
// byte is loaded.
//
// Pure arithmetic; every section has its own header. to_text(), to_json() and charts() show the
// same figures. Source: docs/planner.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "planner/attribution.h"
#include "planner/cache_design.h"
#include "planner/capacity.h"
#include "planner/flops.h"
#include "planner/ledger.h"
#include "planner/placement.h"
#include "planner/plan_request.h"
#include "planner/replay_costs.h"

namespace thimble::planner {

// A decoded token at the end of so many tokens.
struct DecodePoint {
  uint64_t context = 0;
  OpsByPart ops;
  double weight_bytes = 0;
  double cache_bytes = 0;
  double seconds = 0;  // at the machine's roofs, all weights in memory
};

// A cold prompt.
struct PrefillPoint {
  uint64_t tokens = 0;
  OpsByPart exact;         // decoder rows as far as the last row needs them
  OpsByPart bounded_tail;  // a window of decoder rows: what other engines do
  double seconds = 0;      // of `exact`, likewise
};

// New tokens after a hit (or none): rows times layers, and operations.
struct ReplayPoint {
  uint64_t new_tokens = 0;
  ReplayCosts layer_tokens;
  double snapshot = 0;  // operations
  double exact = 0;
  double automatic = 0;
  double bounded = 0;
  double cold = 0;
};

// What only a model of this architecture has.
struct ModelPlan {
  Ledger ledger;
  std::vector<RoleCost> roles;
  ActivatedParameters activated;
  std::vector<TrafficLine> weight_lines;
  std::vector<TrafficLine> cache_lines;  // at the planned context
  std::vector<DecodePoint> decode;
  double growth_weighted = 0;  // of the last point over the first
  double growth_unweighted = 0;
  std::vector<PrefillPoint> prefill;
  Placement placement;
  Transfer transfer;
  uint64_t replay_hit = 0;          // the hit asked for, as far as the model reaches
  std::vector<ReplayPoint> replay;  // after it
  ReplayPoint replay_asked;
};

struct Plan {
  std::string source;  // where the configuration is from
  PlanRequest request;
  uint64_t context_tokens = 0;  // of one context
  Machine machine;
  CacheDesign design;
  std::string modes;
  std::vector<CacheDesign> generations;
  std::vector<std::vector<ConcurrencyPoint>> concurrency;  // of each generation, then of `design`
  std::optional<Attribution> attribution;
  Contexts contexts;
  PersistentTier tier;
  SnapshotPool snapshots;
  std::optional<ModelPlan> model;
  std::string no_model;  // why there is none
};

// A model of this architecture, or the design of a generation before it.
using PlanSubject = std::variant<arch::Config, CacheDesign>;

// kInvalidArgument or kUnsupported: a wish that makes no sense, named.
Result<Plan> make_plan(const PlanSubject& subject, std::string source, const PlanRequest& request);

std::string to_text(const Plan& plan);
// "ledger", "generations", "attribution", "capacity", "flops", "placement", "transfer", "replay".
std::string to_json(const Plan& plan);

struct Chart {
  const char* name;     // "generations", "concurrency", "decode", "attribution", "replay"
  std::string picture;  // an SVG document
};
// Those that the plan has figures for.
std::vector<Chart> charts(const Plan& plan);

}  // namespace thimble::planner
