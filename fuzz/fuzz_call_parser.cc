// What a model may write, malformed as it likes, cut as it likes.
//
// The first byte seeds the cuts, the rest is the answer with 0xFF for the marker. Cut and uncut
// give the same; no marker comes out; prose ends where a block begins; whole calls have arguments
// that are JSON; what is rendered of a whole call is parsed to the same call.
#include "base/check.h"
#include "base/random.h"
#include "fuzz/input.h"
#include "text/call_parser.h"
#include "text/internal/call_segments.h"
#include "text/json_text.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

struct Parsed {
  std::string prose;
  std::vector<ToolCall> calls;
  uint32_t completed = 0;
  bool closed = false;
  bool broken = false;
};

void take(const CallText& text, bool& opened, Parsed& out) {
  CHECK(!opened || text.prose.empty());
  CHECK(is_valid_utf8(text.prose));
  opened = opened || text.opened;
  out.prose += text.prose;
  for (const CallDelta& delta : text.calls) {
    CHECK(opened);
    CHECK(is_valid_utf8(delta.arguments));
    if (delta.name) {
      CHECK_EQ(delta.index, out.calls.size());
      CHECK(delta.arguments.empty() && !delta.name->empty());
      out.calls.push_back({"", *delta.name, ""});
    } else {
      CHECK_EQ(delta.index + 1, out.calls.size());
      out.calls.back().arguments += delta.arguments;
    }
  }
}

// Whole characters and markers.
std::vector<std::string> characters(std::string_view bytes) {
  std::vector<std::string> out;
  while (!bytes.empty()) {
    const Utf8Step step = next_code_point(bytes);
    const bool marker = bytes[0] == CallParser::kMarker;
    out.emplace_back(step.valid || marker ? bytes.substr(0, step.bytes) : kReplacementUtf8);
    bytes.remove_prefix(step.bytes);
  }
  return out;
}

Parsed parse(const std::vector<std::string>& pieces) {
  CallParser parser;
  Parsed out;
  bool opened = false;
  for (const std::string& piece : pieces) {
    CallText text;
    parser.push(piece, text);
    take(text, opened, out);
  }
  out.completed = parser.completed();
  out.closed = parser.closed();
  out.broken = parser.broken();
  CallText rest;
  parser.finish(rest);
  take(rest, opened, out);
  return out;
}

void check_same(const Parsed& a, const Parsed& b) {
  CHECK(a.prose == b.prose);
  CHECK_EQ(a.calls.size(), b.calls.size());
  for (size_t i = 0; i < a.calls.size(); ++i) {
    CHECK(a.calls[i].name == b.calls[i].name);
    CHECK(a.calls[i].arguments == b.calls[i].arguments);
  }
  CHECK_EQ(a.completed, b.completed);
  CHECK(a.closed == b.closed && a.broken == b.broken);
}

void check_round_trip(const ToolCall& call) {
  const auto canonical = python_json(call.arguments);
  CHECK(canonical.has_value());
  const auto segments = call_segments({&call, 1}, 0);
  if (!segments) return;  // a name or key that only this model writes
  std::string text;
  for (const Segment& segment : *segments) {
    const bool marker = segment.kind == SegmentKind::kSpecial;
    text += marker ? std::string(1, CallParser::kMarker) : segment.text;
  }
  const Parsed again = parse({text});
  CHECK(again.closed);
  CHECK_EQ(again.calls.size(), 1u);
  CHECK(again.calls[0].name == call.name);
  CHECK(python_json(again.calls[0].arguments).value_or("?") == *canonical);
}

void run(fuzz::Input& input) {
  base::SplitMix64 random(input.byte());
  const std::vector<std::string> pieces = characters(input.rest());
  std::string whole;
  std::vector<std::string> cut = {""};
  for (const std::string& piece : pieces) {
    whole += piece;
    cut.back() += piece;
    if (random.below(3) == 0) cut.emplace_back();
  }
  const Parsed parsed = parse({whole});
  check_same(parsed, parse(pieces));
  check_same(parsed, parse(cut));
  CHECK_LE(parsed.completed, parsed.calls.size());
  for (size_t i = 0; i < parsed.completed; ++i) check_round_trip(parsed.calls[i]);
}

}  // namespace
}  // namespace thimble::text

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::fuzz::Input input(data, size);
  thimble::text::run(input);
  return 0;
}
