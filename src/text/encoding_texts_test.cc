// Aim: a model's texts are taken byte for byte, and the released model's only if they are the
// published ones. Method: folders with some of the files.
#include "text/encoding_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thimble::text {
namespace {

using testing::HasSubstr;

class Folder : public testing::Test {
 protected:
  void write(const char* name, std::string_view text) {
    std::filesystem::create_directories(model_.path() / "encoding");
    ASSERT_TRUE(base::write_file_atomic(model_.path() / "encoding" / name, text).has_value());
  }
  std::string error(TextsOf of) const {
    const auto texts = open_encoding_texts(model_.path(), of);
    return texts ? "none" : texts.error().describe();
  }
  base::TempDir model_;
};

TEST_F(Folder, NothingThereIsNoError) {
  const auto texts = open_encoding_texts(model_.path(), TextsOf::kReleasedModel);
  ASSERT_TRUE(texts.has_value());
  EXPECT_EQ(texts->tools_head + texts->tools_tail + texts->response_format, "");
}

TEST_F(Folder, ComesBackAsItWasWritten) {
  const EncodingTexts own = own_encoding_texts();
  ASSERT_TRUE(write_encoding_texts(model_.path(), own).has_value());
  const auto texts = open_encoding_texts(model_.path(), TextsOf::kOtherModel);
  ASSERT_TRUE(texts.has_value());
  EXPECT_EQ(texts->tools_head, own.tools_head);
  EXPECT_EQ(texts->tools_tail, own.tools_tail);
  EXPECT_EQ(texts->response_format, own.response_format);
  EXPECT_TRUE(own.tools_head.ends_with("\n\n"));
  EXPECT_TRUE(own.tools_tail.starts_with("\n\n") && own.tools_tail.ends_with("\n"));
}

TEST_F(Folder, AnotherDigestThanPublishedIsAnErrorWithBoth) {
  write("tools_head.txt", "abc");
  write("tools_tail.txt", "def");
  EXPECT_EQ(error(TextsOf::kOtherModel), "none");
  const std::string released = error(TextsOf::kReleasedModel);
  EXPECT_THAT(released, HasSubstr("tools_head.txt is not the released model's"));
  EXPECT_THAT(released,
              HasSubstr("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  EXPECT_THAT(released,
              HasSubstr("2ae2ff83edf990187ed419c4e2901bb9ea6ce2129eb503ac543b258e7de8231d"));
}

TEST_F(Folder, HalfAPairAndWhatIsNoTextAreErrors) {
  write("tools_tail.txt", "def");
  EXPECT_THAT(error(TextsOf::kOtherModel), HasSubstr("tools_tail.txt without tools_head.txt"));
  write("tools_head.txt", "\xFF");
  EXPECT_THAT(error(TextsOf::kOtherModel), HasSubstr("expected a text in UTF-8"));
  write("tools_head.txt", "");
  EXPECT_THAT(error(TextsOf::kOtherModel), HasSubstr("has 0 bytes"));
}

}  // namespace
}  // namespace thimble::text
