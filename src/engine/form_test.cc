// Aim: an answer that must have a form has it when it ends by itself and is the beginning of one
// when it is cut, demanded calls too; the same tokens whatever runs beside it and however often it
// is paused; reasoning is left alone.
// Method: the fake model, whose logits are noise, so that nothing but the form makes JSON; solo
// runs against runs at once with pauses; once more with the nano model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/internal/scheduler_testing.h"
#include "engine/testing.h"
#include "engine/text_stream.h"
#include "text/call_grammar.h"
#include "text/json_schema.h"
#include "text/schema_testing.h"

namespace thimble::engine {
namespace {

using testing::HasSubstr;

constexpr const char* kRecord = R"({"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 0,
    "maximum": 150}, "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "maxItems": 3},
    "next": {"anyOf": [{"type": "null"}, {"$ref": "#"}]}},
    "required": ["name", "age"], "additionalProperties": false})";

class FormTest : public testing::Test {
 protected:
  text::Tokenizer tokenizer_ = *text::Tokenizer::parse(text::make_byte_tokenizer_json());
  std::shared_ptr<const text::TokenTrie> trie_ = std::make_shared<text::TokenTrie>(tokenizer_);
  int32_t eos_ = *tokenizer_.find_added(text::kEosText);
  int32_t think_close_ = *tokenizer_.find_added(text::kThinkCloseText);
  FakeRunner runner_{tokenizer_.size()};

  AnswerForm held_to(text::Grammar grammar) {
    return {std::make_shared<text::TokenMasker>(std::make_shared<text::Grammar>(std::move(grammar)),
                                                trie_),
            {},
            {}};
  }

  AnswerForm form_of(const std::string& schema) {
    auto grammar = text::compile_json_schema(schema);
    EXPECT_TRUE(grammar.has_value()) << grammar.error().describe();
    return held_to(std::move(*grammar));
  }

  GenerationRequest formed(const AnswerForm& form, uint64_t seed, uint32_t max_tokens = 400) {
    GenerationRequest request;
    request.prompt = {5, 6, static_cast<int32_t>(7 + seed % 200)};
    request.max_tokens = max_tokens;
    request.sampling.seed = seed;
    request.stop_tokens = {eos_};
    request.form = form;
    return request;
  }

  std::shared_ptr<TokenSink> submit(Scheduler& scheduler, const GenerationRequest& request) {
    auto sink = std::make_shared<TokenSink>();
    const auto id = scheduler.submit(request, sink);
    EXPECT_TRUE(id.has_value()) << id.error().message;
    return sink;
  }

  std::string text_of(const std::vector<int32_t>& ids) {
    std::string text;
    for (const int32_t id : ids) {
      if (id != eos_) text += tokenizer_.token_bytes(id);
    }
    return text;
  }

  // Whole ones. An answer that ends by itself is a block to its end, and nothing else.
  std::vector<text::ToolCall> calls_of(const std::vector<int32_t>& ids,
                                       const text::ForcedCall& forced, FinishReason reason) {
    TextStreamOptions options;
    options.think_close = think_close_;
    options.dsml = tokenizer_.find_added(text::kDsmlText);
    options.forced = "\n\n<\xFF calls>\n";
    if (!forced.name.empty()) options.forced += "<\xFF invoke name=\"" + forced.name + "\">\n";
    TextStream stream(tokenizer_, options);
    std::vector<text::ToolCall> calls;
    const auto take = [&](const TextDelta& delta) {
      EXPECT_EQ(delta.content + delta.reasoning, "");
      for (const text::CallDelta& call : delta.calls) {
        if (call.name) calls.push_back({"", *call.name, ""});
        calls.back().arguments += call.arguments;
      }
    };
    for (const int32_t id : ids) take(stream.push(id));
    take(stream.finish());
    EXPECT_FALSE(stream.stopped()) << "something was no call";
    if (reason == FinishReason::kLength && !calls.empty()) calls.pop_back();
    EXPECT_EQ(stream.calls_closed(), reason == FinishReason::kStop);
    return calls;
  }

  void expect_fits(const std::string& schema, const std::string& text) {
    const auto value = text::TestJson::parse(text, nullptr, false);
    ASSERT_FALSE(value.is_discarded()) << text;
    const auto rules = text::TestJson::parse(schema);
    EXPECT_TRUE(text::SchemaValidator(rules).fits(value)) << text;
  }
};

