// Aim: without memory a chat is tokenised as the format says; with it, past answers are the ids
// that were sampled and the text is the same; later requests resume where the rendering of their
// conversation says they can. Method: a small tokenizer with merges, both encodings, conversations
// rendered turn after turn.
#include "server/chat_tokens.h"

#include <gtest/gtest.h>

#include "text/testing.h"

namespace thimble::server {
namespace {

using text::ChatEncoding;
using text::ChatMessage;
using text::ChatOptions;
using text::Role;
using Ids = std::vector<int32_t>;

class ChatTokensTest : public testing::Test {
 protected:
  ChatTokensTest() {
    text::SmallTokenizer small;
    small.merges = {{"a", "b"}, {"b", "c"}, {"e", "r"}};
    for (const std::string_view name :
         {text::kBosText, text::kEosText, text::kSystemText, text::kUserText, text::kAssistantText,
          text::kThinkOpenText, text::kThinkCloseText, text::kDsmlText}) {
      small.added.emplace_back(name);
    }
    tokenizer_.emplace(small.make());
    tokens_ = *text::resolve_chat_tokens(*tokenizer_);
  }

  text::ChatPrompt render(const std::vector<ChatMessage>& messages) const {
    return *render_chat(messages, options_, tokens_);
  }
  ChatTokens encode(const text::ChatPrompt& prompt, const std::string& salt = "") {
    return encode_chat(prompt, *tokenizer_, tokens_, salt, &memory_);
  }
  std::vector<uint64_t> points(const std::vector<ChatMessage>& messages) {
    const auto prompt = render(messages);
    return resume_points(prompt, encode(prompt), messages, options_, tokens_);
  }
  // As the server does when an answer ends.
  void answer(const ChatTokens& prompt, const Ids& sampled) {
    Ids ids(prompt.ids.begin() + static_cast<std::ptrdiff_t>(prompt.open->begin), prompt.ids.end());
    ids.insert(ids.end(), sampled.begin(), sampled.end());
    memory_.remember(prompt.open->place, ids);
  }
  void use(ChatEncoding encoding, bool thinking) {
    options_.encoding = encoding;
    options_.effort.thinking = thinking;
  }
  static bool begins_with(const Ids& ids, const Ids& head) {
    return ids.size() >= head.size() && std::equal(head.begin(), head.end(), ids.begin());
  }
  int32_t merged(const std::string& text) const { return *tokenizer_->find(text); }

