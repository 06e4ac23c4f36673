// Aim: every #include under src/ follows an arrow of cmake/layers.txt, and libraries stay behind
// our headers. Method: bad samples first, each of which must be found; then the tree.

#include "tests/style/layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Layers kSample = parse_layers({"# arrows", "base:", "arch: base", "engine: arch base"});

std::vector<std::string> places_of(const std::string& path, const std::string& text) {
  return places(check_layers({make_source_file(path, text)}, kSample));
}

TEST(Layers, ParsesLines) {
  EXPECT_EQ(kSample.size(), 3U);
  EXPECT_THAT(kSample.at("base"), IsEmpty());
  EXPECT_THAT(kSample.at("engine"), ElementsAre("arch", "base"));
}

TEST(Layers, AllowsOwnAndNamedModules) {
  EXPECT_THAT(places_of("src/arch/x.cc",
                        "#include \"arch/x.h\"\n#include \"base/result.h\"\n#include <base>\n"
                        "#include \"arch/internal/y.h\"\n#include <nlohmann/json.hpp>\n"),
              IsEmpty());
}

TEST(Layers, FindsUpwardInclude) {
  EXPECT_THAT(places_of("src/arch/x.cc", "\n#include \"engine/engine.h\"\n"),
              ElementsAre("src/arch/x.cc:2"));
  EXPECT_THAT(places_of("src/base/x_test.cc", "#include \"arch/x.h\"\n"),
              ElementsAre("src/base/x_test.cc:1"));
}

TEST(Layers, FindsPrivateHeaderOfAnother) {
  EXPECT_THAT(places_of("src/engine/x.cc", "#include \"arch/internal/y.h\"\n"),
              ElementsAre("src/engine/x.cc:1"));
}

TEST(Layers, FindsIncludesNotWrittenFromSrc) {
  EXPECT_THAT(places_of("src/arch/x.cc",
                        "#include \"x.h\"\n#include \"../base/result.h\"\n#include <base/log.h>\n"
                        "#include \"apps/thimble/main.h\"\n#include \"tests/style/layers.h\"\n"),
              ElementsAre("src/arch/x.cc:1", "src/arch/x.cc:2", "src/arch/x.cc:3",
                          "src/arch/x.cc:4", "src/arch/x.cc:5"));
}

TEST(Layers, TestsMayOpenTheGoldenData) {
  const std::string golden = "#include \"tests/golden/golden.h\"\n";
  EXPECT_THAT(places_of("src/arch/x_test.cc", golden), IsEmpty());
  EXPECT_THAT(places_of("src/arch/x.cc", golden), ElementsAre("src/arch/x.cc:1"));
}

TEST(Layers, FindsModuleWithoutLine) {
  EXPECT_THAT(places_of("src/other/x.cc", ""), ElementsAre("src/other/x.cc:0"));
}

TEST(Layers, FindsCycle) {
  const Layers cyclic = parse_layers({"a: b", "b: c", "c: a"});
  EXPECT_THAT(places(check_layers({}, cyclic)), ElementsAre("cmake/layers.txt:0"));
}

TEST(Layers, FindsLibraryOutsideItsFence) {
  const std::string beast = "#include <boost/beast.hpp>\n";
  EXPECT_THAT(places(check_fences({make_source_file("src/engine/x.cc", beast),
                                   make_source_file("src/net/x.h", beast),
                                   make_source_file("src/net/x.cc", beast)})),
              ElementsAre("src/engine/x.cc:1", "src/net/x.h:1"));
}

TEST(Layers, FindsLibraryInATargetRegion) {
  const std::string text = "#include <cstdint>\n#include <algorithm>\n#include \"kernels/x.h\"\n";
  EXPECT_THAT(places(check_regions({make_source_file("src/kernels/generic/x-inl.h", text),
                                    make_source_file("src/kernels/x.cc", text)})),
              ElementsAre("src/kernels/generic/x-inl.h:2"));
}

TEST(Layers, TreeFollowsTheArrows) {
  const Layers layers = parse_layers(read_lines("cmake/layers.txt"));
  ASSERT_GE(layers.size(), 10U);
  expect_none(check_layers(tree(), layers));
  expect_none(check_fences(tree()));
  expect_none(check_regions(tree()));
}

}  // namespace
}  // namespace thimble::style
