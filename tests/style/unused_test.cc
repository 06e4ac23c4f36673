// Aim: no file lies in the tree that nothing reaches. Method: bad samples, then the tree.

#include "tests/style/unused.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Unused, FindsSourceThatNoListNames) {
  const SourceFile list = make_source_file("src/a/CMakeLists.txt",
                                           "thimble_module(a\n  SOURCES x.cc in/y.cc)  # z.cc\n");
  EXPECT_THAT(places(check_unused({list, make_source_file("src/a/x.cc", ""),
                                   make_source_file("src/a/in/y.cc", ""),
                                   make_source_file("src/a/z.cc", "")})),
              ElementsAre("src/a/z.cc:0"));
}

TEST(Unused, FindsHeaderThatOnlyItsTestIncludes) {
  const SourceFile list = make_source_file("CMakeLists.txt", "src/a/x_test.cc src/a/y.cc");
  const SourceFile header = make_source_file("src/a/x.h", "#include \"a/x.h\"\n");
  const SourceFile test = make_source_file("src/a/x_test.cc", "#include \"a/x.h\"\n");
  EXPECT_THAT(places(check_unused({list, header, test})), ElementsAre("src/a/x.h:0"));
  const SourceFile user = make_source_file("src/a/y.cc", "#include \"a/x.h\"\n");
  EXPECT_THAT(check_unused({list, header, test, user}), IsEmpty());
}

TEST(Unused, TreeHasNone) { expect_none(check_unused(tree())); }

}  // namespace
}  // namespace thimble::style
