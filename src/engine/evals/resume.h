// The cache-resumption evaluation: what continuing from a cached prefix changes, against the same
// text run cold.
//
// A case is a text, a boundary H and a prompt length N: the first H tokens are cached by a real run
// through the paged cache, the suffix [H, N) is run the way a route says, then tokens follow one by
// one. Logits are compared at row N - 1 and at every row after it, fed with the text's own tokens;
// beside that each route goes on with the cold run's greedy tokens until its own choice is another
// for the first time. Bits that differ on an exact route are a defect of this program; what the
// others cost is the point of measuring. Runs on the calling thread and the pool. Routes:
// docs/eval.md.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "arch/layer_plan.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/evals/divergence.h"
#include "model/forward.h"

namespace thimble::engine {

struct EvalText {
  std::string name;
  std::vector<int32_t> ids;
};

// Where a prompt is cut: `hit` tokens cached, `suffix` new ones.
struct ResumeCut {
  uint64_t hit = 0;
  uint64_t suffix = 0;
};

struct ResumeOptions {
  std::vector<ResumeCut> cuts;   // empty: default_cuts() of each text
  std::vector<uint64_t> depths;  // rows rebuilt beside the window; empty: default_depths()
  uint64_t continuation = 16;    // tokens after the prompt
  std::function<void(uint64_t done, uint64_t total)> progress;  // may be empty
};

// How a suffix is resumed.
struct ResumeRoute {
  enum class Kind { kSnapshot, kExact, kAuto, kBounded, kDepth };
  Kind kind = Kind::kExact;
  uint64_t depth = 0;  // of kBounded and kDepth

  std::string name() const;  // "snapshot", "exact", "auto", "bounded", "depth_256"
  bool must_be_exact() const { return kind == Kind::kSnapshot || kind == Kind::kExact; }
};

// One route in one case.
struct RouteRun {
  std::vector<RowDivergence> rows;  // of positions prompt - 1, prompt, ...
  // The first token of its own greedy continuation that is not the cold run's: 0 is the one right
  // after the prompt. Empty: all of them agree.
  std::optional<uint64_t> greedy_differs_at;
  uint64_t replayed_tokens = 0;  // below the hit
  uint64_t layer_tokens = 0;     // rows times layers that ran
};

struct ResumeCase {
  size_t text = 0;  // index into ResumeReport::texts
  ResumeCut cut;
  std::vector<RouteRun> routes;    // as ResumeReport::routes
  uint64_t cold_layer_tokens = 0;  // what the whole prompt costs

  uint64_t prompt_tokens() const { return cut.hit + cut.suffix; }
};

// Sums over all cases; differences by distance from the boundary in steps of two: [1, 2), [2, 4)...
struct DistanceBin {
  uint64_t from = 0;  // distances in [from, to): a position p lies p + 1 - H tokens from H
  uint64_t to = 0;
  DivergenceSum sum;
};

struct RouteSummary {
  DivergenceSum sum;
  std::vector<DistanceBin> by_distance;  // those with positions, ascending
  uint64_t greedy_differs = 0;           // cases whose greedy continuation changes
  // The earliest of these: distance of the position that chose another token.
  std::optional<uint64_t> greedy_distance_min;
  uint64_t replayed_tokens = 0;
  uint64_t layer_tokens = 0;
};

struct ResumeReport {
  uint32_t window = 0;
  uint64_t exact_depth = 0;  // engine::exact_depth()
  uint64_t continuation = 0;
  std::vector<EvalText> texts;
  std::vector<ResumeRoute> routes;
  std::vector<ResumeCase> cases;
  std::vector<RouteSummary> summaries;  // [routes]

  bool exact_routes_hold() const;  // not a bit differs where none may
};

// A text of `tokens` tokens cut at the edges of windows and blocks, at odd places and far in, with
// short and long suffixes; each leaves `continuation` tokens. Empty when it is too short.
std::vector<ResumeCut> default_cuts(uint32_t window, uint64_t tokens, uint64_t continuation);

// The window doubled until a prompt of `prompt_tokens` is covered or all is exact, and 256 where
// prompts are longer; ascending.
std::vector<uint64_t> default_depths(const arch::LayerPlan& plan, uint64_t prompt_tokens);

// Depth from which nothing differs: W - 1 rows for each layer, for what the first row of the
// encoder lacks reaches so far. (The entries are exact after the encoder's layers already.)
uint64_t exact_depth(const arch::LayerPlan& plan);

// kInvalidArgument when no text is long enough for a cut, or a depth is below the window.
Result<ResumeReport> evaluate_resume(const model::Model& model, std::span<const EvalText> texts,
                                     const ResumeOptions& options, base::ThreadPool& pool);

}  // namespace thimble::engine
