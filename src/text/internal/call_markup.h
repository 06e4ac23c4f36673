// The markup of calls as prompts have it and as an answer is held to it (chat-format spec 6.2),
// with CallParser::kMarker for the control token. What a CallParser takes is more.
#pragma once

#include <string_view>

namespace thimble::text {

inline constexpr std::string_view kBlockOpen = "\n\n<\xFF calls>\n";
inline constexpr std::string_view kBlockClose = "\n</\xFF calls>";
// Between them a function's name.
inline constexpr std::string_view kCallOpen = "<\xFF invoke name=\"";
inline constexpr std::string_view kCallOpened = "\">\n";
inline constexpr std::string_view kCallClose = "\n</\xFF invoke>";
// A parameter's name stands in quotes before one of the two, its value behind.
inline constexpr std::string_view kParameterOpen = "<\xFF parameter name=";
inline constexpr std::string_view kTextOpened = " string=\"true\">";
inline constexpr std::string_view kJsonOpened = " string=\"false\">";
inline constexpr std::string_view kParameterClose = "</\xFF parameter>";
inline constexpr std::string_view kBetween = "\n";  // two calls, or two parameters

}  // namespace thimble::text
