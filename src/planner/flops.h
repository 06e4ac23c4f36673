// Operations of a row, by layer and kind, and what they add up to for prompts and decoded tokens.
//
// Counted are the multiply-adds (two operations each) of every matrix, of attention over window and
// selected entries, and of index scores; norms, activations, softmax and selection are not. Matrix
// shapes come from the checkpoint's own table (arch/weight_table.h), rows from arch/row_plan.h.
// Each operation has the precision of the published design: FP8 for FP8 and FP4 weights (their
// activations are FP8), FP4 for index scores, BF16 for the rest, wo_a included, whose weights the
// reference expands. Source: backbone spec sections 2.3, 3.3, 5, 6.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "arch/config.h"
#include "arch/replay_policy.h"
#include "arch/row_plan.h"

namespace thimble::planner {

struct Ops {
  double bf16 = 0;
  double fp8 = 0;
  double fp4 = 0;

  double total() const { return bf16 + fp8 + fp4; }
  // An FP8 operation costs half of a BF16 one, an FP4 one a quarter: the weights of the published
  // figures.
  double weighted() const { return bf16 + 0.5 * fp8 + 0.25 * fp4; }
  Ops& operator+=(const Ops& other);
};
Ops operator*(const Ops& ops, double times);
Ops operator+(Ops a, const Ops& b);

// What an operation belongs to.
enum class Part { kAttention, kExperts, kMixing, kEngram, kAttend, kIndex, kHead };
const char* to_string(Part part);  // "attention linears", "experts", ...

using OpsByPart = std::map<Part, Ops>;
Ops sum(const OpsByPart& parts);

// Layers that do the same share a line: what a row costs in one of them, without what depends on
// its position.
struct RoleCost {
  std::string role;  // "Full, ratio 2", "Reuse", ...
  uint32_t layers = 0;
  uint32_t first_layer = 0;
  OpsByPart row;        // a row that runs whole
  OpsByPart keys_only;  // a row that leaves its key and entry only
};

class FlopsModel {
 public:
  explicit FlopsModel(const arch::Config& config);

  std::vector<RoleCost> roles() const;
  // A token at `position`, the head included.
  OpsByPart decode(uint64_t position) const;
  // The rows of `rows`, and the head once.
  OpsByPart rows(const arch::RowPlan& rows) const;
  // A prompt: `hit` cached tokens and `new_tokens` after them, windows at hand or not.
  OpsByPart prompt(uint64_t hit, bool snapshot, uint64_t new_tokens, arch::Replay replay) const;

  const arch::LayerPlan& plan() const { return plan_; }

 private:
  struct Layer {
    OpsByPart row;
    OpsByPart keys_only;
  };
  // What rows [begin, end) of a layer attend and score.
  OpsByPart at_positions(uint32_t layer, uint64_t begin, uint64_t end) const;

  const arch::Config config_;
  const arch::LayerPlan plan_;
  std::vector<Layer> layers_;
  Ops head_;
};

// Parameters that a token's matrices and look-ups touch: of a prompt token (encoder, and what the
// first decoder layer does for it), and of a decoded one (everything, the head included).
struct ActivatedParameters {
  double prefill = 0;
  double decode = 0;
  // The same, of attention and expert matrices (and the head) alone.
  double prefill_main = 0;
  double decode_main = 0;
};
ActivatedParameters activated_parameters(const arch::Config& config);

// Sum over positions of [begin, end) of min(cap, entries of `ratio` tokens visible).
double sum_visible(uint64_t begin, uint64_t end, uint32_t ratio, uint64_t cap);

}  // namespace thimble::planner
