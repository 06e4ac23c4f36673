#include "server/chat_tokens.h"

#include <algorithm>
#include <utility>

namespace thimble::server {
namespace {

using text::Segment;
using text::SegmentKind;

// Walks over the segments of a prompt and appends their ids.
class Encoder {
 public:
  Encoder(const text::ChatPrompt& prompt, const text::Tokenizer& tokenizer,
          const text::SpecialTokens& tokens, const std::string& salt, TurnMemory* memory)
      : prompt_(prompt), tokenizer_(tokenizer), tokens_(tokens), salt_(salt), memory_(memory) {}

  ChatTokens run() {
    const auto& segments = prompt_.segments;
    for (size_t i = 0; i < segments.size();) {
      append(segments[i]);
      const bool header = is(i, tokens_.assistant) &&
                          (is(i + 1, tokens_.think_open) || is(i + 1, tokens_.think_close));
      ++i;
      if (!header) continue;
      append(segments[i++]);
      i = turn(i);
    }
    flush();
    if (prompt_.encoding == text::ChatEncoding::kRef && !used_memory_) check_whole();
    return std::move(out_);
  }

 private:
  bool is(size_t i, int32_t id) const {
    return i < prompt_.segments.size() && prompt_.segments[i].kind == SegmentKind::kSpecial &&
           prompt_.segments[i].id == id;
  }

  // A turn of the assistant, from after its header to before its end of sentence.
  size_t turn(size_t begin) {
    flush();
    const auto& segments = prompt_.segments;
    size_t end = begin;
    while (end < segments.size() && !is(end, tokens_.eos)) ++end;
    const TurnMemory::Place place{salt_, hash_.value()};
    if (end == segments.size()) out_.open = OpenTurn{out_.ids.size(), place};
    if (!recall(begin, end, place)) {
      for (size_t i = begin; i < end; ++i) append(segments[i]);
    }
    return end;
  }

  // Takes the turn's ids from memory.
  bool recall(size_t begin, size_t end, const TurnMemory::Place& place) {
    if (memory_ == nullptr || begin == end) return false;
    bool reprinted = false;
    for (size_t i = begin; i < end; ++i) reprinted |= !prompt_.segments[i].as_sent.empty();
    auto ids = memory_->find(place, parts_of(begin, end, &Segment::text), tokenizer_);
    // JSON that the model spelled in a way of its own comes back as it was.
    if (!ids && reprinted) {
      ids = memory_->find(place, parts_of(begin, end, &Segment::as_sent), tokenizer_);
    }
    if (!ids) return false;
    // Nobody asks where within the turn a segment begins.
    out_.segment_begins.insert(out_.segment_begins.end(), end - begin, out_.ids.size());
    add(*ids);
    used_memory_ = true;
    return true;
  }

  // `spelling`: which of a segment's texts to take where it has two.
  std::vector<TurnPart> parts_of(size_t begin, size_t end, std::string Segment::*spelling) const {
    std::vector<TurnPart> parts;
    for (size_t i = begin; i < end; ++i) {
      const Segment& segment = prompt_.segments[i];
      const std::string& text = segment.as_sent.empty() ? segment.text : segment.*spelling;
      if (segment.kind == SegmentKind::kSpecial) {
        parts.push_back({segment.id, {}});
      } else if (!parts.empty() && !parts.back().id) {
        parts.back().text += text;
      } else {
        parts.push_back({{}, text});
      }
    }
    return parts;
  }

  void append(const Segment& segment) {
    if (segment.kind == SegmentKind::kSpecial) {
      flush();
      out_.segment_begins.push_back(out_.ids.size());
      add({&segment.id, 1});
      return;
    }
    // Recipe's segments are cut apart; Ref's are one text between two control tokens, and begin
    // where that does.
    out_.segment_begins.push_back(out_.ids.size());
    pending_ += segment.text;
    if (prompt_.encoding == text::ChatEncoding::kRecipe) {
      flush(segment.kind == SegmentKind::kTemplate ? text::AddedTokens::kMatch
                                                   : text::AddedTokens::kPlain);
    }
  }

  void flush(text::AddedTokens added = text::AddedTokens::kMatch) {
    if (pending_.empty()) return;
    add(tokenizer_.encode(std::exchange(pending_, {}), added));
  }

  void add(std::span<const int32_t> ids) {
    out_.ids.insert(out_.ids.end(), ids.begin(), ids.end());
    hash_.add(ids);
  }

  // Ref encodes the whole string. Where an added token reaches over a border of ours, its ids hold
  // and our places do not.
  void check_whole() {
    auto whole = encode_prompt(prompt_, tokenizer_);
    if (whole != out_.ids) out_ = ChatTokens{std::move(whole), {}, {}};
  }

  const text::ChatPrompt& prompt_;
  const text::Tokenizer& tokenizer_;
  const text::SpecialTokens& tokens_;
  const std::string& salt_;
  TurnMemory* memory_;
  ChatTokens out_;
  PrefixHash hash_;
  std::string pending_;
  bool used_memory_ = false;
};

bool same(const Segment& a, const Segment& b) {
  return a.kind == b.kind && a.id == b.id && a.text == b.text;
}

}  // namespace

ChatTokens encode_chat(const text::ChatPrompt& prompt, const text::Tokenizer& tokenizer,
                       const text::SpecialTokens& tokens, const std::string& salt,
                       TurnMemory* memory) {
  return Encoder(prompt, tokenizer, tokens, salt, memory).run();
}

std::vector<uint64_t> resume_points(const text::ChatPrompt& prompt, const ChatTokens& encoded,
                                    std::vector<text::ChatMessage> messages,
                                    text::ChatOptions options, const text::SpecialTokens& tokens) {
  std::vector<uint64_t> points;
  const auto& begins = encoded.segment_begins;
  if (begins.empty()) return points;
  const auto add = [&](size_t segment) {
    const uint64_t at = segment < begins.size() ? begins[segment] : encoded.ids.size();
    if (at > 0 && (points.empty() || points.back() < at)) points.push_back(at);
  };
  const bool system = !messages.empty() && messages.front().role == text::Role::kSystem;
  if (system || has_first_turn(options)) {
    size_t end = 2;  // after BOS and the system's marker
    while (end < prompt.segments.size() && prompt.segments[end].kind != SegmentKind::kSpecial) {
      ++end;
    }
    add(end);
  }
  // Any answer, any question. An answer goes into the turn that it continues.
  const bool goes_on =
      options.ending.continue_final_message && messages.back().role == text::Role::kAssistant;
  if (goes_on && !messages.back().content.empty() && !messages.back().content.back().text.empty()) {
    messages.back().content.back().text += "answer";
  } else if (goes_on) {
    messages.back().reasoning += "reasoning";
    messages.back().content = {{text::PartKind::kText, "answer"}};
  } else {
    messages.push_back(make_message(text::Role::kAssistant, "answer", "reasoning"));
  }
  messages.push_back(make_message(text::Role::kUser, "question"));
  options.ending = {};
  const auto next = render_chat(messages, options, tokens);
  if (!next) return points;
  const auto& now = prompt.segments;
  const auto differ =
      std::mismatch(now.begin(), now.end(), next->segments.begin(), next->segments.end(), same);
  add(static_cast<size_t>(differ.first - now.begin()));
  return points;
}

}  // namespace thimble::server
