#include "apps/thimble/eval/endpoint_resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/bytes.h"
#include "base/random.h"
#include "base/terminal.h"
#include "text/utf8.h"

namespace thimble::app {
namespace {

using Cache = Endpoint::Cache;
using Json = nlohmann::ordered_json;
using Kind = EndpointRun::Kind;

constexpr Kind kKinds[] = {Kind::kRepeated, Kind::kIdle, Kind::kExtended};
constexpr uint64_t kStepsPerText = 6;

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kRepeated:
      return "repeated";
    case Kind::kIdle:
      return "idle";
    case Kind::kExtended:
      return "extended";
  }
  return "?";
}

// Words that begin a prompt nobody has sent before.
std::string salted(std::string_view text) {
  return fmt::format("{:016x} is the number of this page.\n\n{}", base::entropy_u64(), text);
}

// About two thirds of a prompt, cut between words where there are any.
std::string prefix_of(const std::string& prompt) {
  const size_t cut = prompt.size() * 2 / 3;
  const size_t space = prompt.rfind(' ', cut);
  return text::to_valid_utf8(
      std::string_view(prompt).substr(0, space == std::string::npos ? cut : space));
}

class Evaluation {
 public:
  Evaluation(Endpoint& endpoint, const EndpointEvaluation& wanted)
      : endpoint_(endpoint), wanted_(wanted) {}

  Result<void> run(size_t text, EndpointReport& report) {
    THIMBLE_TRY(run_same(text, report));
    return run_extended(text, report);
  }

 private:
  Result<EndpointAnswer> ask(const std::string& prompt, uint32_t tokens, Cache cache) {
    auto answer = THIMBLE_TRY(endpoint_.complete(prompt, tokens, cache));
    if (wanted_.progress) wanted_.progress();
    return answer;
  }

  // The same request three times: cold, at once again, and after a while.
  Result<void> run_same(size_t text, EndpointReport& report) {
    const std::string prompt = salted(wanted_.texts[text].text);
    const auto cold = THIMBLE_TRY(ask(prompt, wanted_.answer_tokens, Cache::kUse));
    for (const Kind kind : {Kind::kRepeated, Kind::kIdle}) {
      if (kind == Kind::kIdle) {
        std::this_thread::sleep_for(std::chrono::seconds(wanted_.idle_seconds));
      }
      auto answer = THIMBLE_TRY(ask(prompt, wanted_.answer_tokens, Cache::kUse));
      const auto difference = compare_answers(cold, answer);
      report.runs.push_back({kind, text, std::move(answer), cold, difference});
    }
    return {};
  }

  // A prompt whose beginning was sent before it. Its cold run comes last, past the cache; a server
  // that cannot do so, or does not say that it did, leaves nothing to compare with.
  Result<void> run_extended(size_t text, EndpointReport& report) {
    const std::string prompt = salted(wanted_.texts[text].text);
    THIMBLE_TRY(ask(prefix_of(prompt), 1, Cache::kUse));
    auto answer = THIMBLE_TRY(ask(prompt, wanted_.answer_tokens, Cache::kUse));
    auto cold = THIMBLE_TRY(ask(prompt, wanted_.answer_tokens, Cache::kBypass));
    std::optional<AnswerDifference> difference;
    const bool was_cold =
        cold.cached_tokens && *cold.cached_tokens <= answer.cached_tokens.value_or(0) / 8;
    if (was_cold) difference = compare_answers(cold, answer);
    report.runs.push_back({Kind::kExtended, text, std::move(answer), std::move(cold), difference});
    return {};
  }

  Endpoint& endpoint_;
  const EndpointEvaluation& wanted_;
};

// All texts of one kind together.
struct Total {
  uint64_t runs = 0;
  uint64_t compared = 0;
  uint64_t same = 0;
  uint64_t tokens = 0;
  double max_logprob_diff = 0;
  double sum_logprob_diff = 0;
  std::optional<uint64_t> first_other_token;
  std::optional<uint64_t> first_other_byte;
  std::optional<uint64_t> prompt_tokens;
  std::optional<uint64_t> cached_tokens;
  std::optional<uint64_t> replayed_tokens;