TEST_F(FormTest, NoiseBecomesJsonOfTheSchema) {
  Scheduler scheduler(runner_, {.context_tokens = 1000});
  for (const std::string schema : {kRecord, R"({"type": "number", "minimum": -3, "maximum": 12})",
                                   R"({"enum": ["a", "ab", 1, 12]})", R"({"type": "boolean"})"}) {
    const AnswerForm form = form_of(schema);
    int whole = 0;
    for (uint64_t seed = 0; seed < 40; ++seed) {
      GenerationRequest request = formed(form, seed);
      if (seed % 4 == 0) request.sampling.top_k = 3;
      if (seed % 4 == 1) request.sampling.temperature = 0;
      const auto sink = submit(scheduler, request);
      const GenerationEnd end = sink->wait();
      const std::string text = text_of(sink->ids());
      if (end.reason == FinishReason::kStop) {
        ++whole;
        expect_fits(schema, text);
      } else {
        ASSERT_EQ(end.reason, FinishReason::kLength) << end.error.value_or(Error{}).message;
        text::GrammarState state = form.masker->grammar().begin();
        EXPECT_TRUE(form.masker->grammar().read(state, text)) << text;
      }
    }
    EXPECT_GT(whole, 25) << schema;
  }
}

TEST_F(FormTest, OneThatNothingMayFollowEndsByItself) {
  Scheduler scheduler(runner_, {.context_tokens = 1000});
  GenerationRequest request = formed(form_of(R"({"const": {"a": 1}})"), 1);
  for (const bool stops : {true, false}) {
    if (!stops) request.stop_tokens.clear();
    const auto sink = submit(scheduler, request);
    const GenerationEnd end = sink->wait();
    EXPECT_EQ(end.reason, FinishReason::kStop);
    EXPECT_EQ(end.completion_tokens, 7u);
    EXPECT_EQ(text_of(sink->ids()), R"({"a":1})");
  }
  request.max_tokens = 3;
  EXPECT_EQ(submit(scheduler, request)->wait().reason, FinishReason::kLength);
}

constexpr const char* kTool = R"({"name": "book", "parameters": {"type": "object", "properties": {
    "port": {"type": "string", "maxLength": 6}, "nights": {"type": "integer", "minimum": 1,
    "maximum": 30}, "room": {"enum": ["single", "double", null]}, "extras": {"type": "array",
    "items": {"type": "boolean"}, "maxItems": 2}}, "required": ["port", "nights", "room"]}})";

TEST_F(FormTest, NoiseBecomesCallsThatWereDemanded) {
  Scheduler scheduler(runner_, {.context_tokens = 3000});
  const std::vector<text::Tool> tools = {*text::make_tool(kTool),
                                         *text::make_tool(R"({"name": "leave"})")};
  const auto rules = text::TestJson::parse(kTool)["parameters"];
  const text::SchemaValidator validator(rules);
  std::map<std::string, int> seen;  // whole calls by name
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const text::ForcedCall forced{seed % 2 == 0 ? "" : "book"};
    const auto count = seed % 3 == 0 ? text::CallCount::kOne : text::CallCount::kOneOrMore;
    auto grammar = text::compile_calls(tools, forced, count);
    ASSERT_TRUE(grammar.has_value()) << grammar.error().describe();
    const auto sink = submit(scheduler, formed(held_to(std::move(*grammar)), seed, 1500));
    const GenerationEnd end = sink->wait();
    ASSERT_NE(end.reason, FinishReason::kError) << end.error->describe();
    const std::vector<text::ToolCall> calls = calls_of(sink->ids(), forced, end.reason);
    const bool one = count == text::CallCount::kOne;
    EXPECT_TRUE(one ? calls.size() <= 1 : end.reason == FinishReason::kLength || !calls.empty());
    for (const text::ToolCall& call : calls) {
      ++seen[call.name];
      EXPECT_TRUE(forced.name.empty() || call.name == forced.name);
      const auto value = text::TestJson::parse(call.arguments, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << call.arguments;
      EXPECT_TRUE(call.name == "leave" ? value.empty() : validator.fits(value)) << call.arguments;
    }
  }
  EXPECT_GT(seen["book"], 20);
  EXPECT_GT(seen["leave"], 4);
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(FormTest, ReasoningIsLeftAlone) {
  Scheduler scheduler(runner_, {.context_tokens = 3000});
  AnswerForm form = form_of(kRecord);
  form.begins_after = think_close_;
  form.barred_before = {65};
  int closed = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const auto sink = submit(scheduler, formed(form, seed, 1500));
    const GenerationEnd end = sink->wait();
    const std::vector<int32_t> ids = sink->ids();
    const auto close = std::find(ids.begin(), ids.end(), think_close_);
    const std::vector<int32_t> reasoning(ids.begin(), close);
    EXPECT_EQ(std::count(reasoning.begin(), reasoning.end(), eos_), 0);
    EXPECT_EQ(std::count(reasoning.begin(), reasoning.end(), 65), 0);
    if (close == ids.end()) {
      EXPECT_EQ(end.reason, FinishReason::kLength);
      continue;
    }
    ++closed;
    if (end.reason == FinishReason::kStop) expect_fits(kRecord, text_of({close + 1, ids.end()}));
  }
  EXPECT_GT(closed, 6);
}

