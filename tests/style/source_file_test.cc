// Aim: the checks read the right files, and do not mistake comments and literals for code.
// Method: small texts, and the tree itself.

#include "tests/style/source_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

TEST(SourceFile, BlanksCommentsAndLiterals) {
  EXPECT_EQ(blank_comments_and_literals("a; // b\nc;"), "a;     \nc;");
  EXPECT_EQ(blank_comments_and_literals("a /* b\n c */ d"), "a     \n      d");
  EXPECT_EQ(blank_comments_and_literals(R"(f("new \" {", '{', '\'');)"),
            R"(f("        ", ' ', '  ');)");
  EXPECT_EQ(blank_comments_and_literals("x = R\"a({\")a\" + 1;"), "x = R\"      \" + 1;");
}

TEST(SourceFile, DigitSeparatorsAreNoCharacters) {
  EXPECT_EQ(blank_comments_and_literals("a = 1'000; b = 'x';"), "a = 1'000; b = ' ';");
  EXPECT_EQ(blank_comments_and_literals("0xFF'FF'00 + 1"), "0xFF'FF'00 + 1");
}

TEST(SourceFile, FindsIncludes) {
  const SourceFile file = make_source_file(
      "src/a/x.cc", "#include \"a/x.h\"\n#include <vector>\n// #include \"no.h\"\n");
  ASSERT_EQ(file.includes.size(), 2U);
  EXPECT_EQ(file.includes[0].target, "a/x.h");
  EXPECT_TRUE(file.includes[0].quoted);
  EXPECT_EQ(file.includes[1].target, "vector");
  EXPECT_EQ(file.includes[1].line, 2U);
  EXPECT_FALSE(file.includes[1].quoted);
}

TEST(SourceFile, ExcuseNeedsAReason) {
  const SourceFile file = make_source_file(
      "src/a/x.cc", "f();  // style-ok: because\n\nf();  // style-ok: \n// style-ok: why\nf();\n");
  EXPECT_TRUE(is_excused(file, 1));
  EXPECT_FALSE(is_excused(file, 3));
  EXPECT_TRUE(is_excused(file, 5));
}

TEST(SourceFile, TreeHoldsWhatWasWritten) {
  std::vector<std::string> paths;
  for (const SourceFile& file : tree()) paths.push_back(file.path);
  EXPECT_THAT(paths, testing::IsSupersetOf({"CMakeLists.txt", "Makefile", "cmake/layers.txt",
                                            "src/base/result.h", "scripts/deps.sh",
                                            "tests/style/source_file_test.cc", ".ci/run"}));
  EXPECT_THAT(paths, testing::Each(testing::Not(testing::HasSubstr("node_modules"))));
  EXPECT_THAT(paths, testing::Each(testing::Not(testing::StartsWith("build/"))));
}

}  // namespace
}  // namespace thimble::style
