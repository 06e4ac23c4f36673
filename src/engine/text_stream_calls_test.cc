// Aim: calls leave the text they stand in wherever the tokens' borders are: within reasoning, after
// prose that stop strings watch, after a demanded beginning; think markers within values are text.
// Method: the byte tokenizer, markers as tokens; a byte at a time and the longest pieces give the
// same by text/call_parser_test.cc, so here each token is a byte.
#include "engine/text_stream.h"

#include <gtest/gtest.h>

#include "text/byte_tokenizer.h"
#include "text/special_tokens.h"

namespace thimble::engine {
namespace {

struct Outcome {
  std::string reasoning;
  std::string content;
  std::string calls;  // "name(arguments)" each
  bool stopped = false;
};

class TextStreamCalls : public testing::Test {
 protected:
  TextStreamCalls()
      : tokenizer_(*text::Tokenizer::parse(text::make_byte_tokenizer_json())),
        tokens_(*text::resolve_chat_tokens(tokenizer_)) {
    options_.think_close = tokens_.think_close;
    options_.dsml = tokens_.dsml;
  }

  // `text` has markers as they are spelled.
  Outcome read(const std::string& text) {
    TextStream stream(tokenizer_, options_);
    Outcome out;
    const auto take = [&out](const TextDelta& delta) {
      out.reasoning += delta.reasoning;
      out.content += delta.content;
      for (const text::CallDelta& call : delta.calls) {
        if (call.name) out.calls += (out.calls.empty() ? "" : ") ") + *call.name + "(";
        out.calls += call.arguments;
      }
    };
    for (const int32_t id : tokenizer_.encode(text, text::AddedTokens::kMatch)) {
      take(stream.push(id));
    }
    take(stream.finish());
    out.stopped = stream.stopped();
    called_ = stream.called();
    reasoning_tokens_ = stream.reasoning_tokens();
    return out;
  }

  text::Tokenizer tokenizer_;
  text::SpecialTokens tokens_;
  TextStreamOptions options_;
  bool called_ = false;
  uint64_t reasoning_tokens_ = 0;
};

constexpr const char* kCall =
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"
    "<｜DSML｜ parameter name=\"k\" string=\"true\">v é</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

TEST_F(TextStreamCalls, AfterProse) {
  const Outcome out = read(std::string("Look < here.\n\n") + kCall);
  EXPECT_EQ(out.content, "Look < here.");
  EXPECT_EQ(out.calls, "f({\"k\": \"v é\"}");
  EXPECT_TRUE(called_);
  EXPECT_FALSE(out.stopped);
  EXPECT_TRUE(read(std::string(kCall) + "x").stopped);
}

TEST_F(TextStreamCalls, WithinReasoningEndIt) {
  options_.starts_in_reasoning = true;
  const Outcome out = read(std::string("Hm.\n\n") + kCall);
  EXPECT_EQ(out.reasoning, "Hm.");
  EXPECT_EQ(out.content, "");
  EXPECT_EQ(out.calls, "f({\"k\": \"v é\"}");
  EXPECT_EQ(reasoning_tokens_, 14u) << "with the tag that opens the block";
}

TEST_F(TextStreamCalls, HeldBackTextComesWhenItIsNone) {
  options_.starts_in_reasoning = true;
  const Outcome out = read("a\n<</think>\nb\n<\n\n");
  EXPECT_EQ(out.reasoning, "a\n<");
  EXPECT_EQ(out.content, "b\n<\n\n");
  EXPECT_FALSE(called_);
}

TEST_F(TextStreamCalls, ThinkMarkersInValuesAreText) {
  const Outcome out = read(
      "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n"
      "<｜DSML｜ parameter name=\"k\" string=\"true\"><think>x</think></｜DSML｜ parameter>\n"
      "</｜DSML｜ invoke>\n</｜DSML｜ calls>");
  EXPECT_EQ(out.calls, "f({\"k\": \"<think>x</think>\"}");
}

TEST_F(TextStreamCalls, StopStringsMatchProseAlone) {
  options_.stop = {"v", "\n\n<"};
  EXPECT_EQ(read(kCall).calls, "f({\"k\": \"v é\"}");
  const Outcome out = read(std::string("I have ") + kCall);
  EXPECT_EQ(out.content, "I ha");
  EXPECT_EQ(out.calls, "");
  EXPECT_TRUE(out.stopped);
}

TEST_F(TextStreamCalls, NobodyHearsOfCallsThatWereNotOnOffer) {
  options_.calls = Calls::kDrop;
  const Outcome out = read(std::string("Look.\n\n") + kCall);
  EXPECT_EQ(out.content, "Look.");
  EXPECT_EQ(out.calls, "");
  EXPECT_FALSE(called_);
}

TEST_F(TextStreamCalls, ADemandedBeginningIsReadFirst) {
  options_.forced = "\n\n<\xFF calls>\n<\xFF invoke name=\"f\">\n";
  EXPECT_EQ(read("\n</｜DSML｜ invoke>\n</｜DSML｜ calls>").calls, "f({}");
  EXPECT_TRUE(called_);
  EXPECT_EQ(read("").calls, "f(");
  EXPECT_FALSE(called_);
}

}  // namespace
}  // namespace thimble::engine
