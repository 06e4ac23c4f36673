#include "engine/resumed_run.h"

#include <algorithm>
#include <limits>

#include "arch/row_plan.h"
#include "base/check.h"
#include "engine/internal/prefill.h"

namespace thimble::engine {
namespace {

// Passes on what is said of rows from `first` on.
class TraceFrom : public model::Trace {
 public:
  TraceFrom(model::Trace* to, uint64_t first) : to_(to), first_(first) {}

  bool wants(std::string_view quantity) const override {
    return to_ != nullptr && to_->wants(quantity);
  }
  void floats(std::string_view quantity, uint32_t layer, uint64_t row,
              std::span<const float> values) override {
    if (row >= first_) to_->floats(quantity, layer, row, values);
  }
  void ints(std::string_view quantity, uint32_t layer, uint64_t row,
            std::span<const int32_t> values) override {
    if (row >= first_) to_->ints(quantity, layer, row, values);
  }

 private:
  model::Trace* to_;
  uint64_t first_;
};

}  // namespace

arch::RowPlan resumed_rows(const arch::LayerPlan& plan, uint64_t tokens, const Resumption& how) {
  CHECK_LT(how.hit, tokens);
  auto input = row_plan_input(plan, how.hit, {}, true, tokens, how.replay);
  input.first_output = how.hit;  // a bounded decoder has its own
  return make_row_plan(plan, input);
}

Result<std::vector<float>> run_resumed(const model::Model& model, std::span<const int32_t> ids,
                                       const Resumption& how, base::ThreadPool& pool,
                                       model::Trace* trace) {
  const uint64_t vocab = model.config().vocab_size;
  const arch::RowPlan rows = resumed_rows(model.plan(), ids.size(), how);
  std::vector<float> logits(ids.size() * vocab, std::numeric_limits<float>::quiet_NaN());
  const auto rows_of = [&](uint64_t begin, uint64_t end) {
    return std::span(logits).subspan(begin * vocab, (end - begin) * vocab);
  };
  auto sequence = THIMBLE_TRY(ForcedSequence::create(model, ids.size(), pool));
  if (how.hit > 0) {
    THIMBLE_TRY(sequence.run(ids.first(how.hit),
                             {.chunk = how.cuts.chunk, .logit_rows = how.hit, .trace = trace},
                             rows_of(0, how.hit)));
    THIMBLE_TRY(sequence.reopen(ids, how.hit, rows.begin, ForcedSequence::Windows::kNone));
    if (how.replay == Replay::kBounded) sequence.mark_private();
  }
  TraceFrom rest(trace, how.hit);
  const uint64_t first_output = std::max(how.hit, rows.layers.back().rows_begin);
  // step_lengths() counts from the first row that runs.
  Cuts cuts = how.cuts;
  if (cuts.decode_from > 0 && cuts.decode_from <= rows.begin) cuts = {.chunk = 1};
  if (cuts.decode_from > 0) cuts.decode_from -= rows.begin;
  uint64_t at = rows.begin;
  for (const uint64_t length : step_lengths(ids.size() - rows.begin, cuts)) {
    const uint64_t end = at + length;
    const uint64_t first = std::clamp(first_output, at, end);
    const ForcedRun run{.plan = &rows, .chunk = length, .logit_rows = end - first, .trace = &rest};
    THIMBLE_TRY(sequence.run(ids.subspan(at, length), run, rows_of(first, end)));
    at = end;
  }
  return logits;
}

}  // namespace thimble::engine
