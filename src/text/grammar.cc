#include "text/grammar.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thimble::text {
namespace {

template <class T>
void sort_unique(std::vector<T>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

// Puts threads into a state: each is followed through everything that reads no byte.
class GrammarWalk {
 public:
  GrammarWalk(const Grammar& grammar, GrammarState& state)
      : grammar_(grammar), state_(state), fresh_(state.frames.size()) {
    state.threads.clear();
    state.left.clear();
  }

  void follow(const GrammarThread& thread) {
    todo_.push_back(thread);
    while (!todo_.empty()) {
      const GrammarThread next = todo_.back();
      todo_.pop_back();
      step(next);
    }
  }

  // Once all threads are in.
  void sort() {
    sort_unique(state_.threads);
    sort_unique(state_.left);
  }

  // Frames that nobody stands in any more go. Those who do have callers before them.
  void trim() {
    uint32_t used = state_.outer;
    for (const GrammarThread& thread : state_.threads) used = std::max(used, thread.frame + 1);
    state_.frames.resize(used);
  }

 private:
  void step(const GrammarThread& thread) {
    const GrammarInstruction& now = grammar_.instructions_[thread.at];
    const auto go = [&](uint32_t at) { todo_.push_back({at, thread.frame, thread.count}); };
    switch (now.op) {
      case GrammarOp::kRead:
        return state_.threads.push_back(thread);
      case GrammarOp::kSplit:
        go(now.b);
        return go(now.a);
      case GrammarOp::kJump:
        return go(now.a);
      case GrammarOp::kEnter:
        return enter(now.a, thread.frame);
      case GrammarOp::kCall:
        return call(now.a, {now.b, thread.frame, thread.count});
      case GrammarOp::kCount:
        return todo_.push_back({now.a, thread.frame, std::min(thread.count + 1, now.b)});
      case GrammarOp::kAtLeast:
        if (thread.count >= now.b) go(now.a);
        return;
      case GrammarOp::kBelow:
        if (thread.count < now.b) go(now.a);
        return;
      case GrammarOp::kReturn:
        return leave(thread.frame);
    }
  }

  void enter(uint32_t rule, uint32_t frame) {
    const std::pair<uint32_t, uint32_t> entered(rule, frame);
    if (std::find(entered_.begin(), entered_.end(), entered) != entered_.end()) return;
    entered_.push_back(entered);
    todo_.push_back({grammar_.rules_[rule].entry, frame, 0});
  }

  void call(uint32_t rule, const GrammarThread& caller) {
    auto& frames = state_.frames;
    const auto fresh = frames.begin() + static_cast<std::ptrdiff_t>(fresh_);
    const auto known = std::ranges::find(fresh, frames.end(), rule, &GrammarFrame::rule);
    if (known == frames.end()) {
      frames.push_back({rule, {caller}});
      return enter(rule, static_cast<uint32_t>(frames.size() - 1));
    }
    if (std::ranges::find(known->callers, caller) == known->callers.end()) {
      known->callers.push_back(caller);
    }
  }

  // Once is enough, however many threads return.
  void leave(uint32_t frame) {
    if (std::find(left_.begin(), left_.end(), frame) != left_.end()) return;
    left_.push_back(frame);
    if (frame < state_.outer) return state_.left.push_back(frame);
    for (const GrammarThread& caller : state_.frames[frame].callers) todo_.push_back(caller);
  }

  const Grammar& grammar_;
  GrammarState& state_;
  const size_t fresh_;  // frames from here on begin at this byte
  std::vector<GrammarThread> todo_;
  std::vector<std::pair<uint32_t, uint32_t>> entered_;
  std::vector<uint32_t> left_;
};

GrammarState Grammar::begin() const {
  GrammarState state;
  state.frames.resize(1);
  state.outer = 1;
  GrammarWalk walk(*this, state);
  walk.follow({rules_[root_].entry, 0, 0});
  walk.sort();
  walk.trim();
  return state;
}

bool Grammar::read(GrammarState& state, uint8_t byte) const {
  const std::vector<GrammarThread> before = std::move(state.threads);
  GrammarWalk walk(*this, state);
  for (const GrammarThread& thread : before) {
    const GrammarInstruction& now = instructions_[thread.at];
    for (uint32_t i = now.a; i < now.a + now.b; ++i) {
      const ByteRange& range = ranges_[i];
      if (byte < range.low || byte > range.high) continue;
      walk.follow({range.next, thread.frame, thread.count});
    }
  }
  walk.sort();
  if (state.threads.size() > kGrammarThreadsMax) {
    state.threads.clear();
    state.left.clear();
  }
  walk.trim();
  return !state.threads.empty() || !state.left.empty();
}

bool Grammar::read(GrammarState& state, std::string_view bytes) const {
  for (const char byte : bytes) {
    if (!read(state, static_cast<uint8_t>(byte))) return false;
  }
  return true;
}

void Grammar::resume(GrammarState& state, const std::vector<uint32_t>& frames) const {
  GrammarWalk walk(*this, state);
  for (const uint32_t frame : frames) {
    CHECK_GE(frame, state.outer);
    const std::vector<GrammarThread> callers = state.frames[frame].callers;
    for (const GrammarThread& caller : callers) walk.follow(caller);
  }
  walk.sort();
}

}  // namespace thimble::text
