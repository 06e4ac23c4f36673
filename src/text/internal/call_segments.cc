#include "text/internal/call_segments.h"

#include <utility>

#include "text/call_parser.h"
#include "text/internal/call_markup.h"

namespace thimble::text {
namespace {

// Appends template text, markers in it, and caller text.
class Writer {
 public:
  explicit Writer(int32_t dsml) : dsml_(dsml) {}

  void markup(std::string_view text) {
    for (const char c : text) {
      if (c == CallParser::kMarker) {
        segments_.push_back({SegmentKind::kSpecial, dsml_, std::string(kDsmlText), {}});
      } else {
        if (segments_.empty() || segments_.back().kind != SegmentKind::kTemplate) {
          segments_.push_back({SegmentKind::kTemplate, -1, {}, {}});
        }
        segments_.back().text += c;
      }
    }
  }
  void caller(std::string text, std::string as_sent = {}) {
    if (text.empty()) return;
    if (as_sent == text) as_sent.clear();
    segments_.push_back({SegmentKind::kCaller, -1, std::move(text), std::move(as_sent)});
  }
  std::vector<Segment> take() { return std::move(segments_); }

 private:
  int32_t dsml_;
  std::vector<Segment> segments_;
};

void open_call(const std::string& name, Writer& writer) {
  writer.markup(kCallOpen);
  writer.caller(name);
  writer.markup(kCallOpened);
}

}  // namespace

Result<std::vector<Segment>> call_segments(std::span<const ToolCall> calls, int32_t dsml) {
  Writer writer(dsml);
  writer.markup(kBlockOpen);
  std::string_view between_calls;
  for (const ToolCall& call : calls) {
    writer.markup(between_calls);
    between_calls = kBetween;
    if (!is_tool_name(call.name)) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "function.name: expected 1 to {} letters, digits, underscores and hyphens",
                        kToolNameBytesMax);
    }
    open_call(call.name, writer);
    std::string_view between;
    for (CallParameter& parameter : THIMBLE_TRY(call_parameters(call))) {
      writer.markup(between);
      writer.markup(kParameterOpen);
      writer.markup("\"");
      writer.caller(std::move(parameter.key));
      writer.markup("\"");
      writer.markup(parameter.is_string ? kTextOpened : kJsonOpened);
      writer.caller(std::move(parameter.value), std::move(parameter.as_sent));
      writer.markup(kParameterClose);
      between = kBetween;
    }
    writer.markup(kCallClose);
  }
  writer.markup(kBlockClose);
  return writer.take();
}

ForcedBlock forced_block(const ForcedCall& forced, int32_t dsml) {
  Writer writer(dsml);
  writer.markup(kBlockOpen);
  if (!forced.name.empty()) open_call(forced.name, writer);
  ForcedBlock out{writer.take(), {}};
  for (const Segment& segment : out.segments) {
    if (segment.kind == SegmentKind::kSpecial) {
      out.text += CallParser::kMarker;
    } else {
      out.text += segment.text;
    }
  }
  return out;
}

}  // namespace thimble::text
