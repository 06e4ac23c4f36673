// Aim: functions are found with their names and lengths in the layouts this tree uses.
// Method: small samples in clang-formatted layout.

#include "tests/style/functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/style/testing.h"

namespace thimble::style {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// "name first+count" for each function of the sample.
std::vector<std::string> spans(const std::string& text) {
  std::vector<std::string> out;
  for (const FunctionSpan& span : find_functions(make_source_file("src/a/x.cc", text))) {
    out.push_back(span.name + " " + std::to_string(span.first_line) + "+" +
                  std::to_string(span.line_count));
  }
  return out;
}

TEST(Functions, FindsFreeFunctionsInNamespaces) {
  EXPECT_THAT(spans("namespace a::b {\nnamespace {\n\nint f(int x) {\n  return x;\n}\n\n"
                    "}  // namespace\n\nvoid g() {}\n}  // namespace a::b\n"),
              ElementsAre("f 4+3", "g 10+1"));
}

TEST(Functions, FindsMembersInsideAndOutsideOfClasses) {
  EXPECT_THAT(spans("class A final : public B<int> {\n public:\n  A() : x_{1}, y_(2) {\n"
                    "    f();\n  }\n  int get() const { return x_; }\n\n private:\n  int x_ = 0;\n"
                    "  std::vector<int> v_{1, 2};\n};\n\nA::~A() {\n}\n"
                    "bool A::operator==(const A& o) const {\n  return x_ == o.x_;\n}\n"),
              ElementsAre("A 3+3", "get 6+1", "A::~A 13+2", "operator== 15+3"));
}

TEST(Functions, CountsTheSignatureAndWhatLiesInside) {
  EXPECT_THAT(spans("template <class T, int N = 3>\n[[nodiscard]] Result<T> f(\n    T a,\n"
                    "    int b = 2) {\n  auto g = [&] {\n    return 1;\n  };\n  struct L {\n"
                    "    int h() { return 2; }\n  };\n  return g();\n}\n"),
              ElementsAre("f 1+12"));
}

TEST(Functions, NamesTestsAndLambdas) {
  EXPECT_THAT(spans("TEST(Suite, Case) {\n  f();\n}\nTEST_P(P, Q) {\n}\n"
                    "const auto kF = [](int x) {\n  return x;\n};\n"),
              ElementsAre("Suite.Case 1+3", "P.Q 4+2", "kF 6+3"));
}

TEST(Functions, SkipsTablesEnumsAndDirectives) {
  EXPECT_THAT(spans("enum class E { kA, kB };\nconstexpr int kT[] = {1, 2};\n"
                    "constexpr std::array kU = {\n    S{1, f(2)},\n};\n"
                    "#define M(x) \\\n  do { \\\n    f(x); \\\n  } while (0)\n"
                    "struct S {\n  int a = 0;\n};\n"),
              IsEmpty());
}

TEST(Functions, TakesOneBranchOfConditionals) {
  EXPECT_THAT(spans("#ifdef A\nint f() {\n#else\nint f(int) {\n#endif\n  return 1;\n}\n"
                    "int g() { return 2; }\n"),
              ElementsAre("f 2+6", "g 8+1"));
}

TEST(Functions, KnowsTrailingReturnsAttributesAndConstraints) {
  EXPECT_THAT(
      spans("__attribute__((target(\"avx2\"))) auto f() -> std::vector<int> {\n"
            "  return {};\n}\ntemplate <class T>\n  requires(sizeof(T) > 2)\n"
            "void g(T) noexcept(true) {\n}\nextern \"C\" {\nint h(void) { return 1; }\n}\n"),
      ElementsAre("f 1+3", "g 4+4", "h 9+1"));
}

}  // namespace
}  // namespace thimble::style
