// Aim: whoever cites a document leads the reader to it. Method: bad samples, then the tree.

#include "tests/style/references.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kPage = std::string("spec/x") + ".md";  // in parts: this file is checked too
const std::string kGone = std::string("gone") + ".md";

TEST(References, FindsDocumentThatIsNotThere) {
  const SourceFile page = make_source_file("docs/" + kPage, "see " + kGone + "\n");
  const SourceFile good =
      make_source_file("src/a/x.h", "// " + kPage + " section 2, and docs/" + kPage +
                                        ".\n// (../docs/" + kPage + ")\n");
  EXPECT_THAT(check_references({page, good}), IsEmpty());
  const SourceFile bad =
      make_source_file("src/a/y.h", "// e" + kPage + " section 2\n// docs/" + kGone + "\n// " +
                                        kGone + " style-ok: a name\n");
  EXPECT_THAT(places(check_references({page, bad})), ElementsAre("src/a/y.h:1", "src/a/y.h:2"));
}

TEST(References, TreeHasNoneThatLeadNowhere) { expect_none(check_references(tree())); }

}  // namespace
}  // namespace thimble::style
