// The cache-resumption evaluation against a running server: the same request cold, cached, after an
// idle time, and reached by extending a cached prompt.
//
// A server's inside is out of reach, so the answers are compared: their tokens at temperature 0 and
// the log-probs these had. A prompt is cold because it begins with words that nobody has sent
// before. Source: docs/eval.md.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/thimble/eval/endpoint.h"

namespace thimble::app {

// An answer beside the cold one.
struct AnswerDifference {
  bool same = false;                          // the whole text
  std::optional<uint64_t> first_other_token;  // where log-probs are there
  std::optional<uint64_t> first_other_byte;   // of the text
  uint64_t compared_tokens = 0;               // before the first other one
  double max_logprob_diff = 0;                // of these
  double sum_logprob_diff = 0;
};

AnswerDifference compare_answers(const EndpointAnswer& cold, const EndpointAnswer& other);

struct EndpointText {
  std::string name;
  std::string text;
};

struct EndpointRun {
  enum class Kind { kRepeated, kIdle, kExtended };
  Kind kind = Kind::kRepeated;
  size_t text = 0;  // index into EndpointReport::texts
  EndpointAnswer answer;
  EndpointAnswer cold;
  std::optional<AnswerDifference> difference;  // empty: there was no cold run to compare with
};

struct EndpointReport {
  std::string url;
  std::string model;
  uint32_t answer_tokens = 0;
  uint32_t idle_seconds = 0;
  std::vector<std::string> texts;  // names
  std::vector<EndpointRun> runs;
  std::vector<std::string> notes;
};

struct EndpointEvaluation {
  std::vector<EndpointText> texts;
  uint32_t answer_tokens = 16;
  uint32_t idle_seconds = 5;
  std::function<void()> progress;  // after each of endpoint_steps(); may be empty
};

uint64_t endpoint_steps(const EndpointEvaluation& evaluation);
Result<EndpointReport> evaluate_endpoint(Endpoint& endpoint, const EndpointEvaluation& evaluation);

std::string to_table(const EndpointReport& report);
nlohmann::ordered_json to_json(const EndpointReport& report);

}  // namespace thimble::app
