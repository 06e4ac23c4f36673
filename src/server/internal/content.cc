#include "server/internal/content.h"

#include <algorithm>
#include <array>

namespace thimble::server {
namespace {

Result<text::PartKind> responses_part_kind(std::string_view type) {
  constexpr std::array<std::string_view, 6> kTexts{"input_text",   "output_text",    "text",
                                                   "summary_text", "reasoning_text", "refusal"};
  if (std::ranges::count(kTexts, type) > 0) return text::PartKind::kText;
  if (type == "input_image") return text::PartKind::kImage;
  return base::fail(ErrorCode::kInvalidArgument,
                    "content part of type \"{}\", expected input_text or output_text",
                    type.substr(0, 64));
}

ApiResult<text::ContentPart> read_part(const Json& json, const std::string& path, PartNames names) {
  if (json.is_string()) return text::ContentPart{text::PartKind::kText, json.get<std::string>()};
  if (!json.is_object()) {
    return bad_field(path, fmt::format("'{}' must be an object with a 'type'", path));
  }
  const Fields part(json, path);
  const std::string type = THIMBLE_TRY(part.string("type")).value_or("");
  const auto kind =
      names == PartNames::kChat ? text::parse_part_kind(type) : responses_part_kind(type);
  if (!kind) return bad_field(part.path_of("type"), kind.error().describe());
  if (*kind == text::PartKind::kImage) {
    return not_yet(path, fmt::format("'{}': images are not supported yet", path));
  }
  const char* const field = type == "refusal" ? "refusal" : "text";
  auto text = THIMBLE_TRY(part.string(field));
  if (!text) return bad_field(part.path_of(field), fmt::format("'{}' has no '{}'", path, field));
  return text::ContentPart{*kind, std::move(*text)};
}

}  // namespace

ApiResult<std::vector<text::ContentPart>> read_content(const Json& content, const std::string& path,
                                                       PartNames names) {
  std::vector<text::ContentPart> parts;
  if (content.is_string()) {
    parts.push_back({text::PartKind::kText, content.get<std::string>()});
    return parts;
  }
  if (!content.is_array()) {
    return bad_field(path, fmt::format("'{}' must be a string or an array of parts, not {}", path,
                                       type_name(content)));
  }
  for (size_t i = 0; i < content.size(); ++i) {
    parts.push_back(THIMBLE_TRY(read_part(content[i], indexed(path, i), names)));
  }
  return parts;
}

}  // namespace thimble::server
