// Aim: the log-probabilities of a prompt that a client reads are those of a cold run, bit for bit,
// after other requests have filled the cache with the same prompt; usage says that nothing was
// reused. Method: the real engine behind the real server; the cold run by teacher forcing.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "arch/checkpoint.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "engine/sampler.h"
#include "engine/testing.h"
#include "net/internal/loopback_client.h"
#include "server/api_server.h"

namespace thimble::server {
namespace {

using nlohmann::json;

class PromptLogprobs : public testing::Test {
 protected:
  void SetUp() override {
    engine_ = engine::open_engine(engine::options_for(engine::nano_model(), 100));
    generator_ = make_engine_generator(
        *engine_, make_model_info("nano", engine_->context_tokens(), *engine_->tokenizer()));
    server_ = std::move(*ApiServer::listen({}));
    server_->start(*generator_, {});
  }
  void TearDown() override { server_->stop(0); }

  json post(const char* path, const json& body) {
    const net::Answer answer = net::ask(server_->port(), "POST", path, body.dump(), {});
    EXPECT_EQ(answer.status, 200u) << answer.body;
    return json::parse(answer.body, nullptr, false);
  }

  // What `thimble logits` computes, as log-probabilities.
  static void expect_cold(const json& list, const std::vector<int32_t>& prompt, uint32_t top) {
    const auto checkpoint = arch::Checkpoint::open(engine::nano_model());
    const auto tokenizer = engine::open_tokenizer(*checkpoint);
    const auto map = engine::engram_map(*checkpoint, *tokenizer);
    model::ModelOptions options;
    options.token_map = *map;
    const auto model = model::Model::create(*checkpoint, options);
    base::ThreadPool pool(1);
    const auto logits = engine::run_forced(**model, prompt, {}, pool);
    const uint64_t vocab = checkpoint->config().vocab_size;
    ASSERT_EQ(list.size(), prompt.size());
    EXPECT_TRUE(list[0].is_null());
    for (size_t i = 1; i < prompt.size(); ++i) {
      const auto row = std::span(*logits).subspan((i - 1) * vocab, vocab);
      const auto of = *engine::log_probabilities(row, prompt[i], top);
      const json& own = list[i].at(std::to_string(prompt[i]));
      EXPECT_EQ(own["logprob"].get<float>(), of.token) << "token " << i;
      EXPECT_EQ(own["rank"], of.rank);
      EXPECT_EQ(list[i].size(), top + (of.rank > top ? 1u : 0u));
      for (const engine::TokenLogprob& other : of.top) {
        EXPECT_EQ(list[i].at(std::to_string(other.token))["logprob"].get<float>(), other.logprob);
      }
    }
  }

  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(PromptLogprobs, OfACompletionAreTheColdRuns) {
  const std::vector<int32_t> prompt = engine::random_ids(200, 4);
  json request = {{"prompt", prompt}, {"max_tokens", 2}, {"ignore_eos", true}, {"seed", 1}};
  const json plain = post("/v1/completions", request);
  EXPECT_EQ(post("/v1/completions", request)["usage"]["prompt_cache_hit_tokens"], 199);
  request["prompt_logprobs"] = 2;
  const json asked = post("/v1/completions", request);
  expect_cold(asked["choices"][0]["prompt_logprobs"], prompt, 2);
  EXPECT_EQ(asked["choices"][0]["text"], plain["choices"][0]["text"]);
  const json& usage = asked["usage"];
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
  EXPECT_EQ(usage["prompt_cache_miss_tokens"], 200);
  EXPECT_EQ(usage["thimble"]["computed_tokens"], 200);
  EXPECT_EQ(usage["thimble"]["exact"], true);
  request.erase("prompt_logprobs");
  EXPECT_EQ(post("/v1/completions", request)["usage"]["prompt_cache_hit_tokens"], 199);
}

TEST_F(PromptLogprobs, OfAChatAreTheColdRuns) {
  json request = {{"messages", {{{"role", "user"}, {"content", "hello there"}}}},
                  {"max_tokens", 2}};
  const auto prompt = post("/tokenize", request)["tokens"].get<std::vector<int32_t>>();
  post("/v1/chat/completions", request);
  request["prompt_logprobs"] = 0;
  const json asked = post("/v1/chat/completions", request);
  expect_cold(asked["prompt_logprobs"], prompt, 0);
  EXPECT_EQ(asked["usage"]["prompt_cache_hit_tokens"], 0);
}

}  // namespace
}  // namespace thimble::server
