#include "engine/text_stream.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/special_tokens.h"

namespace thimble::engine {

TextStream::TextStream(const text::Tokenizer& tokenizer, TextStreamOptions options)
    : tokenizer_(tokenizer),
      decoder_(tokenizer),
      think_close_(options.think_close),
      control_(options.control),
      dsml_(options.dsml),
      report_(options.calls),
      stops_(std::move(options.stop)),
      reasoning_(options.starts_in_reasoning),
      strip_leading_(options.think_close.has_value()) {
  CHECK(think_close_ || !reasoning_);
  if (think_close_ && control_ == ControlTokens::kHide) {
    think_open_ = tokenizer.find_added(text::kThinkOpenText);
  }
  if (!dsml_) return;
  const bool shown = control_ == ControlTokens::kShow;
  calls_.emplace(text::CallParserOptions{shown ? std::string(text::kDsmlText) : std::string(),
                                         options.calls_max});
  calls_->push(options.forced, forced_);
}

TextDelta TextStream::push(int32_t token) {
  TextDelta delta;
  if (stopped()) return delta;
  if (reasoning_) ++reasoning_tokens_;
  take(std::exchange(forced_, {}), delta);
  if (calls_ && (token == dsml_ || calls_->in_block())) {
    push_calls(token, delta);
  } else if (token == think_close_) {
    close_reasoning(delta);
  } else if (shows(token)) {
    if (const auto text = decoder_.push(token)) feed(*text, delta);
  }
  return delta;
}

// A marker, or a token within a block.
void TextStream::push_calls(int32_t token, TextDelta& delta) {
  const bool think = token == think_close_ || token == think_open_;
  if (token == dsml_) {
    feed(decoder_.finish(), delta);
    feed({&text::CallParser::kMarker, 1}, delta);
  } else if (think && calls_->in_value()) {
    feed(decoder_.finish(), delta);
    feed(tokenizer_.token_bytes(token), delta);
  } else if (shows(token)) {
    if (const auto text = decoder_.push(token)) feed(*text, delta);
  }
}

bool TextStream::called() const {
  return calls_ && report_ == Calls::kReport && calls_->completed() > 0;
}

bool TextStream::shows(int32_t token) const {
  if (token == think_close_ || token == think_open_) return false;
  return control_ == ControlTokens::kShow || !text::is_control_token(tokenizer_, token);
}

TextDelta TextStream::finish() {
  TextDelta delta;
  take(std::exchange(forced_, {}), delta);
  feed(decoder_.finish(), delta);
  if (calls_) {
    text::CallText rest;
    calls_->finish(rest);
    take(std::move(rest), delta);
  }
  delta.reasoning += std::exchange(newlines_, {});
  delta.content += stops_.finish();
  return delta;
}

void TextStream::feed(std::string_view text, TextDelta& delta) {
  if (!calls_) return add(text, delta);
  text::CallText out;
  calls_->push(text, out);
  take(std::move(out), delta);
}

void TextStream::take(text::CallText text, TextDelta& delta) {
  add(text.prose, delta);
  if (stops_.stopped()) return;
  if (text.opened) {
    if (!reasoning_) delta.content += stops_.finish();
    reasoning_ = false;
    newlines_.clear();
  }
  if (report_ == Calls::kDrop) return;
  for (text::CallDelta& call : text.calls) delta.calls.push_back(std::move(call));
}

void TextStream::add(std::string_view text, TextDelta& delta) {
  if (strip_leading_) {
    text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
    if (text.empty()) return;
    strip_leading_ = false;
  }
  if (!reasoning_) {
    delta.content += stops_.push(text);
    return;
  }
  const size_t body = text.find_last_not_of('\n') + 1;  // 0: newlines only
  if (body > 0) {
    delta.reasoning += std::exchange(newlines_, {});
    delta.reasoning += text.substr(0, body);
  }
  newlines_ += text.substr(body);
}

void TextStream::close_reasoning(TextDelta& delta) {
  feed(decoder_.finish(), delta);  // half a character before the marker stays half
  if (calls_) add(calls_->take_held(), delta);
  if (!reasoning_) return;  // a second marker
  reasoning_ = false;
  strip_leading_ = true;
  newlines_.clear();
}

}  // namespace thimble::engine
