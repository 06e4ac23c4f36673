// A test case of the API as a text file: what to send, what must come back.
//
//   # Aim: any number of comment lines.
//   --- server            settings, one a line: strict_model, api_key K, context N, reasoning off,
//                         effort N, encoding ref, replay R, no_chat, no_tool_texts, answer_tokens
//                         N, allow_origin O
//   --- says              what the fake generator says to the requests that follow
//   --- caches            so many tokens of the prompts that follow, and half of them run again
//   --- fails             "N message": it fails after N tokens instead
//   --- request           start line, headers, blank line, body
//   --- response          status, headers that must be there, blank line, a pattern of the body
//   --- engine            pattern of the request that reached the engine, prompt as text
//
// A body pattern is JSON (json_pattern.h), or for a stream lines "data: PATTERN", each after a line
// "event: NAME" where events have names. Without a blank line nothing is said about the body.
// "request" and what follows may be repeated.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace thimble::server {

struct CaseSection {
  std::string name;
  std::string text;  // without the last line break
  int line = 0;      // of the "---" line
};

Result<std::vector<CaseSection>> read_case(const Path& file);

// The first part of "a\n\nb"; `body` is what follows, absent where there is no blank line.
struct HeadAndBody {
  std::vector<std::string> head;
  bool has_body = false;
  std::string body;
};
HeadAndBody split_head(const std::string& text);

std::vector<std::string> lines_of(const std::string& text);

}  // namespace thimble::server
