// Aim: each request gets exactly its answer. Method: every file of tests/api/cases is sent to the
// real server over loopback, with a fake generator behind it, and the answer compared with the
// file's pattern.
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>

#include "net/internal/loopback_client.h"
#include "tests/api/api_case.h"
#include "tests/api/json_pattern.h"
#include "tests/api/test_server.h"

namespace thimble::server {
namespace {

using nlohmann::json;

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(THIMBLE_API_CASES)) {
    if (entry.path().extension() == ".http") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// One setting of a "server" section.
void apply(const std::string& line, TestServerOptions& options) {
  const size_t space = line.find(' ');
  const std::string name = line.substr(0, space);
  const std::string value = space == std::string::npos ? "" : line.substr(space + 1);
  uint32_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  PromptDefaults& defaults = options.routes.defaults;
  if (name == "strict_model") {
    options.routes.model_names = ModelNames::kStrict;
  } else if (name == "api_key") {
    options.routes.api_key = value;
  } else if (name == "context") {
    options.context_tokens = number;
  } else if (name == "reasoning") {
    defaults.thinking = value == "on";
  } else if (name == "effort") {
    defaults.effort = static_cast<int32_t>(number);
  } else if (name == "encoding") {
    defaults.encoding = *text::parse_chat_encoding(value);
  } else if (name == "replay") {
    defaults.replay = *engine::parse_replay(value);
  } else if (name == "answer_tokens") {
    defaults.answer_tokens = number;
  } else if (name == "allow_origin") {
    options.routes.origins.allowed.push_back(value);
  } else if (name == "no_tool_texts") {
    options.texts = {};
  } else if (name == "no_chat") {
    options.can_chat = false;
  } else if (!name.empty()) {
    FAIL() << "unknown server setting: " << line;
  }
}

// Of a text of the form: what an answer of these tokens is.
std::string taken(const engine::AnswerForm& form, const std::vector<int32_t>& ids) {
  auto at = ids.begin();
  if (form.begins_after) at = std::find(at, ids.end(), *form.begins_after) + 1;
  text::GrammarState state = form.masker->grammar().begin();
  for (; at != ids.end(); ++at) {
    if (!form.masker->accept(state, *at)) return "nothing";
  }
  return text::Grammar::is_complete(state) ? "all" : "the beginning";
}

json form_of(const std::optional<engine::AnswerForm>& form, const std::vector<int32_t>& says) {
  if (!form) return nullptr;
  return {{"begins_after", form->begins_after ? json(*form->begins_after) : json()},
          {"barred_before", form->barred_before},
          {"says", taken(*form, says)}};
}

json parse_pattern(const std::string& text) {
  json pattern = json::parse(text, nullptr, false);
  EXPECT_FALSE(pattern.is_discarded()) << "not JSON: " << text;
  return pattern;
}

class Runner {
 public:
  void run(const std::vector<CaseSection>& sections) {
    TestServerOptions options;
    for (const CaseSection& section : sections) {
      if (section.name != "server") continue;
      for (const std::string& line : lines_of(section.text)) apply(line, options);
    }
    server_ = std::make_unique<TestServer>(options);
    for (const CaseSection& section : sections) {
      SCOPED_TRACE("section '" + section.name + "' at line " + std::to_string(section.line));
      step(section);
    }
  }

 private:
  void step(const CaseSection& section) {
    if (section.name == "says") {
      script_ = FakeScript{};
      script_.says = section.text;
      server_->generator().set_script(script_);
    } else if (section.name == "caches") {
      const std::string& n = section.text;
      std::from_chars(n.data(), n.data() + n.size(), script_.cached_tokens);
      server_->generator().set_script(script_);
    } else if (section.name == "fails") {
      const size_t space = section.text.find(' ');
      uint64_t tokens = 0;
      std::from_chars(section.text.data(), section.text.data() + space, tokens);
      script_.fails_after = tokens;
      script_.failure = section.text.substr(space + 1);
      server_->generator().set_script(script_);
    } else if (section.name == "request") {
      send(split_head(section.text));
    } else if (section.name == "response") {
      check(split_head(section.text));
    } else if (section.name == "engine") {
      check_engine(parse_pattern(section.text));
    } else if (section.name != "server") {
      FAIL() << "unknown section";
    }
  }

  void send(const HeadAndBody& request) {
    ASSERT_FALSE(request.head.empty());
    const std::string& start = request.head[0];
    const size_t space = start.find(' ');
    ASSERT_NE(space, std::string::npos) << start;
    std::vector<net::HttpHeader> headers;
    for (size_t i = 1; i < request.head.size(); ++i) {
      const size_t colon = request.head[i].find(": ");
      ASSERT_NE(colon, std::string::npos) << request.head[i];
      headers.push_back({request.head[i].substr(0, colon), request.head[i].substr(colon + 2)});
    }
    answer_ = net::ask(server_->port(), start.substr(0, space), start.substr(space + 1),
                       request.body, headers);
  }

  void check(const HeadAndBody& expected) {
    ASSERT_FALSE(expected.head.empty());
    ASSERT_EQ(std::to_string(answer_.status), expected.head[0]) << answer_.head << answer_.body;
    for (size_t i = 1; i < expected.head.size(); ++i) {
      const size_t colon = expected.head[i].find(": ");
      ASSERT_NE(colon, std::string::npos) << expected.head[i];
      EXPECT_EQ(answer_.header(expected.head[i].substr(0, colon)),
                expected.head[i].substr(colon + 2));
    }
    if (!expected.has_body) return;
    if (expected.body.starts_with("data: ") || expected.body.starts_with("event: ")) {
      return check_stream(expected.body);
    }
    const json value = json::parse(answer_.body, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << answer_.body;
    EXPECT_EQ(mismatch(parse_pattern(expected.body), value), "") << answer_.body;
  }

  void check_stream(const std::string& expected) {
    std::vector<std::string> events;
    for (const std::string& line : lines_of(answer_.body)) {
      if (!line.empty()) events.push_back(line);
    }
    const std::vector<std::string> patterns = lines_of(expected);
    for (size_t i = 0; i < std::min(events.size(), patterns.size()); ++i) {
      if (patterns[i].starts_with("event: ")) {
        ASSERT_EQ(events[i], patterns[i]) << "line " << i << " of\n" << answer_.body;
        continue;
      }
      const std::string pattern = patterns[i].substr(6);
      ASSERT_TRUE(events[i].starts_with("data: ")) << events[i];
      const std::string event = events[i].substr(6);
      if (pattern == "[DONE]" || event == "[DONE]") {
        EXPECT_EQ(event, pattern) << "event " << i;
      } else {
        EXPECT_EQ(mismatch(parse_pattern(pattern), json::parse(event)), "") << "event " << i;
      }
    }
    EXPECT_EQ(events.size(), patterns.size()) << answer_.body;
  }

  void check_engine(const json& pattern) {
    const auto requests = server_->generator().requests();
    ASSERT_FALSE(requests.empty()) << "nothing reached the engine";
    const engine::GenerationRequest& last = requests.back();
    const auto says = server_->tokenizer().encode(script_.says, text::AddedTokens::kMatch);
    json bias = json::array();
    for (const auto& [token, by] : last.sampling.logit_bias) bias.push_back({token, by});
    const json value = {{"prompt", server_->tokenizer().decode(last.prompt).value_or("?")},
                        {"prompt_ids", last.prompt},
                        {"max_tokens", last.max_tokens},
                        {"temperature", last.sampling.temperature},
                        {"top_p", last.sampling.top_p},
                        {"top_k", last.sampling.top_k},
                        {"min_p", last.sampling.min_p},
                        {"seed", last.sampling.seed},
                        {"presence_penalty", last.sampling.presence_penalty},
                        {"frequency_penalty", last.sampling.frequency_penalty},
                        {"repetition_penalty", last.sampling.repetition_penalty},
                        {"logit_bias", bias},
                        {"stop_tokens", last.stop_tokens},
                        {"masked_tokens", last.masked_tokens.size()},
                        {"replay", engine::to_string(last.replay)},
                        {"cache_salt", last.cache_salt},
                        {"reuse", last.reuse},
                        {"snapshot_points", last.snapshot_points},
                        {"form", form_of(last.form, says)},
                        {"top_logprobs", last.top_logprobs ? json(*last.top_logprobs) : json()}};
    EXPECT_EQ(mismatch(pattern, value), "");
  }

  std::unique_ptr<TestServer> server_;
  FakeScript script_;
  net::Answer answer_;
};

class ApiCase : public testing::TestWithParam<std::string> {};

TEST_P(ApiCase, AnswersAsWritten) {
  const auto sections = read_case(Path(THIMBLE_API_CASES) / (GetParam() + ".http"));
  ASSERT_TRUE(sections) << sections.error().describe();
  Runner().run(*sections);
}

INSTANTIATE_TEST_SUITE_P(Cases, ApiCase, testing::ValuesIn(case_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace thimble::server
