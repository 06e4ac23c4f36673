// Aim: a conversation that comes back as text is served from the cache up to the last answer's end,
// though the model spelled that answer with other tokens than its text is encoded to. Method: the
// real engine behind the real server; a tokenizer whose tokens are pairs of letters, so that a
// random model's words are text and almost never spelled as the encoder would.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "arch/presets.h"
#include "arch/random_weights.h"
#include "engine/engine.h"
#include "net/internal/loopback_client.h"
#include "server/api_server.h"
#include "text/special_tokens.h"
#include "text/testing.h"
#include "text/token_map.h"

namespace thimble::server {
namespace {

using nlohmann::json;

// All bytes, and 26 * 26 pairs of letters: most of what is sampled is letters.
std::string tokenizer_json() {
  text::SmallTokenizer small;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) small.merges.emplace_back(std::string{a}, std::string{b});
  }
  for (const std::string_view name :
       {text::kBosText, text::kEosText, text::kSystemText, text::kUserText, text::kAssistantText,
        text::kThinkOpenText, text::kThinkCloseText}) {
    small.added.emplace_back(name);
  }
  return small.json().dump();
}

class Conversation : public testing::Test {
 protected:
  void SetUp() override {
    const auto tokenizer = text::Tokenizer::parse(tokenizer_json());
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().describe();
    const auto map = text::build_token_map(*tokenizer);
    const auto config =
        arch::nano_config(tokenizer->size(), static_cast<uint32_t>(map->class_count));
    ASSERT_TRUE(arch::write_random_checkpoint(config, model_.path(), 3, [](uint64_t) {}));
    ASSERT_TRUE(base::write_file_atomic(model_.path() / "tokenizer.json", tokenizer_json()));
    engine::EngineOptions options;
    options.model_dir = model_.path();
    options.context_tokens = 4096;
    auto engine = engine::Engine::open(options);
    ASSERT_TRUE(engine.has_value()) << engine.error().describe();
    engine_ = std::move(*engine);
    generator_ = make_engine_generator(
        *engine_, make_model_info("m", engine_->context_tokens(), *engine_->tokenizer()));
    server_ = std::move(*ApiServer::listen({}));
    server_->start(*generator_, {});
  }
  void TearDown() override {
    if (server_ != nullptr) server_->stop(0);
  }

  bool other_tokens(const std::string& text, const json& count) {
    const bool letters =
        std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    return letters &&
           post("/tokenize", {{"content", text}, {"parse_special", false}})["count"] != count;
  }

  json post(const char* path, const json& body) {
    const net::Answer answer = net::ask(server_->port(), "POST", path, body.dump(), {});
    EXPECT_EQ(answer.status, 200u) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }

  static std::string text_of(const json& response) {
    return response["output"][0]["content"][0]["text"];
  }

  // Short answers of letters: the first seed whose answer is text that is encoded otherwise.
  json answer_with_other_tokens(json request) {
    for (int seed = 0; seed < 200; ++seed) {
      request["seed"] = seed;
      const json answer = post("/v1/chat/completions", request);
      const std::string content = answer["choices"][0]["message"]["content"];
      if (other_tokens(content, answer["usage"]["completion_tokens"])) return answer;
    }
    ADD_FAILURE() << "no seed gives such an answer";
    return {};
  }
  json response_with_other_tokens(json request) {
    for (int seed = 0; seed < 200; ++seed) {
      request["seed"] = seed;
      const json answer = post("/v1/responses", request);
      if (other_tokens(text_of(answer), answer["usage"]["output_tokens"])) return answer;
    }
    ADD_FAILURE() << "no seed gives such an answer";
    return {};
  }