  double mean_logprob_diff() const {
    return tokens == 0 ? 0 : sum_logprob_diff / static_cast<double>(tokens);
  }
};

void add(std::optional<uint64_t>& sum, const std::optional<uint64_t>& value) {
  if (value) sum = sum.value_or(0) + *value;
}

void lower(std::optional<uint64_t>& least, const std::optional<uint64_t>& value) {
  if (value) least = std::min(least.value_or(*value), *value);
}

Total total_of(const EndpointReport& report, Kind kind) {
  Total total;
  for (const EndpointRun& run : report.runs) {
    if (run.kind != kind) continue;
    ++total.runs;
    add(total.prompt_tokens, run.answer.prompt_tokens);
    add(total.cached_tokens, run.answer.cached_tokens);
    add(total.replayed_tokens, run.answer.replayed_tokens);
    if (!run.difference) continue;
    ++total.compared;
    total.same += run.difference->same ? 1 : 0;
    total.tokens += run.difference->compared_tokens;
    total.max_logprob_diff = std::max(total.max_logprob_diff, run.difference->max_logprob_diff);
    total.sum_logprob_diff += run.difference->sum_logprob_diff;
    lower(total.first_other_token, run.difference->first_other_token);
    lower(total.first_other_byte, run.difference->first_other_byte);
  }
  return total;
}

std::string or_dash(const std::optional<uint64_t>& value) {
  return value ? fmt::format("{}", *value) : "-";
}

std::string row(const EndpointReport& report, Kind kind) {
  const Total total = total_of(report, kind);
  const std::string cached =
      fmt::format("{} / {}", or_dash(total.cached_tokens), or_dash(total.prompt_tokens));
  std::string same = "no cold run";
  if (total.compared > 0) same = fmt::format("{} of {}", total.same, total.compared);
  std::string max = "-";
  std::string mean = "-";
  if (total.tokens > 0) {
    max = fmt::format("{:.2e}", total.max_logprob_diff);
    mean = fmt::format("{:.2e}", total.mean_logprob_diff());
  }
  const auto& other = total.first_other_token ? total.first_other_token : total.first_other_byte;
  const char* const unit = other ? (total.first_other_token ? " (token)" : " (byte)") : "";
  return fmt::format("{:<11}{:>16}{:>9}{:>14}{:>15}{:>15}{:>15}\n", name_of(kind), cached,
                     or_dash(total.replayed_tokens), same, or_dash(other) + unit, max, mean);
}

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json answer_json(const EndpointAnswer& answer) {
  return {{"text", text::to_valid_utf8(answer.text)},
          {"prompt_tokens", or_null(answer.prompt_tokens)},
          {"cached_tokens", or_null(answer.cached_tokens)},
          {"replayed_tokens", or_null(answer.replayed_tokens)}};
}

Json run_json(const EndpointReport& report, const EndpointRun& run) {
  Json out = {{"text", report.texts[run.text]},
              {"run", name_of(run.kind)},
              {"answer", answer_json(run.answer)},
              {"cold", answer_json(run.cold)},
              {"difference", nullptr}};
  if (!run.difference) return out;
  const AnswerDifference& difference = *run.difference;
  out["difference"] = {{"same", difference.same},
                       {"first_other_token", or_null(difference.first_other_token)},
                       {"first_other_byte", or_null(difference.first_other_byte)},
                       {"compared_tokens", difference.compared_tokens},
                       {"max_abs_logprob_diff", difference.max_logprob_diff}};
  return out;
}

}  // namespace

AnswerDifference compare_answers(const EndpointAnswer& cold, const EndpointAnswer& other) {
  AnswerDifference out;
  out.same = cold.text == other.text;
  if (!out.same) {
    const auto [at, unused] = std::ranges::mismatch(cold.text, other.text);
    out.first_other_byte = static_cast<uint64_t>(at - cold.text.begin());
  }
  if (cold.tokens.empty() || other.tokens.empty()) return out;
  const size_t common = std::min(cold.tokens.size(), other.tokens.size());
  for (size_t i = 0; i < common; ++i) {
    if (cold.tokens[i].text != other.tokens[i].text) {
      out.first_other_token = i;
      return out;
    }
    const double apart = std::abs(cold.tokens[i].logprob - other.tokens[i].logprob);
    out.max_logprob_diff = std::max(out.max_logprob_diff, apart);
    out.sum_logprob_diff += apart;
    ++out.compared_tokens;
  }
  if (cold.tokens.size() != other.tokens.size()) out.first_other_token = common;
  return out;
}

