// Aim: what a file says is what is learned, read once and kept on disk; mistakes name file and
// line. Method: small files with the byte tokenizer, documents compared with ids made here.
#include "train/sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/byte_tokenizer.h"

namespace thimble::train {
namespace {

using ::testing::HasSubstr;

class Sources : public ::testing::Test {
 protected:
  Source file(const char* name, std::string_view content, SourceKind kind) {
    Source out;
    out.path = folder_.path() / name;
    out.kind = kind;
    EXPECT_TRUE(base::write_file_atomic(out.path, content));
    return out;
  }
  Result<Corpus> read(const std::vector<Source>& sources) {
    return read_sources(sources, tools_, folder_.path());
  }
  // What a document's labels say, and whether they are its ids moved by one.
  std::string learned(Corpus::Document document) const {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < document.size(); ++i) {
      if (document[i].label < 0) continue;
      ids.push_back(document[i].label);
      EXPECT_EQ(document[i].label, document[i + 1].id);
    }
    return *tokenizer_.decode(ids);
  }

  base::TempDir folder_;
  text::Tokenizer tokenizer_ = *text::Tokenizer::parse(text::make_byte_tokenizer_json());
  SourceTools tools_{.tokenizer = &tokenizer_,
                     .vocab_size = static_cast<uint32_t>(tokenizer_.size())};
};

TEST_F(Sources, CutsTextsWhereTheyAreTold) {
  Source text = file("text", "one\ntwo\n\nthree\n", SourceKind::kText);
  const auto documents = [&](TextSplit split) {
    text.split = split;
    const Corpus corpus = *read({text});
    std::vector<std::string> out;
    for (size_t d = 0; d < corpus.size(); ++d) {
      EXPECT_EQ(corpus[d].front().id, *tokenizer_.find_added(text::kBosText));
      const std::string learned_text = learned(corpus[d]);
      EXPECT_TRUE(learned_text.ends_with(text::kEosText));
      out.push_back(learned_text.substr(0, learned_text.size() - text::kEosText.size()));
    }
    return out;
  };
  using List = std::vector<std::string>;
  EXPECT_EQ(documents(TextSplit::kFile), List({"one\ntwo\n\nthree\n"}));
  EXPECT_EQ(documents(TextSplit::kParagraph), List({"one\ntwo", "three\n"}));
  EXPECT_EQ(documents(TextSplit::kLine), List({"one", "two", "three"}));
}

constexpr const char* kTurns = R"({"messages": [{"role": "user", "content": "How?"}, )"
                               R"({"role": "assistant", "content": "So."}]})";

TEST_F(Sources, LearnsWhatTheAssistantSays) {
  const std::string lines = fmt::format("{0}\n\n{0}", kTurns);  // no newline at the end
  const Corpus corpus = *read({file("chat.jsonl", lines, SourceKind::kChat)});
  ASSERT_EQ(corpus.size(), 2);
  EXPECT_THAT(learned(corpus[0]), HasSubstr("So."));
  EXPECT_THAT(learned(corpus[0]), Not(HasSubstr("How?")));
  EXPECT_EQ(learned(corpus[0]), learned(corpus[1]));
}

TEST_F(Sources, RepeatsASourceWithoutReadingItAgain) {
  Source twice = file("twice.jsonl", R"({"text": "aa"})", SourceKind::kJsonl);
  const Source once = file("once.jsonl", R"({"text": "b"})", SourceKind::kJsonl);
  uint64_t bytes = 0;
  tools_.on_bytes = [&](uint64_t n) { bytes += n; };
  const uint64_t before = read({twice, once})->fingerprint();
  const uint64_t read_once = std::exchange(bytes, 0);
  twice.repeat = 2;
  const Corpus corpus = *read({twice, once});
  EXPECT_EQ(bytes, read_once);
  ASSERT_EQ(corpus.size(), 3);
  EXPECT_EQ(corpus[0].data(), corpus[1].data());
  EXPECT_EQ(corpus.lengths(), std::vector<uint32_t>({4, 4, 3}));
  EXPECT_NE(corpus.fingerprint(), before);
  twice.repeat = 0;
  EXPECT_EQ(read({twice, once})->size(), 1);
}

// Ids, labels and borders each change it; where a file lies does not.
TEST_F(Sources, HasAFingerprint) {
  const auto of = [&](const char* name, std::string_view content, SourceKind kind) {
    return read({file(name, content, kind)})->fingerprint();
  };
  const uint64_t one = of("a", "one\ntwo\n", SourceKind::kText);
  EXPECT_EQ(of("b", "one\ntwo\n", SourceKind::kText), one);
  EXPECT_NE(of("a", "one\ntwO\n", SourceKind::kText), one);
  Source lines = file("a", "one\ntwo\n", SourceKind::kText);
  lines.split = TextSplit::kLine;
  EXPECT_NE(read({lines})->fingerprint(), one);
}

TEST_F(Sources, SaysWhereAFileIsWrong) {
  const auto said = [&](std::string_view content, SourceKind kind) {
    const auto corpus = read({file("data", content, kind)});
    EXPECT_FALSE(corpus.has_value()) << content;
    return corpus ? "" : corpus.error().describe();
  };
  EXPECT_THAT(said("{\"text\": \"a\"}\n\n{\"text\"", SourceKind::kJsonl), HasSubstr("data line 3"));
  EXPECT_THAT(said("{\"text\": 5}", SourceKind::kJsonl), HasSubstr("data line 1"));
  EXPECT_THAT(said("[]", SourceKind::kJsonl), HasSubstr("data line 1"));
  EXPECT_THAT(said("{\"messages\": [{\"role\": \"who\", \"content\": \"\"}]}", SourceKind::kChat),
              HasSubstr("data line 1"));
  EXPECT_THAT(said("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}", SourceKind::kChat),
              HasSubstr("no turn is the assistant's"));
  EXPECT_THAT(said("", SourceKind::kText), HasSubstr("nothing to learn"));
  Source none;
  none.path = folder_.path() / "none";
  EXPECT_EQ(read({none}).error().code, ErrorCode::kNotFound);
}

TEST_F(Sources, StopsWhenTold) {
  int asked = 0;
  tools_.stop = [&] { return ++asked == 2; };
  const Source lines =
      file("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n", SourceKind::kJsonl);
  EXPECT_EQ(read({lines}).error().code, ErrorCode::kCancelled);
}

}  // namespace
}  // namespace thimble::train
