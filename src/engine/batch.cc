#include "engine/internal/batch.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "arch/cache_layout.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"

namespace thimble::engine {
namespace {

constexpr int32_t kWeightSteps = 8;  // priorities beyond which the share of a prompt stays the same

// Each priority has twice the share of the one below.
double weight(const Sequence& sequence) {
  return std::exp2(std::clamp(sequence.request().priority, -kWeightSteps, kWeightSteps));
}

// The most tokens, at most `tokens`, whose rows cost no more than `cost`.
uint64_t affordable(const Sequence& sequence, uint64_t tokens, double cost) {
  uint64_t low = 0;
  while (low < tokens) {
    const uint64_t middle = low + (tokens - low + 1) / 2;
    if (static_cast<double>(sequence.layer_rows(middle)) <= cost) {
      low = middle;
    } else {
      tokens = middle - 1;
    }
  }
  return low;
}

// For its text and one block more, if it can become so long.
uint64_t blocks_wanted(Sequence& sequence) {
  const GenerationRequest& request = sequence.request();
  const uint64_t most = sequence.ending().prompt_tokens + request.max_tokens;
  return sequence.state().blocks_missing(
      std::min(sequence.text().size() + arch::kBlockTokens, most));
}

}  // namespace

uint64_t Batch::running() const {
  return static_cast<uint64_t>(std::ranges::count_if(members_, &Member::active));
}

void Batch::add(PendingRequest pending) {
  CHECK(!full());
  Member member;
  member.sequence = std::make_unique<Sequence>(std::move(pending));
  const auto behind = std::ranges::find_if(members_, [&](const Member& other) {
    return ranks_before(member.sequence->request().priority, member.sequence->id(),
                        other.sequence->request().priority, other.sequence->id());
  });
  members_.insert(behind, std::move(member));
}

void Batch::end_stopped() {
  for (Member& member : members_) {
    Sequence& sequence = *member.sequence;
    if (!sequence.over() && sequence.stop().due()) sequence.end_stopped();
  }
}

std::vector<std::unique_ptr<Sequence>> Batch::take_ended() {
  std::vector<std::unique_ptr<Sequence>> ended;
  for (Member& member : members_) {
    if (!member.sequence->over()) continue;
    member.sequence->finish(runner_);
    ended.push_back(std::move(member.sequence));
  }
  std::erase_if(members_, [](const Member& member) { return member.sequence == nullptr; });
  if (!ended.empty()) blocked_ = 0;
  return ended;
}

// Is there room for what everyone who runs will need at least?
bool Batch::has_room() const {
  uint64_t wanted = 0;
  for (const Member& member : members_) {
    if (member.active()) wanted += blocks_wanted(*member.sequence);
  }
  return wanted <= runner_.blocks_available();
}

// In the order of ranks, and nobody passes one that finds no room: it would wait for ever. Who
// waits for another's blocks does not hold up the rest.
void Batch::begin_members() {
  for (Member& member : members_) {
    if (member.sequence->started() || member.sequence->over()) continue;
    if (member.sequence->id() == blocked_) return;
    if (!waits(member) && !begin(member)) return;
  }
}

// Does it read a prompt whose blocks the member would find? None of a lower priority: that may take
// long.
bool Batch::may_produce(const Member& member, const Member& producer) const {
  if (&member == &producer || !producer.active() || producer.sequence->decodes()) return false;
  const GenerationRequest& one = member.sequence->request();
  const GenerationRequest& other = producer.sequence->request();
  return other.priority >= one.priority && other.cache_salt == one.cache_salt &&
         producer.sequence->state().publishes();
}

// Computing the same again would take longer than to wait for it. Should the producer end before it
// is there, or be paused, the question is put anew.
bool Batch::waits(Member& member) {
  const SequenceSpec spec = member.sequence->spec();
  if (!spec.reuse || spec.all_rows) return false;
  if (member.producer != 0 && std::ranges::any_of(members_, [&](const Member& other) {
        return other.sequence->id() == member.producer && may_produce(member, other) &&
               other.sequence->done() < member.awaited;
      })) {
    return true;
  }
  member.producer = 0;
  for (const Member& producer : members_) {
    if (!may_produce(member, producer)) continue;
    const Sequence& other = *producer.sequence;
    const auto ends = std::ranges::mismatch(spec.prompt, other.text());
    const auto common = static_cast<uint64_t>(ends.in1 - spec.prompt.begin());
    const bool whole = common + 1 >= other.text().size();
    const uint64_t awaited =
        whole ? other.text().size() : common / arch::kBlockTokens * arch::kBlockTokens;
    if (awaited <= other.done() || !runner_.is_worth_waiting(spec, awaited, whole)) continue;
    member.producer = other.id();
    member.awaited = awaited;
    return true;
  }
  return false;
}

bool Batch::begin(Member& member) {
  const bool alone = running() == 0;
  member.sequence->start(runner_);
  if (member.sequence->over() || alone || has_room()) return true;
  member.sequence->pause(runner_);
  blocked_ = member.sequence->id();
  return false;
}

void Batch::step() {
  plan_tokens();
  std::vector<Step> steps;
  const std::vector<Member*> members = reserve_steps(steps);
  if (!steps.empty()) run(members, steps);
}

// How many tokens each member brings.
void Batch::plan_tokens() {
  std::vector<Member*> prompts;
  uint64_t decodes = 0;
  uint64_t decode_cost = 1;
  for (Member& member : members_) {
    member.tokens = 0;
    if (!member.active()) continue;
    if (!member.sequence->decodes()) {
      prompts.push_back(&member);
      continue;
    }
    ++decodes;
    member.tokens = 1;
    member.deficit = 0;
    decode_cost = std::max(decode_cost, member.sequence->layer_rows(1));
  }
  if (!prompts.empty()) {
    share_prompt_rows(std::move(prompts), budget_.prompt_rows(decodes, decode_cost));
  }
}

// Tokens that the member's prompt has for the next step.
uint64_t Batch::tokens_offered(const Member& member) const {
  return std::min<uint64_t>(options_.prefill_chunk, member.sequence->step_tokens_max());
}

// Deficit round robin. First everyone gets what its share pays for, who is owed most before the
// others; what is left goes round once more, on credit.
void Batch::share_prompt_rows(std::vector<Member*> prompts, uint64_t rows) {
  if (rows == 0) return;
  double weights = 0;
  double cost = 0;
  uint64_t offered = 0;
  for (const Member* member : prompts) {
    const uint64_t tokens = tokens_offered(*member);
    weights += weight(*member->sequence);
    cost += static_cast<double>(member->sequence->layer_rows(tokens));
    offered += tokens;
  }
  const double held = std::min(1.0, options_.prefill_chunk / static_cast<double>(offered));
  const double quantum = std::min(static_cast<double>(rows), cost * held);
  for (Member* member : prompts) {
    member->deficit += quantum * weight(*member->sequence) / weights;
    member->deficit = std::min(member->deficit, 2 * quantum);
  }
  std::ranges::stable_sort(prompts, std::greater<>(), &Member::deficit);
  uint64_t tokens_left = options_.prefill_chunk;
  auto rows_left = static_cast<double>(rows);
  const auto give = [&](Member& member, double credit) {
    const Sequence& sequence = *member.sequence;
    const uint64_t most = std::min(tokens_left, sequence.step_tokens_max() - member.tokens);
    const auto before = static_cast<double>(sequence.layer_rows(member.tokens));
    const uint64_t tokens = affordable(sequence, member.tokens + most, before + credit);
    const double paid = static_cast<double>(sequence.layer_rows(tokens)) - before;
    tokens_left -= tokens - member.tokens;
    rows_left -= paid;
    member.deficit -= paid;
    member.tokens = tokens;
  };
  for (Member* member : prompts) give(*member, std::clamp(member->deficit, 0.0, rows_left));
  for (Member* member : prompts) give(*member, std::max(rows_left, 0.0));
}

// Steps for whom there is room, in the order of ranks. Whoever is paused for another comes after
// it, so has no step yet.
std::vector<Batch::Member*> Batch::reserve_steps(std::vector<Step>& steps) {
  std::vector<Member*> members;
  for (size_t i = 0; i < members_.size(); ++i) {
    Member& member = members_[i];
    if (!member.active() || member.tokens == 0) continue;
    const Step step = member.sequence->next_step(member.tokens);
    const auto room = reserve(i, step);
    if (room) {
      steps.push_back(step);
      members.push_back(&member);
    } else if (room.error().code != ErrorCode::kUnavailable || running() == 1) {
      member.sequence->end(FinishReason::kError, room.error());
    }
  }
  return members;
}

Result<void> Batch::reserve(size_t index, const Step& step) {
  auto room = runner_.reserve(step);
  for (size_t last = members_.size() - 1; last > index; --last) {
    if (room || room.error().code != ErrorCode::kUnavailable) return room;
    if (!members_[last].active()) continue;
    members_[last].sequence->pause(runner_);
    ++totals_.pauses;
    room = runner_.reserve(step);
  }
  return room;
}

// No exception comes out of a module but for want of memory.
Result<void> Batch::run_now(std::span<const Step> steps) {
  ++totals_.steps;
  try {
    return runner_.run(steps);
  } catch (const std::bad_alloc&) {
    uint64_t tokens = 0;
    for (const Step& step : steps) tokens += step.ids.size();
    return base::fail(ErrorCode::kResourceExhausted, "no memory for a step of {} tokens", tokens);
  }
}

void Batch::run(std::span<Member* const> members, std::span<const Step> steps) {
  uint64_t decodes = 0;
  uint64_t rows = 0;
  for (const Member* member : members) {
    const bool decode = member->sequence->decodes();
    (decode ? decodes : rows) += decode ? 1 : member->sequence->layer_rows(member->tokens);
  }
  const int64_t begin_us = base::monotonic_us();
  const auto ran = run_now(steps);
  if (ran) {
    if (decodes + rows > 0) budget_.observe(decodes, rows, base::monotonic_us() - begin_us);
    for (Member* member : members) accept(*member, ran);
  } else if (members.size() == 1 || ran.error().code == ErrorCode::kCancelled) {
    for (Member* member : members) accept(*member, ran);
  } else {
    for (size_t i = 0; i < members.size(); ++i) run_alone(*members[i], steps[i], ran.error());
  }
  for (Member* member : members) tell(*member);
}

// One of several made the step fail: each learns for itself.
void Batch::run_alone(Member& member, const Step& step, const Error& why) {
  if (!member.sequence->state().intact()) return accept(member, tl::unexpected(why));
  auto outcome = runner_.reserve(step);
  if (outcome) outcome = run_now({&step, 1});
  accept(member, outcome);
}

void Batch::accept(Member& member, const Result<void>& outcome) {
  Sequence& sequence = *member.sequence;
  const uint64_t prompt_before = sequence.prompt_rows();
  if (outcome && sequence.decodes()) ++totals_.decode_rows;
  sequence.accept(outcome);
  totals_.prompt_rows += sequence.prompt_rows() - prompt_before;
}

void Batch::tell(Member& member) {
  const uint64_t before = member.sequence->generated_tokens();
  member.sequence->tell();
  totals_.generated += member.sequence->generated_tokens() - before;
}

}  // namespace thimble::engine
