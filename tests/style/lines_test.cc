// Aim: the rules that need one line at a time hold. Method: for each rule bad samples that must be
// found and good ones that must not, then the tree.

#include "tests/style/lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<SourceFile> one(const std::string& text, const std::string& path = "src/a/x.cc") {
  return {make_source_file(path, text)};
}

TEST(Lines, LengthCountsCharactersNotBytes) {
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\u00e9";
  EXPECT_THAT(check_line_length(one(wide + "\n")), IsEmpty());
  EXPECT_THAT(places(check_line_length(one("\n" + wide + "e\n"))), ElementsAre("src/a/x.cc:2"));
}

TEST(Lines, TablesAndAddressesInProseMayBeLong) {
  const std::string cells = "| " + std::string(120, 'a') + " |\n";
  EXPECT_THAT(check_line_length(one(cells, "README.md")), IsEmpty());
  EXPECT_EQ(check_line_length(one(cells)).size(), 1U);
  EXPECT_EQ(check_line_length(one(cells.substr(1), "README.md")).size(), 1U);
}

TEST(Lines, RemindersNeedAnIssue) {
  const std::string reminder = "// TODO";  // style-ok: a sample
  EXPECT_THAT(places(check_reminders(one(reminder + ": later\n" + reminder + "(me)\n"))),
              ElementsAre("src/a/x.cc:1", "src/a/x.cc:2"));
  EXPECT_THAT(check_reminders(one(reminder + "(#12): later\n")), IsEmpty());
}

TEST(Lines, MachinePathsAreFound) {
  const std::string root = "/builds/mine";
  EXPECT_THAT(places(check_machine_paths(one("open(\"/home/me/x\");\n"  // style-ok: a sample
                                             "open(/builds/mine/x);\n"),
                                         root)),
              ElementsAre("src/a/x.cc:1", "src/a/x.cc:2"));
  EXPECT_THAT(check_machine_paths(one("open(\"/models/home/x\");  // a/builds/mine/\n"), root),
              IsEmpty());
}

TEST(Lines, BannedCallsAreFound) {
  for (const char* line :
       {"strcpy(a, b);", "std::printf(\"x\");", "::sprintf(a, b);", "int n = atoi(s);",
        "x = rand();", "std::regex re;", "out << std::endl;", "using namespace std;",
        "auto* p = new int(3);", "delete p;", "delete[] p;", "throw 1;", "assert(x);",
        "std::getenv(\"X\");", "std::stoi(s);"}) {
    EXPECT_EQ(check_banned(one(std::string(line) + "\n")).size(), 1U) << line;
  }
}

TEST(Lines, BannedWordsInOtherPlacesAreNot) {
  for (const char* line :
       {"fmt::printf_like(x);", "A(const A&) = delete;", "// new, delete and printf(",
        "log(\"throw \" + new_name);", "grand(x);", "pool.free(page);", "fmt::print(\"x\");",
        "int new_tokens = 0;", "static_assert(true);", "arena->free(x);", "page_pool::free(x);",
        "#include <new>", "return std::unique_ptr<A>(new A(x));",
        "pages_.reset(new (std::nothrow) int[n]);", "::operator delete(bytes, kAlignment);",
        "throw;"}) {
    EXPECT_THAT(check_banned(one(std::string(line) + "\n")), IsEmpty()) << line;
  }
  EXPECT_THAT(check_banned(one("f(new int);  // style-ok: the library takes it over\n")),
              IsEmpty());
  EXPECT_THAT(check_banned(one("std::getenv(\"X\");\n", "src/base/env.cc")), IsEmpty());
}

TEST(Lines, HeadersAndTestsOpenWithTheirPurpose) {
  EXPECT_EQ(check_openings(one("int f();\n", "src/a/x.h")).size(), 2U);
  EXPECT_EQ(check_openings(one("#include <x>\n", "src/a/x_test.cc")).size(), 1U);
  EXPECT_THAT(check_openings(one("// What.\n#pragma once\n", "src/a/x.h")), IsEmpty());
}

TEST(Lines, TreeKeepsTheRules) {
  expect_none(check_line_length(tree()));
  expect_none(check_reminders(tree()));
  expect_none(check_machine_paths(tree(), THIMBLE_SOURCE_DIR));
  expect_none(check_banned(tree()));
  expect_none(check_openings(tree()));
}

}  // namespace
}  // namespace thimble::style
