// Aim: answers of different servers are understood, what they lack is noticed, and differences are
// counted to the first other token. Method: answers in each known form, and a scripted server.
#include "apps/thimble/eval/endpoint_resume.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>

namespace thimble::app {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST(EndpointAnswer, PlainCompletions) {
  const auto answer = parse_answer(R"({"choices": [{"text": "ab", "logprobs": {
      "tokens": ["a", "b"], "token_logprobs": [-0.5, -1.5]}}],
      "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8},
                "thimble": {"replayed_tokens": 4}}})");
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->text, "ab");
  ASSERT_EQ(answer->tokens.size(), 2u);
  EXPECT_EQ(answer->tokens[1].text, "b");
  EXPECT_EQ(answer->tokens[1].logprob, -1.5);
  EXPECT_EQ(answer->prompt_tokens, 9u);
  EXPECT_EQ(answer->cached_tokens, 8u);
  EXPECT_EQ(answer->replayed_tokens, 4u);
}

TEST(EndpointAnswer, ChatWithReasoningFirst) {
  const auto answer = parse_answer(R"({"choices": [{"message": {"content": "b",
      "reasoning_content": "a"}, "logprobs": {"content": [{"token": "b", "logprob": -2}],
      "reasoning_content": [{"token": "a", "logprob": -1}]}}],
      "timings": {"cache_n": 3}, "usage": {"prompt_tokens_details": null}})");
  ASSERT_TRUE(answer) << answer.error().describe();
  EXPECT_EQ(answer->text, "ab");
  ASSERT_EQ(answer->tokens.size(), 2u);
  EXPECT_EQ(answer->tokens[0].text, "a");
  EXPECT_EQ(answer->cached_tokens, 3u);
  EXPECT_FALSE(answer->prompt_tokens);
}

TEST(EndpointAnswer, WhatIsNoneIsRefused) {
  for (const char* body : {"", "nonsense", "{}", "[1]", R"({"choices": []})"}) {
    EXPECT_FALSE(parse_answer(body)) << body;
  }
  const auto odd = parse_answer(R"({"choices": [{"text": 5, "logprobs": {"tokens": [1],
      "token_logprobs": ["x"]}}], "usage": 7})");
  ASSERT_TRUE(odd);
  EXPECT_TRUE(odd->tokens.empty());
}

EndpointAnswer said(std::string text, std::vector<AnswerToken> tokens) {
  EndpointAnswer answer;
  answer.text = std::move(text);
  answer.tokens = std::move(tokens);
  return answer;
}

TEST(CompareAnswers, UpToTheFirstOtherToken) {
  const EndpointAnswer cold = said("abc", {{"a", -1}, {"b", -2}, {"c", -3}});
  const EndpointAnswer other = said("abd", {{"a", -1.5}, {"b", -1.75}, {"d", -9}});
  const AnswerDifference difference = compare_answers(cold, other);
  EXPECT_FALSE(difference.same);
  EXPECT_EQ(difference.first_other_token, 2u);
  EXPECT_EQ(difference.first_other_byte, 2u);
  EXPECT_EQ(difference.compared_tokens, 2u);
  EXPECT_EQ(difference.max_logprob_diff, 0.5);
  EXPECT_EQ(difference.sum_logprob_diff, 0.75);
  const AnswerDifference none = compare_answers(cold, cold);
  EXPECT_TRUE(none.same);
  EXPECT_FALSE(none.first_other_token || none.first_other_byte);
  EXPECT_EQ(none.max_logprob_diff, 0);
  EXPECT_EQ(none.compared_tokens, 3u);
}

TEST(CompareAnswers, ShorterAnswersAndNoLogprobs) {
  const EndpointAnswer cold = said("ab", {{"a", -1}, {"b", -2}});
  EXPECT_EQ(compare_answers(cold, said("a", {{"a", -1}})).first_other_token, 1u);
  EXPECT_EQ(compare_answers(cold, said("a", {{"a", -1}})).first_other_byte, 1u);
  const AnswerDifference texts = compare_answers(cold, said("ax", {}));
  EXPECT_EQ(texts.first_other_byte, 1u);
  EXPECT_FALSE(texts.first_other_token);
  EXPECT_EQ(texts.compared_tokens, 0u);
}

// A server that answers as `answer` says and remembers what it was asked.
class ScriptedServer {
 public:
  using Answer = std::function<net::HttpResponse(const std::string& path, const json& body)>;