  const ChatMessage system_ = make_message(Role::kSystem, "be terse");
  const ChatMessage user_ = make_message(Role::kUser, "abc?");
  std::optional<text::Tokenizer> tokenizer_;
  text::SpecialTokens tokens_;
  ChatOptions options_;
  TurnMemory memory_{1 << 20};
};

TEST_F(ChatTokensTest, WithoutMemoryItIsTheFormatsOwn) {
  for (const ChatEncoding encoding : {ChatEncoding::kRecipe, ChatEncoding::kRef}) {
    for (const bool thinking : {false, true}) {
      use(encoding, thinking);
      const auto prompt = render({system_, user_, make_message(Role::kAssistant, "abc", "er"),
                                  make_message(Role::kUser, "<｜User｜>typed</think>"), user_});
      const ChatTokens encoded = encode(prompt);
      EXPECT_EQ(encoded.ids, encode_prompt(prompt, *tokenizer_));
      ASSERT_TRUE(encoded.open.has_value());
      EXPECT_EQ(encoded.open->begin, encoded.ids.size());
      EXPECT_EQ(encoded.segment_begins.size(), prompt.segments.size());
    }
  }
}

// "abc" is a|bc where it was sampled and ab|c where it is tokenised.
TEST_F(ChatTokensTest, ASampledTurnComesBackAsItWas) {
  const Ids content = {'a', merged("bc")};
  ASSERT_NE(tokenizer_->encode("abc", text::AddedTokens::kPlain), content);
  for (const ChatEncoding encoding : {ChatEncoding::kRecipe, ChatEncoding::kRef}) {
    for (const bool thinking : {false, true}) {
      use(encoding, thinking);
      if (thinking) options_.past_reasoning = text::PastReasoning::kKeep;
      std::vector<ChatMessage> messages = {system_, user_};
      const ChatTokens first = encode(render(messages));
      Ids sampled = content;
      if (thinking) sampled.insert(sampled.begin(), {'e', 'r', tokens_.think_close});
      answer(first, sampled);
      messages.push_back(make_message(Role::kAssistant, "abc", thinking ? "er" : ""));
      messages.push_back(user_);
      const auto next = render(messages);
      const ChatTokens second = encode(next);
      Ids history = first.ids;
      history.insert(history.end(), sampled.begin(), sampled.end());
      EXPECT_TRUE(begins_with(second.ids, history));
      EXPECT_EQ(*tokenizer_->decode(second.ids), prompt_text(next)) << "the text is the same";
      EXPECT_EQ(encode(next, "somebody else").ids, encode_prompt(next, *tokenizer_));
    }
  }
}

TEST_F(ChatTokensTest, AThirdTurnBuildsOnTheSecond) {
  use(ChatEncoding::kRecipe, false);
  std::vector<ChatMessage> messages = {user_};
  Ids history;
  for (int turn = 0; turn < 3; ++turn) {
    const ChatTokens prompt = encode(render(messages));
    EXPECT_TRUE(begins_with(prompt.ids, history)) << turn;
    const Ids sampled = {'a', merged("bc"), 'a', 'b'};
    answer(prompt, sampled);
    history = prompt.ids;
    history.insert(history.end(), sampled.begin(), sampled.end());
    messages.push_back(make_message(Role::kAssistant, "abcab"));
    messages.push_back(user_);
  }
}

TEST_F(ChatTokensTest, AnAnswerThatGoesOnKeepsItsBeginning) {
  use(ChatEncoding::kRecipe, false);
  answer(encode(render({user_})), {'a', merged("bc")});
  options_.ending = *text::make_prompt_ending({}, true);
  const auto cut = render({user_, make_message(Role::kAssistant, "abc")});
  const ChatTokens open = encode(cut);
  EXPECT_EQ(open.ids.back(), merged("bc"));
  answer(open, {'a', 'b'});
  options_.ending = {};
  const ChatTokens whole = encode(render({user_, make_message(Role::kAssistant, "abcab"), user_}));
  Ids history = open.ids;
  history.insert(history.end(), {'a', 'b'});
  EXPECT_TRUE(begins_with(whole.ids, history));
}

TEST_F(ChatTokensTest, EditedAnswersAndTypedMarkersAreTokenisedAsText) {
  use(ChatEncoding::kRecipe, true);
  answer(encode(render({user_})), {'e', tokens_.think_close, 'a', merged("bc")});
  for (const auto& edited :
       {make_message(Role::kAssistant, "abcd", "e"), make_message(Role::kAssistant, "abc", "er"),
        make_message(Role::kAssistant, "abc"), make_message(Role::kAssistant, "e</think>abc")}) {
    const auto prompt = render({user_, edited, user_});
    EXPECT_EQ(encode(prompt).ids, encode_prompt(prompt, *tokenizer_));
  }
}

// The points are where the next turn's ids stop being this prompt's, whatever the answer is.
TEST_F(ChatTokensTest, PromptsStayUpToTheirLastPoint) {
  for (const ChatEncoding encoding : {ChatEncoding::kRecipe, ChatEncoding::kRef}) {
    for (const bool thinking : {false, true}) {
      use(encoding, thinking);
      std::vector<ChatMessage> messages = {system_, user_};
      const Ids ids = encode(render(messages)).ids;
      const auto found = points(messages);
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(ids[found[0]], tokens_.user) << "after the system's part";
      const bool drops = encoding == ChatEncoding::kRef && thinking;
      EXPECT_EQ(found[1], ids.size() - (drops ? 1 : 0));
      messages.push_back(make_message(Role::kAssistant, "some answer", "thoughts"));
      messages.push_back(make_message(Role::kUser, "more"));
      const Ids next = encode_prompt(render(messages), *tokenizer_);
      const auto differ = std::mismatch(ids.begin(), ids.end(), next.begin(), next.end()).first;
      EXPECT_EQ(static_cast<uint64_t>(differ - ids.begin()), found[1]);
    }
  }
}

TEST_F(ChatTokensTest, WithoutASystemTurnThereIsOnePoint) {
  use(ChatEncoding::kRecipe, false);
  EXPECT_EQ(points({user_}), std::vector<uint64_t>{encode(render({user_})).ids.size()});
}

// What is written into an open turn may join the tokens before it.
TEST_F(ChatTokensTest, AContinuedTurnStaysUpToItsHeader) {
  use(ChatEncoding::kRecipe, false);
  options_.ending = *text::make_prompt_ending({}, true);
  const std::vector<ChatMessage> messages = {user_, make_message(Role::kAssistant, "a")};
  EXPECT_EQ(points(messages), std::vector<uint64_t>{encode(render(messages)).ids.size() - 1});
}

// Two calls of one turn, answered in reverse order: the next prompt goes on where the answer ended,
// though the model merged no letters and has its own way with JSON (F21).
TEST_F(ChatTokensTest, CallsComeBackAsTheyWereSampled) {
  for (const bool prints_anew : {false, true}) {
    use(ChatEncoding::kRecipe, true);
    const std::string json = prints_anew ? R"({"b": [1.0, null, "é"]})" : R"({"b":[1.0,null,"é"]})";
    const ChatTokens prompt = encode(render({system_, user_}));
    const std::string markup =
        "ab</think>\n\n<M calls>\n<M invoke name=\"abc\">\n<M parameter name=\"ab\" "
        "string=\"true\">abc</M parameter>\n<M parameter name=\"o\" string=\"false\">" +
        json + "</M parameter>\n</M invoke>\n<M invoke name=\"g\">\n\n</M invoke>\n</M calls>";
    Ids sampled;  // a byte a token
    for (size_t i = 0; i < markup.size(); ++i) {
      if (markup[i] == 'M') {
        sampled.push_back(*tokens_.dsml);
      } else if (markup.compare(i, 8, "</think>") == 0) {
        sampled.push_back(tokens_.think_close);
        i += 7;
      } else {
        sampled.push_back(static_cast<unsigned char>(markup[i]));
      }
    }
    sampled.push_back(tokens_.eos);
    answer(prompt, sampled);
    ChatMessage calls = make_message(Role::kAssistant, "", "ab");
    // What a client sends that parsed the arguments and printed them again, or did not.
    calls.calls = {
        {"1", "abc", R"({"ab": "abc","o":)" + std::string(R"({"b":[1.0,null,"é"]})") + "}"},
        {"2", "g", "{}"}};
    ChatMessage first = make_message(Role::kTool, "one");
    first.call_id = "1";
    ChatMessage second = make_message(Role::kTool, "two");
    second.call_id = "2";
    const ChatTokens next = encode(render({system_, user_, calls, second, first}));
    Ids expected = prompt.ids;
    expected.insert(expected.end(), sampled.begin(), sampled.end());
    EXPECT_TRUE(begins_with(next.ids, expected)) << (prints_anew ? "printed anew" : "as sent");
  }
}

}  // namespace
}  // namespace thimble::server
