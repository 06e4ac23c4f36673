#include "text/internal/call_segments.h"

#include <utility>

#include "text/call_parser.h"

namespace thimble::text {
namespace {

// Appends template text with `M` for the marker, and caller text.
class Writer {
 public:
  explicit Writer(int32_t dsml) : dsml_(dsml) {}

  void markup(std::string_view text) {
    for (const char c : text) {
      if (c == 'M') {
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

void open_block(Writer& writer) { writer.markup("\n\n<M calls>\n"); }

void open_call(const std::string& name, Writer& writer) {
  writer.markup("<M invoke name=\"");
  writer.caller(name);
  writer.markup("\">\n");
}

}  // namespace

Result<std::vector<Segment>> call_segments(std::span<const ToolCall> calls, int32_t dsml) {
  Writer writer(dsml);
  open_block(writer);
  for (const ToolCall& call : calls) {
    if (!is_tool_name(call.name)) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "function.name: expected 1 to {} letters, digits, underscores and hyphens",
                        kToolNameBytesMax);
    }
    open_call(call.name, writer);
    const char* between = "";
    for (CallParameter& parameter : THIMBLE_TRY(call_parameters(call))) {
      writer.markup(between);
      writer.markup("<M parameter name=\"");
      writer.caller(std::move(parameter.key));
      writer.markup(parameter.is_string ? "\" string=\"true\">" : "\" string=\"false\">");
      writer.caller(std::move(parameter.value), std::move(parameter.as_sent));
      writer.markup("</M parameter>");
      between = "\n";
    }
    writer.markup("\n</M invoke>\n");
  }
  writer.markup("</M calls>");
  return writer.take();
}

ForcedBlock forced_block(const ForcedCall& forced, int32_t dsml) {
  Writer writer(dsml);
  open_block(writer);
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