// Some steps find no room, so that sequences are paused within their answers.
TEST_F(FormTest, NeighboursAndPausesChangeNoToken) {
  const AnswerForm shared = form_of(kRecord);
  std::vector<GenerationRequest> requests;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    requests.push_back(formed(seed % 3 == 0 ? form_of(R"({"type": "array"})") : shared, seed));
  }
  std::vector<std::vector<int32_t>> solo;
  {
    Scheduler scheduler(runner_, {.context_tokens = 1000, .sequences_max = 1});
    for (const GenerationRequest& request : requests) {
      const auto sink = submit(scheduler, request);
      sink->wait();
      solo.push_back(sink->ids());
    }
  }
  base::SplitMix64 random(3);
  FakeRunner shaky{tokenizer_.size()};
  shaky.on_reserve = [&](const Step&) -> Result<void> {
    if (random.below(7) > 0) return {};
    return base::fail(ErrorCode::kUnavailable, "no room this time");
  };
  Scheduler scheduler(shaky,
                      {.queue_requests_max = 100, .context_tokens = 1000, .sequences_max = 6});
  std::vector<std::shared_ptr<TokenSink>> sinks;
  for (const GenerationRequest& request : requests) sinks.push_back(submit(scheduler, request));
  size_t compared = 0;
  for (size_t i = 0; i < sinks.size(); ++i) {
    const GenerationEnd end = sinks[i]->wait();
    if (end.reason == FinishReason::kError) continue;  // found no room when it was the only one
    ++compared;
    EXPECT_EQ(sinks[i]->ids(), solo[i]) << "request " << i;
  }
  EXPECT_GT(compared, 8u);
  EXPECT_GT(scheduler.counters().pauses, 20u);
}

TEST_F(FormTest, TheRealModelDoesTheSameBesideOthers) {
  std::vector<GenerationRequest> requests;
  const AnswerForm form = form_of(kRecord);
  for (uint64_t seed = 0; seed < 4; ++seed) requests.push_back(formed(form, seed, 60));
  std::vector<std::vector<int32_t>> solo;
  for (const uint32_t at_once : {1U, 4U}) {
    EngineOptions options = options_for(nano_model());
    options.sequences_max = at_once;
    const auto engine = open_engine(options);
    ASSERT_NE(engine, nullptr);
    std::vector<std::shared_ptr<Collector>> sinks;
    for (const GenerationRequest& request : requests) {
      sinks.push_back(std::make_shared<Collector>());
      ASSERT_TRUE(engine->submit(request, sinks.back()).has_value());
    }
    for (size_t i = 0; i < sinks.size(); ++i) {
      const GenerationEnd end = sinks[i]->wait();
      ASSERT_NE(end.reason, FinishReason::kError) << end.error->describe();
      if (at_once == 1) solo.push_back(sinks[i]->ids());
      EXPECT_EQ(sinks[i]->ids(), solo[i]) << "request " << i;
      text::GrammarState state = form.masker->grammar().begin();
      EXPECT_TRUE(form.masker->grammar().read(state, text_of(sinks[i]->ids())));
    }
  }
}

TEST_F(FormTest, AFormWithoutAMaskerOrOfOtherTokensIsRefused) {
  Scheduler scheduler(runner_, {.context_tokens = 1000});
  const auto refusal = [&](AnswerForm form) {
    const auto id = scheduler.submit(formed(form, 1), std::make_shared<TokenSink>());
    return id ? "accepted" : id.error().message;
  };
  EXPECT_THAT(refusal({}), HasSubstr("form has no masker"));
  AnswerForm form = form_of("true");
  form.begins_after = 100'000;
  EXPECT_THAT(refusal(form), HasSubstr("form.begins_after[0] is token 100000"));
  form.begins_after.reset();
  form.barred_before = {-1};
  EXPECT_THAT(refusal(form), HasSubstr("form.barred_before[0] is token -1"));
}

// Before everything else: filters see only what is allowed.
TEST_F(FormTest, TheSamplerTakesWhatIsAllowed) {
  const std::vector<float> logits = {5, 4, 3, 2, 1};
  const std::vector<uint64_t> allowed = {0b11010};
  EXPECT_EQ(*Sampler({.temperature = 0}, {}).sample(logits, 0, allowed), 1);
  EXPECT_EQ(*Sampler({.top_k = 1}, {}).sample(logits, 0, allowed), 1);
  const std::vector<int32_t> masked = {1};
  EXPECT_EQ(*Sampler({.temperature = 0}, masked).sample(logits, 0, allowed), 3);
  std::set<int32_t> seen;
  for (uint64_t position = 0; position < 200; ++position) {
    seen.insert(*Sampler({.top_k = 2}, {}).sample(logits, position, allowed));
  }
  EXPECT_EQ(seen, (std::set<int32_t>{1, 3}));
  const std::vector<uint64_t> none = {0};
  EXPECT_EQ(Sampler({}, {}).sample(logits, 0, none).error().message, "all 5 tokens are masked");
}

}  // namespace
}  // namespace thimble::engine