uint64_t endpoint_steps(const EndpointEvaluation& evaluation) {
  return evaluation.texts.size() * kStepsPerText;
}

Result<EndpointReport> evaluate_endpoint(Endpoint& endpoint, const EndpointEvaluation& evaluation) {
  EndpointReport report;
  report.url = endpoint.url();
  report.model = endpoint.model();
  report.answer_tokens = evaluation.answer_tokens;
  report.idle_seconds = evaluation.idle_seconds;
  Evaluation run(endpoint, evaluation);
  for (size_t t = 0; t < evaluation.texts.size(); ++t) {
    report.texts.push_back(evaluation.texts[t].name);
    THIMBLE_TRY(base::in(run.run(t, report), evaluation.texts[t].name));
  }
  report.notes = endpoint.notes();
  const Total extended = total_of(report, Kind::kExtended);
  if (extended.compared < extended.runs) {
    report.notes.emplace_back(
        "Extended prompts have no cold run to compare with where the server ignores cache_salt and "
        "cache_prompt, or does not report cached tokens.");
  }
  if (!total_of(report, Kind::kRepeated).cached_tokens) {
    report.notes.emplace_back(
        "The server does not say how much of a prompt was cached: nobody knows whether it was.");
  }
  return report;
}

std::string to_table(const EndpointReport& report) {
  std::string out = fmt::format("{} at {}: {}, {} an answer, temperature 0\n\n", report.model,
                                report.url, base::counted(report.texts.size(), "text", "texts"),
                                base::counted(report.answer_tokens, "token", "tokens"));
  out += base::styled(
      base::Stream::kOut, base::Style::kBold,
      fmt::format("{:<11}{:>16}{:>9}{:>14}{:>15}{:>15}{:>15}", "run", "cached / prompt", "again",
                  "same answers", "first other", "max|dlogprob|", "mean|dlogprob|"));
  out += '\n';
  for (const Kind kind : kKinds) out += row(report, kind);
  out += fmt::format(
      "\nrepeated  the same request again, at once\n"
      "idle      once more after {} s\n"
      "extended  a prompt whose first two thirds were sent before it\n"
      "\nEach against a cold run: a prompt that begins with words never sent before. again: rows "
      "of\n"
      "the prompt that the server says it ran again. |dlogprob|: over the tokens before the first\n"
      "other one.\n",
      report.idle_seconds);
  for (const std::string& note : report.notes) out += "\n" + note + "\n";
  return out;
}

Json to_json(const EndpointReport& report) {
  Json out = {{"endpoint", report.url},
              {"model", report.model},
              {"answer_tokens", report.answer_tokens},
              {"idle_seconds", report.idle_seconds},
              {"texts", report.texts},
              {"notes", report.notes}};
  out["runs"] = Json::object();
  for (const Kind kind : kKinds) {
    const Total total = total_of(report, kind);
    out["runs"][name_of(kind)] = {{"answers", total.runs},
                                  {"compared", total.compared},
                                  {"same", total.same},
                                  {"first_other_token", or_null(total.first_other_token)},
                                  {"first_other_byte", or_null(total.first_other_byte)},
                                  {"compared_tokens", total.tokens},
                                  {"max_abs_logprob_diff", total.max_logprob_diff},
                                  {"mean_abs_logprob_diff", total.mean_logprob_diff()},
                                  {"prompt_tokens", or_null(total.prompt_tokens)},
                                  {"cached_tokens", or_null(total.cached_tokens)},
                                  {"replayed_tokens", or_null(total.replayed_tokens)}};
  }
  out["answers"] = Json::array();
  for (const EndpointRun& run : report.runs) out["answers"].push_back(run_json(report, run));
  return out;
}

}  // namespace thimble::app
