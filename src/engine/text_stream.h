// From sampled ids to what a client reads: reasoning and answer apart, stop strings applied, no
// half characters, nothing shown that a stop string might still take back.
//
// In chat (think_close given) leading newlines of reasoning and of the answer are dropped, as are
// newlines right before </think>; a second </think> is skipped, and so is a <think>. Control tokens
// that the model samples where none belong have no text. Stop strings match the answer that is
// left, never the reasoning. Where calls are taken apart too (dsml given; text/call_parser.h) a
// block of calls ends reasoning and answer alike, think markers within its values are text, and
// what follows the block is nothing. The concatenated deltas are the same however the text is cut
// into tokens. One object per answer; not thread-safe. Source: chat-format spec 6.3.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stop_matcher.h"
#include "text/call_parser.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace thimble::engine {

struct TextDelta {
  std::string reasoning;
  std::string content;
  std::vector<text::CallDelta> calls = {};
  bool empty() const { return reasoning.empty() && content.empty() && calls.empty(); }
};

enum class ControlTokens { kHide, kShow };  // kShow: they read as they are spelled

enum class Calls { kReport, kDrop };  // kDrop: none was on offer, so a client expects none

struct TextStreamOptions {
  bool starts_in_reasoning = false;         // the prompt ended in <think>
  std::optional<int32_t> think_close = {};  // id that ends reasoning; empty: plain completion
  std::vector<std::string> stop = {};       // UTF-8; empty strings are ignored
  ControlTokens control = ControlTokens::kHide;
  std::optional<int32_t> dsml = {};  // id of the marker; empty: calls are not taken apart
  Calls calls = Calls::kReport;
  uint32_t calls_max = UINT32_MAX;  // the answer ends after so many
  std::string forced = {};          // the prompt ended in this beginning of a block
};

class TextStream {
 public:
  // The tokenizer must outlive the stream. REQUIRES: a stream that starts in reasoning has a
  // think_close.
  TextStream(const text::Tokenizer& tokenizer, TextStreamOptions options);

  // Text that became certain with this token. Nothing once stopped(); nothing for an id that the
  // tokenizer does not know.
  TextDelta push(int32_t token);
  // What was held back; call once, at the end.
  TextDelta finish();

  // Has this token a place in the text? Not control tokens, and not the markers of reasoning where
  // it is taken apart.
  bool shows(int32_t token) const;

  // The answer is complete, whatever still comes: a stop string matched, or the calls are over.
  bool stopped() const { return stops_.stopped() || (calls_ && calls_->wasted()); }
  // Did it end in calls, rather than within one?
  bool called() const;
  bool calls_closed() const { return calls_ && calls_->closed(); }  // by the model, not by a limit
  uint64_t reasoning_tokens() const { return reasoning_tokens_; }   // the closing id included

 private:
  void push_calls(int32_t token, TextDelta& delta);
  void feed(std::string_view text, TextDelta& delta);
  void take(text::CallText text, TextDelta& delta);
  void add(std::string_view text, TextDelta& delta);
  void close_reasoning(TextDelta& delta);

  const text::Tokenizer& tokenizer_;
  text::StreamDecoder decoder_;
  std::optional<int32_t> think_close_;
  std::optional<int32_t> think_open_;  // with think_close_, unless control tokens are shown
  ControlTokens control_;
  std::optional<int32_t> dsml_;
  Calls report_;
  std::optional<text::CallParser> calls_;
  text::CallText forced_;  // what the prompt's end gives: goes out with the first token
  StopMatcher stops_;
  bool reasoning_;
  bool strip_leading_;    // nothing but newlines so far in the current part
  std::string newlines_;  // at the end of reasoning: </think> would take them back
  uint64_t reasoning_tokens_ = 0;
};

}  // namespace thimble::engine