  explicit ScriptedServer(Answer answer) : answer_(std::move(answer)) {
    server_ = std::move(*net::HttpServer::listen({}));
    server_->start([this](const std::shared_ptr<net::HttpExchange>& exchange) {
      const net::HttpRequest& request = exchange->request();
      json body = json::parse(request.body, nullptr, false);
      auto response = answer_(request.path, body);
      {
        const std::lock_guard lock(mutex_);
        key_ = request.header("Authorization");
        if (response.status == 200) asked_.push_back(std::move(body));
      }
      exchange->respond(std::move(response));
    });
  }
  ~ScriptedServer() { server_->stop(0); }
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string url() const { return server_->url(); }
  std::string key() {
    const std::lock_guard lock(mutex_);
    return key_;
  }
  std::vector<json> asked() {  // what was answered, that is
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  Answer answer_;
  std::mutex mutex_;
  std::string key_;
  std::vector<json> asked_;
  std::unique_ptr<net::HttpServer> server_;
};

net::HttpResponse reply(const json& body) { return {200, {}, body.dump()}; }
net::HttpResponse refusal(uint32_t status, const char* why) {
  return {status, {}, json({{"error", {{"message", why}}}}).dump()};
}

json completion(const char* text, int prompt, int cached) {
  return {{"choices", {{{"text", text}}}},
          {"usage",
           {{"prompt_tokens", prompt}, {"prompt_tokens_details", {{"cached_tokens", cached}}}}}};
}

EndpointReport evaluated(const std::string& url) {
  auto endpoint =
      Endpoint::open({.url = url, .api_key = "secret", .model = "m", .replay = "bounded"});
  EXPECT_TRUE(endpoint) << endpoint.error().describe();
  EndpointEvaluation evaluation;
  evaluation.texts = {{"t", "some words that go on for a while"}};
  evaluation.idle_seconds = 0;
  uint64_t steps = 0;
  evaluation.progress = [&steps] { ++steps; };
  auto report = evaluate_endpoint(*endpoint, evaluation);
  EXPECT_TRUE(report) << report.error().describe();
  EXPECT_EQ(steps, endpoint_steps(evaluation));
  return *report;
}

// Neither plain completions nor log-probs, and fields that it does not know are refused.
TEST(Endpoint, AServerThatKnowsOnlyChat) {
  ScriptedServer server([](const std::string& path, const json& body) {
    if (path != "/v1/chat/completions") return refusal(404, "no such path");
    if (body.contains("cache_salt")) return refusal(422, "unknown field cache_salt");
    if (body.contains("logprobs")) return refusal(400, "logprobs are not supported");
    return reply({{"choices", {{{"message", {{"content", "yes"}}}}}}});
  });
  const EndpointReport report = evaluated(server.url());
  EXPECT_EQ(server.key(), "Bearer secret");
  const auto asked = server.asked();
  ASSERT_EQ(asked.size(), 6u);
  EXPECT_EQ(asked[0]["temperature"], 0);
  EXPECT_EQ(asked[0]["replay"], "bounded");
  EXPECT_EQ(asked[0]["messages"], asked[1]["messages"]);
  EXPECT_NE(asked[0]["messages"], asked[4]["messages"]) << "another prompt, never sent before";
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("no log-probs"));
  EXPECT_THAT(table, HasSubstr("no plain completions"));
  EXPECT_THAT(table, HasSubstr("no cold run"));
  EXPECT_THAT(table, HasSubstr("does not say how much"));
  EXPECT_EQ(to_json(report)["runs"]["repeated"]["same"], 1);
  EXPECT_EQ(to_json(report)["runs"]["extended"]["compared"], 0);
}

