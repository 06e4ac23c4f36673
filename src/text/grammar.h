// A language of bytes as a small pushdown automaton, and how far a text has come in it.
//
// A grammar is a list of rules; a rule is a little program that reads bytes, calls rules and
// returns. A state holds every way to understand the text so far: threads, each at an instruction
// of a rule's frame. Frames that begin at the same byte are one frame with several callers, so the
// ways multiply neither in memory nor in time. States are plain values: they can be copied,
// compared and kept. A Grammar is immutable after GrammarBuilder::build(); any thread.
//
// Every rule reads a byte before it calls another (the first may call at once) or returns, every
// instruction leads to a return, and no rule enters itself: the builder sees to it. So a state that
// has a thread can be completed, but for kGrammarThreadsMax.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

namespace thimble::text {

struct ByteRange {
  uint8_t low = 0;
  uint8_t high = 0;   // inclusive
  uint32_t next = 0;  // the instruction after a byte of this range
};

enum class GrammarOp : uint8_t {
  kRead,     // a byte of one of the ranges [a, a + b)
  kSplit,    // on at a, and at b
  kJump,     // on at a
  kEnter,    // rule a in this one's place
  kCall,     // rule a, then on at b
  kCount,    // on at a, with one more counted, up to b
  kAtLeast,  // on at a, if at least b were counted
  kBelow,    // on at a, if fewer than b were counted
  kReturn,
};

struct GrammarInstruction {
  GrammarOp op = GrammarOp::kReturn;
  uint32_t a = 0;
  uint32_t b = 0;
};

inline constexpr uint32_t kUncounted = UINT32_MAX;  // a maximum that is none

struct GrammarRule {
  uint32_t entry = 0;
  // What its instructions compare their count with.
  uint32_t count_min = 0;
  uint32_t count_max = kUncounted;
};

struct GrammarThread {
  uint32_t at = 0;     // a kRead
  uint32_t frame = 0;  // of GrammarState::frames
  uint32_t count = 0;  // of the frame's rule
  auto operator<=>(const GrammarThread&) const = default;
};

struct GrammarFrame {
  uint32_t rule = 0;
  std::vector<GrammarThread> callers = {};  // where a return goes on
  auto operator<=>(const GrammarFrame&) const = default;
};

struct GrammarState {
  std::vector<GrammarFrame> frames;    // callers come before whom they called
  std::vector<GrammarThread> threads;  // ascending
  std::vector<uint32_t> left;          // outer frames that the last byte returned from, ascending
  uint32_t outer = 0;                  // so many frames lead, whose callers are not known
  auto operator<=>(const GrammarState&) const = default;
};

// Texts that can be understood in more ways at once are none of the language.
inline constexpr size_t kGrammarThreadsMax = 4096;

class Grammar {
 public:
  // Before the first byte.
  GrammarState begin() const;

  // False: no text of the language goes on with this byte. Then the state has no threads.
  bool read(GrammarState& state, uint8_t byte) const;
  bool read(GrammarState& state, std::string_view bytes) const;

  // Is the text complete as it stands? It may still go on.
  static bool is_complete(const GrammarState& state) { return !state.left.empty(); }

  // Instead of the state's threads, those with which the callers of these frames go on. No frame
  // goes, new ones come behind the others. REQUIRES: frames that are not outer.
  void resume(GrammarState& state, const std::vector<uint32_t>& frames) const;

  const GrammarRule& rule_at(uint32_t instruction) const { return rules_[owners_[instruction]]; }
  size_t size() const { return instructions_.size(); }

 private:
  friend class GrammarBuilder;
  friend class GrammarWalk;

  std::vector<GrammarInstruction> instructions_;
  std::vector<uint32_t> owners_;  // [instructions] rules
  std::vector<ByteRange> ranges_;
  std::vector<GrammarRule> rules_;
  uint32_t root_ = 0;
};

}  // namespace thimble::text
