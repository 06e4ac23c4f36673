// Aim: long functions and files are listed with their exact length and only shrink; there are four
// THIMBLE_* macros at most. Method: bad samples that must be found, then the tree.

#include "tests/style/ratchets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A file with one function of that many lines.
SourceFile with_function(const std::string& path, size_t lines) {
  std::string text = "void f() {\n";
  for (size_t i = 2; i < lines; ++i) text += "  g();\n";
  return make_source_file(path, text + "}\n");
}

std::vector<std::string> messages(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings) out.push_back(finding.message);
  return out;
}

TEST(Ratchets, FunctionMayHaveSeventyLines) {
  EXPECT_THAT(check_lengths({with_function("src/a/x.cc", 70)}, {}), IsEmpty());
  EXPECT_THAT(messages(check_lengths({with_function("src/a/x.cc", 71)}, {})),
              ElementsAre(HasSubstr("src/a/x.cc:f has 71 lines")));
}

TEST(Ratchets, ListedFunctionOnlyShrinks) {
  const std::vector<std::string> recorded = {"# comment", "function src/a/x.cc:f 90"};
  EXPECT_THAT(check_lengths({with_function("src/a/x.cc", 90)}, recorded), IsEmpty());
  EXPECT_THAT(messages(check_lengths({with_function("src/a/x.cc", 91)}, recorded)),
              ElementsAre(HasSubstr("grew from 90 to 91")));
  EXPECT_THAT(messages(check_lengths({with_function("src/a/x.cc", 80)}, recorded)),
              ElementsAre(HasSubstr("from 90 to 80")));
  EXPECT_THAT(messages(check_lengths({with_function("src/a/x.cc", 60)}, recorded)),
              ElementsAre(HasSubstr("remove its line")));
}

TEST(Ratchets, FilesHaveALimitToo) {
  const std::string text(601, '\n');
  EXPECT_THAT(messages(check_lengths({make_source_file("web/app.js", text)}, {})),
              ElementsAre(HasSubstr("file web/app.js has 601 lines")));
  EXPECT_THAT(check_lengths({make_source_file("src/a/x.cc", text.substr(1))}, {}), IsEmpty());
}

TEST(Ratchets, KernelsAreExempt) {
  EXPECT_THAT(check_lengths({with_function("src/kernels/isa/avx2.cc", 700)}, {}), IsEmpty());
  EXPECT_THAT(check_lengths({with_function("src/kernels/pack.cc", 700)}, {}).size(), 2U);
}

TEST(Ratchets, FiveMacrosAreTooMany) {
  std::string text;
  for (const char* name : {"A", "B", "C", "D"}) {
    text += std::string("#define THIMBLE_") + name + "(x) x\n";
  }
  EXPECT_THAT(check_macros({make_source_file("src/a/x.h", text)}), IsEmpty());
  EXPECT_THAT(places(check_macros({make_source_file("src/a/x.h", text + "#define THIMBLE_E\n")})),
              ElementsAre("src/a/x.h:5"));
  EXPECT_THAT(places(check_macros({make_source_file("src/a/x.h", "#define MAX(a) a\n")})),
              ElementsAre("src/a/x.h:1"));
}

TEST(Ratchets, TreeIsWithinThem) {
  expect_none(check_lengths(tree(), read_lines("dev/ratchets.txt")));
  expect_none(check_macros(tree()));
}

}  // namespace
}  // namespace thimble::style