// Text and nothing else: no usage, no log-probs, no complaint about fields either.
TEST(Endpoint, AServerThatSendsTextAlone) {
  for (const json& logprobs : {json(nullptr), json::object(), json({{"content", nullptr}})}) {
    ScriptedServer server([&](const std::string& path, const json& body) {
      EXPECT_EQ(path, "/v1/completions");
      const bool first = body["prompt"].get<std::string>().size() < 40;
      return reply({{"choices", {{{"text", first ? "a" : "yes"}, {"logprobs", logprobs}}}}});
    });
    const EndpointReport report = evaluated(server.url());
    const auto out = to_json(report);
    EXPECT_EQ(out["runs"]["repeated"]["compared"], 1);
    EXPECT_EQ(out["runs"]["repeated"]["same"], 1);
    EXPECT_EQ(out["runs"]["idle"]["same"], 1);
    EXPECT_EQ(out["runs"]["repeated"]["compared_tokens"], 0);
    EXPECT_TRUE(out["runs"]["repeated"]["cached_tokens"].is_null());
    EXPECT_TRUE(out["runs"]["repeated"]["prompt_tokens"].is_null());
    EXPECT_EQ(out["runs"]["extended"]["compared"], 0) << "nobody knows whether it was cold";
    EXPECT_EQ(report.notes.size(), 3u);
    const std::string table = to_table(report);
    EXPECT_THAT(table, HasSubstr("sends no log-probs"));
    EXPECT_THAT(table, HasSubstr("does not say how much"));
    EXPECT_THAT(table, HasSubstr("- / -"));
    EXPECT_EQ(server.asked().size(), 6u);
  }
}

// Reasoning by its two names.
TEST(EndpointAnswer, ReasoningByEitherName) {
  const auto text = [](const char* body) { return parse_answer(body)->text; };
  EXPECT_EQ(text(R"({"choices": [{"message": {"reasoning": "a", "content": "b"}}]})"), "ab");
  EXPECT_EQ(text(R"({"choices": [{"message": {"reasoning": "a", "reasoning_content": "a",
                     "content": "b"}}]})"),
            "ab");
  EXPECT_EQ(text(R"({"choices": [{"message": {"content": null}}]})"), "");
}

TEST(Endpoint, ACachePastWhichOneCanAsk) {
  ScriptedServer server([count = 0](const std::string&, const json& body) mutable {
    const bool past = body.contains("cache_salt");
    ++count;  // cold, repeated, idle, prefix, extended, its cold run
    return reply(completion(count == 3 ? "no" : "yes", 100, past || count == 1 ? 0 : 90));
  });
  const EndpointReport report = evaluated(server.url());
  const auto out = to_json(report);
  EXPECT_EQ(out["runs"]["extended"]["same"], 1);
  EXPECT_EQ(out["runs"]["extended"]["cached_tokens"], 90);
  EXPECT_EQ(out["runs"]["idle"]["same"], 0);
  EXPECT_EQ(out["runs"]["idle"]["first_other_byte"], 0);
  const auto asked = server.asked();
  ASSERT_EQ(asked.size(), 6u);
  const std::string whole = asked[4]["prompt"];
  const std::string prefix = asked[3]["prompt"];
  EXPECT_TRUE(whole.starts_with(prefix));
  EXPECT_EQ(asked[5]["prompt"], whole);
  EXPECT_EQ(asked[5]["cache_prompt"], false);
}

TEST(Endpoint, ErrorsNameTheServersReason) {
  ScriptedServer server([](const std::string& path, const json&) {
    if (path == "/v1/models") return refusal(401, "who are you");
    return refusal(500, "out of order");
  });
  const auto unnamed =
      Endpoint::open({.url = server.url(), .api_key = "", .model = "", .replay = ""});
  ASSERT_FALSE(unnamed);
  EXPECT_THAT(unnamed.error().message, HasSubstr("who are you"));
  auto named = Endpoint::open({.url = server.url(), .api_key = "", .model = "m", .replay = ""});
  ASSERT_TRUE(named);
  const auto answer = named->complete("x", 1, Endpoint::Cache::kUse);
  ASSERT_FALSE(answer);
  EXPECT_THAT(answer.error().message, HasSubstr("500: out of order"));
}

TEST(Endpoint, TheServersFirstModelIsAsked) {
  ScriptedServer server([](const std::string& path, const json& body) {
    if (path == "/v1/models") return reply({{"data", {{{"id", "first"}}, {{"id", "second"}}}}});
    return body["model"] == "first" ? reply(completion("x", 1, 0)) : refusal(404, "no");
  });
  auto endpoint =
      Endpoint::open({.url = server.url() + "/v1/", .api_key = "", .model = "", .replay = ""});
  ASSERT_TRUE(endpoint) << endpoint.error().describe();
  EXPECT_EQ(endpoint->model(), "first");
  EXPECT_TRUE(endpoint->complete("x", 1, Endpoint::Cache::kUse));
}

}  // namespace
}  // namespace thimble::app
