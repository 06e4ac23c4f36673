// Aim: calls come out of the model's text whole, typed and in order, nothing of the markup ever
// shows, prose is never taken for a call, and no cut of the stream changes any of it. Method: a
// corpus of valid and malformed blocks with what must come of them; each is fed whole, byte by
// byte, cut at every place and at every pair of places. `M` stands for the marker.
#include "text/call_parser.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace thimble::text {
namespace {

std::string marked(std::string text) {
  for (size_t at = 0; (at = text.find('M', at)) != text.npos; ++at) {
    if (at == 0 || text[at - 1] != 'S') text[at] = CallParser::kMarker;  // not the M of DSML
  }
  return text;
}

// What a client sees in all: "prose|name(arguments)|...", then how it ended.
struct Seen {
  std::string prose;
  std::vector<std::pair<std::string, std::string>> calls;
  bool opened = false;
  void take(const CallText& text) {
    EXPECT_TRUE(!opened || text.prose.empty()) << "prose after the block began: " << text.prose;
    prose += text.prose;
    opened = opened || text.opened;
    for (const CallDelta& delta : text.calls) {
      EXPECT_TRUE(opened);
      if (delta.name) {
        EXPECT_EQ(delta.arguments, "");
        EXPECT_EQ(delta.index, calls.size());
        calls.emplace_back(*delta.name, "");
      } else {
        ASSERT_EQ(delta.index + 1, calls.size());
        calls.back().second += delta.arguments;
      }
    }
  }
  std::string shown(const CallParser& parser) const {
    std::string out = prose;
    for (const auto& [name, arguments] : calls) out += "|" + name + "(" + arguments + ")";
    out += fmt::format("#{}", parser.completed());
    if (parser.closed()) out += " closed";
    if (parser.broken()) out += " broken";
    return out;
  }
};

std::string parsed(const std::vector<std::string_view>& pieces, CallParserOptions options = {}) {
  CallParser parser(std::move(options));
  Seen seen;
  for (const std::string_view piece : pieces) {
    CallText text;
    parser.push(piece, text);
    seen.take(text);
  }
  CallText rest;
  parser.finish(rest);
  seen.take(rest);
  return seen.shown(parser);
}

constexpr const char* kTide =
    "Let me look.\n\n<M calls>\n<M invoke name=\"get_tide\">\n"
    "<M parameter name=\"port\" string=\"true\">Brest</M parameter>\n"
    "<M parameter name=\"hours\" string=\"false\">6</M parameter>\n"
    "</M invoke>\n</M calls>";

std::string call(const std::string& parameters) {
  return "<M calls>\n<M invoke name=\"f\">\n" + parameters + "\n</M invoke>\n</M calls>";
}
std::string parameter(const std::string& value, const char* is_string) {
  return std::string("<M parameter name=\"k\" string=\"") + is_string + "\">" + value +
         "</M parameter>";
}

struct Case {
  std::string text;
  std::string seen;
};

std::vector<Case> well_formed() {
  return {
      {"Just 1 < 2.\n\nAnd <b>\n", "Just 1 < 2.\n\nAnd <b>\n#0"},
      {kTide, R"(Let me look.|get_tide({"port": "Brest", "hours": 6})#1 closed)"},
      {call(""), "|f({})#1 closed"},
      {"\n\n\n" + call(""), "|f({})#1 closed"},
      {"<M calls>\n<M invoke name=\"f\">\n\n</M invoke>\n<M invoke name=\"f\">\n" +
           parameter("1", "false") + "\n</M invoke>\n</M calls>",
       R"(|f({})|f({"k": 1})#2 closed)"},
      // Types and spellings stay.
      {call(parameter("1.0", "false")), R"(|f({"k": 1.0})#1 closed)"},
      {call(parameter("1e40", "false")), R"(|f({"k": 1e40})#1 closed)"},
      {call(parameter("null", "false")), R"(|f({"k": null})#1 closed)"},
      {call(parameter("true", "false")), R"(|f({"k": true})#1 closed)"},
      {call(parameter("true", "true")), R"(|f({"k": "true"})#1 closed)"},
      {call(parameter("6", "true")), R"(|f({"k": "6"})#1 closed)"},
      {call(parameter(R"( {"a":[1,{"b":"x</y>"}]} )", "false")),
       R"(|f({"k": {"a":[1,{"b":"x</y>"}]}})#1 closed)"},
      {call(parameter("\"é\\u00e9\"", "false")), "|f({\"k\": \"é\\u00e9\"})#1 closed"},
      // Strings are what stands between the tags.
      {call(parameter("", "true")), R"(|f({"k": ""})#1 closed)"},
      {call(parameter("\n say \"<a href='x'>\" & \\n 世界\t", "true")),
       R"(|f({"k": "\n say \"<a href='x'>\" & \\n 世界\t"})#1 closed)"},
      {call(parameter("a</M b</M invoke></M calls><</</M para", "true")),
       R"(|f({"k": "a</｜DSML｜ b</｜DSML｜ invoke></｜DSML｜ calls><</</｜DSML｜ para"})#1 closed)"},
      {call(parameter("</｜DSML｜ parameter>", "true")),
       R"(|f({"k": "</｜DSML｜ parameter>"})#1 closed)"},
      // Older spellings; space between tags.
      {"x\n\n<Mtool_calls>\n<Minvoke name=\"f\">\n<Mparameter name=\"k\" string=\"true\">v"
       "</Mparameter>\n</Minvoke>\n</Mtool_calls>",
       R"(x|f({"k": "v"})#1 closed)"},
      {"<M function_calls><M invoke name=\"f\">  \r\n\t</M invoke></M function_calls>\n",
       "|f({})#1 closed"},
      {"<M calls><M invoke name=\"a::b-1>\">\n</M invoke></M calls>", "|a::b-1>({})#1 closed"},
      {"<M calls>\n</M calls>", "#0 closed"},
      // After the block nothing counts.
      {std::string(kTide) + "\n and more <M calls> <M invoke name=\"g\">",
       R"(Let me look.|get_tide({"port": "Brest", "hours": 6})#1 closed)"},
  };
}

