// From sampled ids to what a client reads: reasoning and answer apart, stop strings applied, no
// half characters, nothing shown that a stop string might still take back.
//
// One object per answer; not thread-safe. Source: chat-format spec 6.3 (rules 1, 2, 4, 7, 8).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "text/chat_format.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace thimble::engine {

struct TextDelta {
  std::string reasoning;
  std::string content;
  bool empty() const { return reasoning.empty() && content.empty(); }
};

struct TextStreamOptions {
  bool starts_in_reasoning = false;    // the prompt ended in <think>
  std::optional<int32_t> think_close;  // id that ends reasoning; empty: plain completion
  std::vector<std::string> stop;       // match answer text only
};

class TextStream {
 public:
  // The tokenizer must outlive the stream.
  TextStream(const text::Tokenizer& tokenizer, TextStreamOptions options);

  // Text that became certain with this token.
  TextDelta push(int32_t token);
  // What was held back; call once at the end.
  TextDelta finish();

  bool stopped() const;               // a stop string matched: the answer is complete
  uint64_t reasoning_tokens() const;  // ids of the reasoning part, its closing id included

 private:
  std::string flush_content(std::string text, bool last);
  text::StreamDecoder decoder_;
  TextStreamOptions options_;
  std::string held_;
  bool reasoning_ = false;
  bool stopped_ = false;
  uint64_t reasoning_tokens_ = 0;
};

}  // namespace thimble::engine
