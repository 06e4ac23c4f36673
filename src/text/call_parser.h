// Tool calls out of a model's text, piece by piece (chat-format spec 6.2 and 6.3).
//
//   prose LF LF <M calls> LF <M invoke name="f"> LF <M parameter name="k" string="true">...
//
// M is the control token ｜DSML｜ as the model samples it, here the byte kMarker, which is not in
// UTF-8: the same characters typed in prose are prose. A machine that looks at one byte after the
// other, so that no cut of the stream changes what comes out. Rules of ours where models err:
//
//   - No block begins without `<M calls>`: a marker elsewhere in prose is left out, the rest stays.
//     V4's and V3.2's spellings (no space after M, tool_calls, function_calls) are read too.
//   - The arguments of a call are JSON, built as parameters come. A value that claims to be JSON
//     and is not becomes a string: nothing is lost, and arguments stay JSON.
//   - A string runs to its own close tag, whatever it looks like inside.
//   - What is neither tag nor space between tags, an unknown or endless tag, an empty name and a
//     repeated parameter break the block: nothing more comes out. The call that was open stays
//     without its closing brace, so that nobody takes half a call for a whole one.
//
// One object per answer; not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace thimble::text {

struct CallDelta {
  uint32_t index = 0;               // of the call within the answer
  std::optional<std::string> name;  // in a call's first delta, which has no arguments
  std::string arguments;            // goes on from the deltas before
};

// What became certain: prose, then calls.
struct CallText {
  std::string prose;
  bool opened = false;  // the block of calls begins: prose is over
  std::vector<CallDelta> calls;
};

struct CallParserOptions {
  std::string stray_marker = {};  // what a marker in prose reads as
  uint32_t calls_max = UINT32_MAX;
};

class CallParser {
 public:
  static constexpr char kMarker = '\xFF';

  explicit CallParser(CallParserOptions options = {}) : options_(std::move(options)) {}

  // UTF-8, whole characters, and markers.
  void push(std::string_view bytes, CallText& out);

  // Newlines, and what may open a block, that prose still holds back: it turned out to be prose.
  std::string take_held();

  // What was held back, at the end of the answer. Half a tag is no text; half a value is kept.
  void finish(CallText& out);

  bool in_block() const { return state_ != State::kProse && state_ != State::kOpening; }
  bool in_value() const { return state_ == State::kString || state_ == State::kJson; }
  // Whole calls so far.
  uint32_t completed() const { return completed_; }
  // The block's end was seen.
  bool closed() const { return state_ == State::kClosed; }
  bool broken() const { return state_ == State::kBroken; }
  // Nothing more can come out, and the answer goes on.
  bool wasted() const { return wasted_; }

 private:
  enum class State {
    kProse,
    kOpening,  // after "<M"
    kCalls,    // between calls
    kParameters,
    kTag,  // of what follows kCalls or kParameters
    kString,
    kJson,
    kClosed,
    kBroken,
  };

  void step(char c, CallText& out);
  void prose(char c, CallText& out);
  void opening(char c, CallText& out);
  void between(char c);
  void tag(char c, CallText& out);
  void value(char c, CallText& out);
  void whole_tag(CallText& out);
  void begin_call(std::string_view attributes, CallText& out);
  void begin_parameter(std::string_view attributes, CallText& out);
  void end_call(CallText& out);
  void end_value(CallText& out);
  void add_value(std::string_view text, CallText& out);
  void add_arguments(std::string_view text, CallText& out);
  void break_off();

  const CallParserOptions options_;
  State state_ = State::kProse;
  State around_ = State::kCalls;             // kTag: what it stands in
  std::string held_;                         // kProse and kOpening: LF* or LF* "<"
  std::string tag_;                          // what followed "<M", or "<"
  std::string close_;                        // in values: what may be the close tag
  std::string json_;                         // kJson: the value so far
  std::set<std::string, std::less<>> keys_;  // of the open call
  uint32_t calls_ = 0;                       // begun
  uint32_t completed_ = 0;
  bool wasted_ = false;
};

}  // namespace thimble::text
