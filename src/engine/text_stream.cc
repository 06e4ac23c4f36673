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
      stops_(std::move(options.stop)),
      reasoning_(options.starts_in_reasoning),
      strip_leading_(options.think_close.has_value()) {
  CHECK(think_close_ || !reasoning_);
  if (think_close_ && control_ == ControlTokens::kHide) {
    think_open_ = tokenizer.find_added(text::kThinkOpenText);
  }
}

TextDelta TextStream::push(int32_t token) {
  TextDelta delta;
  if (stopped()) return delta;
  if (reasoning_) ++reasoning_tokens_;
  if (token == think_close_) {
    close_reasoning(delta);
  } else if (shows(token)) {
    if (const auto text = decoder_.push(token)) add(*text, delta);
  }
  return delta;
}

bool TextStream::shows(int32_t token) const {
  if (token == think_close_ || token == think_open_) return false;
  return control_ == ControlTokens::kShow || !text::is_control_token(tokenizer_, token);
}

TextDelta TextStream::finish() {
  TextDelta delta;
  add(decoder_.finish(), delta);
  delta.reasoning += std::exchange(newlines_, {});
  delta.content += stops_.finish();
  return delta;
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
  add(decoder_.finish(), delta);  // half a character before the marker stays half
  if (!reasoning_) return;        // a second marker
  reasoning_ = false;
  strip_leading_ = true;
  newlines_.clear();
}

}  // namespace thimble::engine