  const base::TempDir model_;
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(Conversation, HitsTheWholeTurnBefore) {
  json messages = {{{"role", "system"}, {"content", "be brief"}},
                   {{"role", "user"}, {"content", "hello there"}}};
  json request = {{"max_tokens", 7}, {"ignore_eos", true}, {"reasoning_effort", "none"}};
  for (int turn = 0; turn < 3; ++turn) {
    request["messages"] = messages;
    // As the answer before, but with other letters: odd lengths too.
    request["max_tokens"] = 7 + turn;
    const json answer = answer_with_other_tokens(request);
    const uint64_t turn_tokens = answer["usage"]["total_tokens"].get<uint64_t>();
    messages.push_back(
        {{"role", "assistant"}, {"content", answer["choices"][0]["message"]["content"]}});
    messages.push_back({{"role", "user"}, {"content", fmt::format("question {}", turn)}});
    request["messages"] = messages;
    const json usage = post("/v1/chat/completions", request)["usage"];
    // The token sampled last was never run.
    EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], turn_tokens - 1) << usage;
    EXPECT_EQ(usage["thimble"]["replayed_tokens"], 0) << "the answer's end has a snapshot";
    EXPECT_EQ(usage["thimble"]["exact"], true);
    // Another tenant shares neither blocks nor ids.
    json other = request;
    other["user"] = fmt::format("somebody {}", turn);
    const json theirs = post("/v1/chat/completions", other)["usage"];
    EXPECT_EQ(theirs["prompt_tokens_details"]["cached_tokens"], 0);
    EXPECT_NE(theirs["prompt_tokens"], usage["prompt_tokens"]) << "spelled as text is encoded";
  }
}

// The same of a conversation of items: a response's output, as it came, and the next question. As a
// chat it is the same prompt.
TEST_F(Conversation, ResponsesHitTheWholeTurnBefore) {
  json input = {{{"role", "user"}, {"content", "hello there"}}};
  json messages = {{{"role", "system"}, {"content", "be brief"}}, input[0]};
  json request = {
      {"instructions", "be brief"}, {"ignore_eos", true}, {"reasoning", {{"effort", "none"}}}};
  for (int turn = 0; turn < 3; ++turn) {
    request["input"] = input;
    request["max_output_tokens"] = 7 + turn;
    const json answer = response_with_other_tokens(request);
    ASSERT_EQ(answer["output"].size(), 1u);
    input.push_back(answer["output"][0]);
    messages.push_back({{"role", "assistant"}, {"content", text_of(answer)}});
    const json question = {{"role", "user"}, {"content", fmt::format("question {}", turn)}};
    input.push_back(question);
    messages.push_back(question);
    request["input"] = input;
    const json usage = post("/v1/responses", request)["usage"];
    // The token sampled last was never run.
    const uint64_t turn_tokens = answer["usage"]["total_tokens"].get<uint64_t>();
    EXPECT_EQ(usage["input_tokens_details"]["cached_tokens"], turn_tokens - 1) << usage;
    EXPECT_EQ(usage["thimble"]["exact"], true);
    const json chat = post("/tokenize", {{"messages", messages}, {"reasoning_effort", "none"}});
    EXPECT_EQ(chat["count"], usage["input_tokens"]);
  }
}

// What is said is what was asked: the prompt's text is the same with and without sampled ids.
TEST_F(Conversation, TheTextOfThePromptIsTheSame) {
  json request = {{"max_tokens", 7},
                  {"ignore_eos", true},
                  {"reasoning_effort", "none"},
                  {"messages", {{{"role", "user"}, {"content", "hello there"}}}}};
  const json answer = answer_with_other_tokens(request);
  request["messages"].push_back(
      {{"role", "assistant"}, {"content", answer["choices"][0]["message"]["content"]}});
  request["messages"].push_back({{"role", "user"}, {"content", "and?"}});
  const json sampled = post("/tokenize", request)["tokens"];
  request["cache_salt"] = "nobody";
  const json encoded = post("/tokenize", request)["tokens"];
  EXPECT_NE(sampled, encoded);
  EXPECT_EQ(post("/detokenize", {{"tokens", sampled}}), post("/detokenize", {{"tokens", encoded}}));
}

}  // namespace
}  // namespace thimble::server
