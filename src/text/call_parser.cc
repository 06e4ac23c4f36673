#include "text/call_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/json_text.h"
#include "text/special_tokens.h"

namespace thimble::text {
namespace {

constexpr size_t kTagBytesMax = 4096;

constexpr std::array<std::string_view, 3> kBlockNames = {"calls", "tool_calls", "function_calls"};
constexpr std::array<std::string_view, 2> kValueEnds = {"</\xFF parameter>", "</\xFFparameter>"};

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

bool is_block_name(std::string_view name) {
  return std::find(kBlockNames.begin(), kBlockNames.end(), name) != kBlockNames.end();
}

// Is this the beginning of " calls>" or of another spelling of it?
bool may_open_block(std::string_view text) {
  if (text.starts_with(' ')) text.remove_prefix(1);
  return std::any_of(kBlockNames.begin(), kBlockNames.end(), [text](std::string_view name) {
    return name.starts_with(text) ||
           (text.ends_with('>') && text.substr(0, text.size() - 1) == name);
  });
}

// The inside of quotes after `name` and "=": removed from `text`. Empty: not there.
std::string_view take_attribute(std::string_view& text, std::string_view name) {
  if (!text.starts_with(' ')) return {};
  std::string_view rest = text.substr(1);
  if (!rest.starts_with(name)) return {};
  rest.remove_prefix(name.size());
  if (!rest.starts_with("=\"")) return {};
  rest.remove_prefix(2);
  const size_t end = rest.find('"');
  if (end == rest.npos) return {};
  const std::string_view value = rest.substr(0, end);
  const bool control = std::any_of(value.begin(), value.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == CallParser::kMarker;
  });
  if (control) return {};
  text = rest.substr(end + 1);
  return value;
}

std::string with_marker_text(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    if (c == CallParser::kMarker) {
      out += kDsmlText;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

void CallParser::push(std::string_view bytes, CallText& out) {
  for (const char c : bytes) step(c, out);
}

std::string CallParser::take_held() {
  if (state_ != State::kProse) return {};
  return std::exchange(held_, {});
}

void CallParser::finish(CallText& out) {
  out.prose += take_held();
  if (state_ == State::kJson) add_arguments(with_marker_text(json_), out);
  held_.clear();
  close_.clear();
  json_.clear();
}

void CallParser::step(char c, CallText& out) {
  switch (state_) {
    case State::kProse:
      return prose(c, out);
    case State::kOpening:
      return opening(c, out);
    case State::kCalls:
    case State::kParameters:
      return between(c);
    case State::kTag:
      return tag(c, out);
    case State::kString:
    case State::kJson:
      return value(c, out);
    case State::kClosed:
      wasted_ = wasted_ || !is_space(c);
      return;
    case State::kBroken:
      return;
  }
}

void CallParser::prose(char c, CallText& out) {
  const bool after_bracket = held_.ends_with('<');
  if (c == kMarker && after_bracket) {
    state_ = State::kOpening;
    tag_.clear();
    return;
  }
  if (after_bracket || (c != '\n' && c != '<')) out.prose += std::exchange(held_, {});
  if (c == '\n' || c == '<') {
    held_ += c;
  } else if (c == kMarker) {
    out.prose += options_.stray_marker;
  } else {
    out.prose += c;
  }
}

void CallParser::opening(char c, CallText& out) {
  tag_ += c;
  if (may_open_block(tag_)) {
    if (c != '>') return;
    held_.clear();
    out.opened = true;
    state_ = State::kCalls;
    return;
  }
  tag_.pop_back();
  out.prose += std::exchange(held_, {}) + options_.stray_marker + tag_;
  state_ = State::kProse;
  prose(c, out);
}

void CallParser::between(char c) {
  if (is_space(c)) return;
  if (c != '<') return break_off();
  around_ = state_;
  state_ = State::kTag;
  tag_.clear();
}

// A tag ends at the first ">" outside quotes.
void CallParser::tag(char c, CallText& out) {
  if (c == '>' && std::count(tag_.begin(), tag_.end(), '"') % 2 == 0) return whole_tag(out);
  tag_ += c;
  if (tag_.size() > kTagBytesMax) break_off();
}

void CallParser::whole_tag(CallText& out) {
  std::string_view tag = tag_;
  const bool closes = tag.starts_with('/');
  if (closes) tag.remove_prefix(1);
  if (!tag.starts_with(kMarker)) return break_off();
  tag.remove_prefix(1);
  if (tag.starts_with(' ')) tag.remove_prefix(1);
  constexpr std::string_view kInvoke = "invoke";
  constexpr std::string_view kParameter = "parameter";
  if (around_ == State::kCalls && closes && is_block_name(tag)) {
    state_ = State::kClosed;
  } else if (around_ == State::kCalls && !closes && tag.starts_with(kInvoke)) {
    begin_call(tag.substr(kInvoke.size()), out);
  } else if (around_ == State::kParameters && closes && tag == kInvoke) {
    end_call(out);
  } else if (around_ == State::kParameters && !closes && tag.starts_with(kParameter)) {
    begin_parameter(tag.substr(kParameter.size()), out);
  } else {
    break_off();
  }
}

void CallParser::begin_call(std::string_view attributes, CallText& out) {
  const std::string_view name = take_attribute(attributes, "name");
  if (name.empty() || !attributes.empty()) return break_off();
  out.calls.push_back({calls_++, std::string(name), {}});
  keys_.clear();
  state_ = State::kParameters;
}

void CallParser::begin_parameter(std::string_view attributes, CallText& out) {
  const std::string_view key = take_attribute(attributes, "name");
  const std::string_view is_string = take_attribute(attributes, "string");
  const bool known = is_string == "true" || is_string == "false";
  if (key.empty() || !known || !attributes.empty()) return break_off();
  if (!keys_.emplace(key).second) return break_off();
  add_arguments((keys_.size() == 1 ? "{" : ", ") + json_quoted(key) + ": ", out);
  close_.clear();
  json_.clear();
  state_ = is_string == "true" ? State::kString : State::kJson;
  if (state_ == State::kString) add_arguments("\"", out);
}

void CallParser::end_call(CallText& out) {
  add_arguments(keys_.empty() ? "{}" : "}", out);
  ++completed_;
  state_ = State::kCalls;
  if (completed_ < options_.calls_max) return;
  state_ = State::kClosed;
  wasted_ = true;
}

void CallParser::value(char c, CallText& out) {
  close_ += c;
  for (const std::string_view end : kValueEnds) {
    if (close_ == end) return end_value(out);
    if (end.starts_with(close_)) return;
  }
  close_.pop_back();
  add_value(std::exchange(close_, {}), out);
  if (c == '<') {
    close_ = c;
  } else {
    add_value({&c, 1}, out);
  }
}

void CallParser::add_value(std::string_view text, CallText& out) {
  if (text.empty()) return;
  if (state_ == State::kJson) {
    json_ += text;
    return;
  }
  std::string escaped;
  append_json_escaped(with_marker_text(text), escaped);
  add_arguments(escaped, out);
}

void CallParser::end_value(CallText& out) {
  if (state_ == State::kString) {
    add_arguments("\"", out);
  } else {
    const std::string spelled = with_marker_text(json_);
    std::string_view trimmed = spelled;
    while (!trimmed.empty() && is_space(trimmed.front())) trimmed.remove_prefix(1);
    while (!trimmed.empty() && is_space(trimmed.back())) trimmed.remove_suffix(1);
    add_arguments(python_json(trimmed) ? std::string(trimmed) : json_quoted(spelled), out);
  }
  close_.clear();
  json_.clear();
  state_ = State::kParameters;
}

void CallParser::add_arguments(std::string_view text, CallText& out) {
  const uint32_t index = calls_ - 1;
  if (out.calls.empty() || out.calls.back().index != index || out.calls.back().name) {
    out.calls.push_back({index, {}, {}});
  }
  out.calls.back().arguments += text;
}

void CallParser::break_off() {
  state_ = State::kBroken;
  wasted_ = true;
}

}  // namespace thimble::text