std::vector<Case> malformed() {
  const std::string head = "<M calls>\n<M invoke name=\"f\">\n";
  return {
      // Prose that speaks of calls is prose; a marker in it is left out.
      {"Write <｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">",
       "Write <｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">#0"},
      {"a M b", "a  b#0"},
      {"M calls>\n", " calls>\n#0"},
      {"<M call>\n\n<M calls\n", "< call>\n\n< calls\n#0"},
      {"<M  calls>", "<  calls>#0"},
      {"\n<M<M calls>\n</M calls>", "\n<#0 closed"},
      {"<<M calls></M calls>", "<#0 closed"},
      {"\n<\n<M", "\n<#0"},
      {"a\n\n<M cal", "a#0"},
      {"a\n\n<", "a\n\n<#0"},
      // Cut: what is there stays, unfinished.
      {"<M calls>", "#0"},
      {"<M calls>\n<M invoke na", "#0"},
      {head, "|f()#0"},
      {head + "<M parameter name=\"k\" string=\"true\">some te", R"(|f({"k": "some te)#0)"},
      {head + "<M parameter name=\"k\" string=\"true\">some</M par", R"(|f({"k": "some)#0)"},
      {head + "<M parameter name=\"k\" string=\"false\">[1, 2", R"(|f({"k": [1, 2)#0)"},
      {head + parameter("1", "false") + "\n</M inv", R"(|f({"k": 1)#0)"},
      {head + "</M invoke>\n", "|f({})#1"},
      {head + "</M invoke>\n<M invoke name=\"g\">\n", "|f({})|g()#1"},
      // What says it is JSON and is not.
      {call(parameter("True", "false")), R"(|f({"k": "True"})#1 closed)"},
      {call(parameter("", "false")), R"(|f({"k": ""})#1 closed)"},
      {call(parameter("{\"a\": 1", "false")), R"(|f({"k": "{\"a\": 1"})#1 closed)"},
      {call(parameter("1 M", "false")), R"(|f({"k": "1 ｜DSML｜"})#1 closed)"},
      // Broken blocks.
      {"<M calls>\nI would call f", "#0 broken"},
      {"a<M calls>\n<M invoke>\n", "a#0 broken"},
      {"<M calls>\n<M invoke name=\"\">\n", "#0 broken"},
      {"<M calls>\n<M invoke name=\"f\" x=\"y\">\n", "#0 broken"},
      {"<M calls>\n<M invoke name=\"a\nb\">\n", "#0 broken"},
      {"<M calls>\n<M invoke name=\"aMb\">\n", "#0 broken"},
      {"<M calls>\n<invoke name=\"f\">\n", "#0 broken"},
      {"<M calls>\n<M invoke name=\"f\"\">" + std::string(5000, 'x'), "#0 broken"},
      {"<M calls>\n" + parameter("1", "false"), "#0 broken"},
      {"<M calls>\n<M calls>\n", "#0 broken"},
      {head + "text</M invoke>", "|f()#0 broken"},
      {head + "<M invoke name=\"g\">", "|f()#0 broken"},
      {head + "</M calls>", "|f()#0 broken"},
      {head + "<M parameter name=\"k\">1</M parameter>", "|f()#0 broken"},
      {head + "<M parameter name=\"k\" string=\"yes\">1</M parameter>", "|f()#0 broken"},
      {head + parameter("1", "false") + parameter("2", "false"), R"(|f({"k": 1)#0 broken)"},
      {call("").substr(0, call("").size() - 10) + "bye", "|f({})#1 broken"},
  };
}

std::vector<Case> corpus() {
  std::vector<Case> all = well_formed();
  for (Case& one : malformed()) all.push_back(std::move(one));
  for (Case& one : all) one.text = marked(one.text);
  return all;
}

TEST(CallParser, CorpusUncut) {
  for (const Case& one : corpus()) EXPECT_EQ(parsed({one.text}), one.seen) << one.text;
}

TEST(CallParser, EveryCutGivesTheSame) {
  for (const Case& one : corpus()) {
    const std::string_view text = one.text;
    if (text.size() > 1000) continue;
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    ASSERT_EQ(parsed(bytes), one.seen);
    for (size_t a = 0; a <= text.size(); ++a) {
      ASSERT_EQ(parsed({text.substr(0, a), text.substr(a)}), one.seen) << "cut at " << a;
      for (size_t b = a + 1; b <= text.size(); b += text.size() > 100 ? 7 : 1) {
        ASSERT_EQ(parsed({text.substr(0, a), text.substr(a, b - a), text.substr(b)}), one.seen)
            << "cut at " << a << " and " << b;
      }
    }
  }
}

TEST(CallParser, WholeCallsHaveArgumentsThatAreJson) {
  for (const Case& one : corpus()) {
    CallParser parser;
    CallText text;
    parser.push(one.text, text);
    std::vector<std::string> arguments;
    for (const CallDelta& delta : text.calls) {
      if (delta.name) arguments.emplace_back();
      arguments.back() += delta.arguments;
    }
    for (size_t i = 0; i < arguments.size(); ++i) {
      EXPECT_EQ(nlohmann::json::accept(arguments[i]), i < parser.completed()) << arguments[i];
    }
  }
}

TEST(CallParser, StringsComeWhileTheyAreWritten) {
  CallParser parser;
  CallText text;
  parser.push(marked("<M calls>\n<M invoke name=\"f\">\n<M parameter name=\"k\" string=\"true\">a"),
              text);
  ASSERT_EQ(text.calls.size(), 2u);
  EXPECT_EQ(text.calls[0].name, "f");
  EXPECT_EQ(text.calls[1].arguments, "{\"k\": \"a");
}

TEST(CallParser, OneCallOnlyWhereSoAsked) {
  const std::string two = marked(
      "<M calls>\n<M invoke name=\"f\">\n\n</M invoke>\n<M invoke name=\"g\">\n\n</M invoke>\n"
      "</M calls>");
  EXPECT_EQ(parsed({two}, {.calls_max = 1}), "|f({})#1 closed");
}

TEST(CallParser, SaysWhenTheRestIsWasted) {
  const auto wasted = [](const std::string& text) {
    CallParser parser;
    CallText out;
    parser.push(marked(text), out);
    return parser.wasted();
  };
  EXPECT_FALSE(wasted(kTide));
  EXPECT_FALSE(wasted(kTide + std::string("\n")));
  EXPECT_TRUE(wasted(kTide + std::string("\nx")));
  EXPECT_TRUE(wasted("<M calls>\nx"));
  EXPECT_FALSE(wasted("text"));
}

TEST(CallParser, HeldProseIsGivenBackWhereThePartEnds) {
  CallParser parser;
  CallText text;
  parser.push("a\n<", text);
  EXPECT_EQ(text.prose, "a");
  EXPECT_EQ(parser.take_held(), "\n<");
  EXPECT_EQ(parser.take_held(), "");
}

TEST(CallParser, MarkersInProseShowWhereSoAsked) {
  EXPECT_EQ(parsed({marked("a M <M x")}, {.stray_marker = "｜DSML｜"}), "a ｜DSML｜ <｜DSML｜ x#0");
}

}  // namespace
}  // namespace thimble::text
