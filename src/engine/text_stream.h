// From sampled ids to what a client reads: reasoning and answer apart, stop strings applied, no
// half characters, nothing shown that a stop string might still take back.
//
// In chat (think_close given) leading newlines of reasoning and of the answer are dropped, as are
// newlines right before </think>; a second </think> is skipped, and so is a <think>. Control tokens
// that the model samples where none belong have no text. Stop strings match the answer that is
// left, never the reasoning. The concatenated deltas are the same however the text is cut into
// tokens. One object per answer; not thread-safe. Source: chat-format spec 6.3 (rules 1, 2, 4, 7,
// 8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace thimble::engine {

struct TextDelta {
  std::string reasoning;
  std::string content;
  bool empty() const { return reasoning.empty() && content.empty(); }
};

enum class ControlTokens { kHide, kShow };  // kShow: they read as they are spelled

struct TextStreamOptions {
  bool starts_in_reasoning = false;         // the prompt ended in <think>
  std::optional<int32_t> think_close = {};  // id that ends reasoning; empty: plain completion
  std::vector<std::string> stop = {};       // UTF-8; empty strings are ignored
  ControlTokens control = ControlTokens::kHide;
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

  bool stopped() const {
    return stops_.stopped();
  }  // a stop string matched: the answer is complete
  uint64_t reasoning_tokens() const { return reasoning_tokens_; }  // the closing id included

 private:
  void add(std::string_view text, TextDelta& delta);
  void close_reasoning(TextDelta& delta);

  const text::Tokenizer& tokenizer_;
  text::StreamDecoder decoder_;
  std::optional<int32_t> think_close_;
  std::optional<int32_t> think_open_;  // with think_close_, unless control tokens are shown
  ControlTokens control_;
  StopMatcher stops_;
  bool reasoning_;
  bool strip_leading_;    // nothing but newlines so far in the current part
  std::string newlines_;  // at the end of reasoning: </think> would take them back
  uint64_t reasoning_tokens_ = 0;
};

}  // namespace thimble::engine
