// The requests that run at once: who begins, what each of them computes in the next step, and who
// gives way when room is short.
//
// Members are ranked: by priority, then by age. A step holds a row of every member that waits for
// its next token and pieces of the prompts of the others; how much of these is StepBudget's to say,
// and deficit round robin shares it out by priority. A member that finds no free block pauses the
// last one ranked behind it, or sits out steps; so the first always goes on, and nobody waits in a
// circle. A request begins when the pool has room for its text and one block more, for it and for
// all who run; one whose next block another is computing waits for it. Rows are pure functions of
// their sequence, so none of this shows in a token. Used by the engine thread alone. Sources:
// serving spec 8.1 and 11; docs/serving.md, "Many at once".
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "engine/internal/sequence.h"
#include "engine/internal/step_budget.h"
#include "engine/internal/step_runner.h"

namespace thimble::engine {

struct BatchOptions {
  uint32_t sequences_max = 1;    // members
  uint32_t prefill_chunk = 256;  // tokens of prompts in a step
};

// Is a request ranked before another?
inline bool ranks_before(int32_t priority, RequestId id, int32_t other_priority, RequestId other) {
  return priority != other_priority ? priority > other_priority : id < other;
}

class Batch {
 public:
  // The runner must outlive the batch.
  Batch(StepRunner& runner, const BatchOptions& options) : runner_(runner), options_(options) {}

  bool empty() const { return members_.empty(); }
  bool full() const { return members_.size() >= options_.sequences_max; }
  uint64_t running() const;  // members that have begun, and are not paused
  uint64_t members() const { return members_.size(); }

  // A new member. REQUIRES: not full().
  void add(PendingRequest pending);
  // Ends those that were cancelled or whose deadline is over.
  void end_stopped();

  // Begins, or begins anew, whoever may.
  void begin_members();
  // Runs one step of those who have begun, if there are any.
  void step();
  // The members that are over, their memory given back, best ranked first.
  std::vector<std::unique_ptr<Sequence>> take_ended();

  struct Totals {
    uint64_t steps = 0;
    uint64_t prompt_rows = 0;
    uint64_t decode_rows = 0;
    uint64_t generated = 0;
    uint64_t pauses = 0;
  };
  const Totals& totals() const { return totals_; }

 private:
  struct Member {
    std::unique_ptr<Sequence> sequence;
    double deficit = 0;      // layer-rows of its prompt that it may run
    uint64_t tokens = 0;     // of the next step; 0: none
    RequestId producer = 0;  // another that computes tokens which this one begins with too,
    uint64_t awaited = 0;    // and how many it has to have done
    bool active() const { return sequence->started() && !sequence->over(); }
  };

  bool has_room() const;
  bool begin(Member& member);
  bool waits(Member& member);
  bool may_produce(const Member& member, const Member& producer) const;
  void plan_tokens();
  uint64_t tokens_offered(const Member& member) const;
  void share_prompt_rows(std::vector<Member*> prompts, uint64_t rows);
  std::vector<Member*> reserve_steps(std::vector<Step>& steps);
  Result<void> reserve(size_t index, const Step& step);
  void run(std::span<Member* const> members, std::span<const Step> steps);
  void run_alone(Member& member, const Step& step, const Error& why);
  Result<void> run_now(std::span<const Step> steps);
  void accept(Member& member, const Result<void>& outcome);
  void tell(Member& member);

  StepRunner& runner_;
  const BatchOptions options_;
  StepBudget budget_;
  std::vector<Member> members_;  // best ranked first
  RequestId blocked_ = 0;        // found no room, and nobody has ended since
  Totals totals_;
};

}  // namespace thimble::engine
