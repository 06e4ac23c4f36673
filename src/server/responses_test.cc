// Aim: requests of the Responses API are taken or refused, never half understood, and items become
// the turns that they are; a writer's stream builds what its whole answer is. Method: a request
// that uses every field, with each of its values replaced by each kind of JSON; turns by hand;
// a stream put together again as a client does it. Shapes are compared in tests/api.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/internal/response_items.h"
#include "server/internal/response_request.h"
#include "server/internal/response_writer.h"

namespace thimble::server {
namespace {

using nlohmann::json;

const json kEveryField = json::parse(R"({
  "model": "m", "instructions": "be brief", "max_output_tokens": 9, "temperature": 1.5,
  "top_p": 0.5, "reasoning": {"effort": "low", "summary": "auto"}, "stream": false,
  "store": false, "previous_response_id": null, "metadata": {"a": "b"}, "user": "u",
  "text": {"format": {"type": "text"}, "verbosity": "low"}, "truncation": "disabled",
  "include": ["reasoning.encrypted_content"], "parallel_tool_calls": false, "background": false,
  "tools": [{"type": "function", "name": "f", "description": "d", "strict": true,
             "parameters": {"type": "object", "properties": {}}}],
  "tool_choice": {"type": "function", "name": "f"}, "top_logprobs": 0, "service_tier": "auto",
  "input": [
    {"role": "user", "content": "x"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "y"}]},
    {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}],
     "content": [{"type": "reasoning_text", "text": "t"}], "encrypted_content": null},
    {"type": "message", "id": "m", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "z", "annotations": []},
                 {"type": "refusal", "refusal": "no"}]},
    {"type": "function_call", "id": "c", "call_id": "1", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "1", "output": "w"}]})");

// A request that is refused says why, and which of its fields it is.
void expect_taken_or_refused(const json& request, const std::string& what) {
  const auto parsed = parse_response_request(request.dump());
  if (parsed) return;
  EXPECT_EQ(parsed.error().status, 400u) << what;
  EXPECT_FALSE(parsed.error().message.empty()) << what;
  ASSERT_TRUE(parsed.error().param.has_value()) << what;
  std::string name = *parsed.error().param;
  name = name.substr(0, name.find_first_of(".["));
  EXPECT_TRUE(request.contains(name) || name == "input") << what << ": " << name;
}

// A form is read as chats read response_format, the schema lying in the format itself.
TEST(ResponseRequest, ReadsTheFormOfTheAnswer) {
  const auto parsed = [](const char* format) {
    return parse_response_request(
        json({{"input", "as json"}, {"text", {{"format", json::parse(format)}}}}).dump());
  };
  const auto schema = parsed(R"({"type": "json_schema", "name": "n", "schema": {"type": "null"}})");
  ASSERT_TRUE(schema.has_value());
  ASSERT_TRUE(schema->chat.common.format.has_value());
  EXPECT_EQ(schema->chat.common.format->kind, AnswerFormat::Kind::kSchema);
  EXPECT_EQ(schema->echo["text"]["format"]["name"], "n");
  EXPECT_TRUE(parsed(R"({"type": "json_object"})")->chat.common.format.has_value());
  EXPECT_FALSE(parsed(R"({"type": "text"})")->chat.common.format.has_value());
  const auto where = [&](const char* format) { return parsed(format).error().param.value_or(""); };
  EXPECT_EQ(where(R"({"type": "xml"})"), "text.format.type");
  EXPECT_EQ(where(R"({"type": "json_schema", "schema": {}})"), "text.format.name");
  EXPECT_EQ(where(R"({"type": "json_schema", "name": "n"})"), "text.format.schema");
  EXPECT_EQ(where(R"({"type": "json_schema", "name": "n", "schema": {"pattern": "("}})"),
            "text.format.schema");
}

TEST(ResponseRequest, EveryValueMayBeOfAnyKind) {
  ASSERT_TRUE(parse_response_request(kEveryField.dump()));
  const std::vector<json> values = {nullptr,
                                    true,
                                    -1,
                                    0,
                                    1.5,
                                    1e300,
                                    "",
                                    "x",
                                    json::array(),
                                    json::object(),
                                    {nullptr},
                                    {{}},
                                    {{"type", 1}},
                                    {{"type", "x"}},
                                    json::array({json::array()}),
                                    std::string(5000, 'a')};
  size_t refused = 0;
  const json places = kEveryField.flatten();
  for (const auto& [path, value] : places.items()) {
    for (json::json_pointer at(path); !at.empty(); at = at.parent_pointer()) {
      for (const json& other : values) {
        json request = kEveryField;
        request[at] = other;
        expect_taken_or_refused(request, at.to_string() + " = " + other.dump().substr(0, 40));
        refused += parse_response_request(request.dump()) ? 0 : 1;
      }
    }
  }
  EXPECT_GT(refused, 500u);
}

TEST(ResponseRequest, BodiesCutAnywhereAreRefused) {
  const std::string body = kEveryField.dump();
  for (size_t length = 0; length < body.size(); ++length) {
    const auto parsed = parse_response_request(std::string_view(body).substr(0, length));
    ASSERT_FALSE(parsed) << length;
    EXPECT_EQ(parsed.error().status, 400u);
  }
}

std::string turns_of(const json& input) {
  const json request = {{"input", input}};
  const auto turns = read_items(Fields(request, ""));
  if (!turns) return "refused: " + turns.error().param.value_or("?");
  std::string out;
  for (size_t i = 0; i < turns->messages.size(); ++i) {
    const text::ChatMessage& turn = turns->messages[i];
    constexpr std::string_view kRoles = "suat";
    out += kRoles[static_cast<size_t>(turn.role)];
    if (!turn.reasoning.empty()) out += "(" + turn.reasoning + ")";
    for (const auto& part : turn.content) out += "'" + part.text + "'";
    for (const auto& call : turn.calls) out += call.name + call.id;
    out += turn.call_id + "@" + turns->sources[i].substr(5) + " ";
  }
  return out;
}

json said(const char* role, const char* text) { return {{"role", role}, {"content", text}}; }
json thought(const char* text) {
  return {{"type", "reasoning"},
          {"summary", json::array()},
          {"content", {{{"type", "reasoning_text"}, {"text", text}}}}};
}
json called(const char* id) {
  return {{"type", "function_call"}, {"call_id", id}, {"name", "f"}, {"arguments", "{}"}};
}
json result(const char* id) {
  return {{"type", "function_call_output"}, {"call_id", id}, {"output", "r"}};
}

TEST(ResponseItems, OneOutputIsOneTurn) {
  EXPECT_EQ(turns_of("x"), "u'x'@ ");
  EXPECT_EQ(turns_of({said("user", "x"), thought("t"), said("assistant", "a"), called("1"),
                      called("2"), result("1"), result("2"), said("user", "y")}),
            "u'x'@[0] a(t)'a'f1f2@[1] t'r'1@[5] t'r'2@[6] u'y'@[7] ");
  EXPECT_EQ(
      turns_of({thought("t"), called("1"), result("1"), thought("s"), said("assistant", "a")}),
      "a(t)f1@[0] t'r'1@[2] a(s)'a'@[3] ");
}

TEST(ResponseItems, WhatComesTooLateBeginsATurn) {
  EXPECT_EQ(turns_of({said("assistant", "a"), said("assistant", "b")}), "a'a'@[0] a'b'@[1] ");
  EXPECT_EQ(turns_of({said("assistant", "a"), thought("t"), said("assistant", "b")}),
            "a'a'@[0] a(t)'b'@[1] ");
  EXPECT_EQ(turns_of({called("1"), said("assistant", "a")}), "af1@[0] a'a'@[1] ");
  EXPECT_EQ(turns_of({thought("s"), thought("t"), said("user", "x")}), "a(s\n\nt)@[0] u'x'@[2] ");
}

// The functions of both dialects come to the same text in a prompt.
TEST(ResponseRequest, AFunctionIsWhatItIsInAChat) {
  const auto flat = parse_response_request(
      R"({"input": "x", "tools": [{"type": "function", "name": "f", "parameters": {"type": "object",
          "properties": {"b": {"minimum": 1.0}, "a": {}}}}]})");
  const auto nested = parse_chat_request(
      R"({"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function":
          {"name": "f", "parameters": {"type": "object", "properties": {"b": {"minimum": 1.0},
          "a": {}}}}}]})");
  ASSERT_TRUE(flat && nested);
  const text::Tool& one = flat->chat.tools.tools.at(0);
  const text::Tool& other = nested->tools.tools.at(0);
  EXPECT_EQ(text::recipe_tool_line(one), text::recipe_tool_line(other));
  EXPECT_EQ(text::ref_tool_line(one), text::ref_tool_line(other));
}

// The events' JSON.
std::vector<json> events_of(const std::string& stream) {
  std::vector<json> events;
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    const std::string event = stream.substr(at, end - at);
    const size_t data = event.find("\ndata: ");
    events.push_back(json::parse(event.substr(data + 7)));
    EXPECT_EQ(event.substr(0, data), "event: " + events.back()["type"].get<std::string>());
    at = end + 2;
  }
  return events;
}

AnswerPart part(std::string reasoning, std::string content, std::vector<CallPart> calls = {}) {
  AnswerPart out;
  out.text.reasoning = std::move(reasoning);
  out.text.content = std::move(content);
  out.calls = std::move(calls);
  return out;
}

TEST(ResponseWriter, DeltasMakeUpTheItems) {
  const auto writer = make_response_writer({"resp_1", 5, "m", OrderedJson::object()});
  std::string stream = writer->begin();
  stream += writer->part(part("a", ""));
  stream += writer->part(part("b", "c"));  // the end of one and the beginning of the next
  stream += writer->part(part("", "d", {{0, "call_1", "f", ""}, {0, "call_1", {}, "{"}}));
  stream += writer->part(part("", "", {{0, "call_1", {}, "}"}, {1, "call_2", "g", "{}"}}));
  stream += writer->choice_end(0, AnswerEnd::kCalls);
  stream += writer->end({});
  const std::vector<json> events = events_of(stream);
  std::vector<std::string> texts;
  std::vector<json> closed;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    const std::string type = events[i]["type"];
    if (type == "response.output_item.added") texts.emplace_back();
    if (type.ends_with(".delta")) texts.back() += events[i]["delta"];
    if (type == "response.output_item.done") closed.push_back(events[i]["item"]);
    if (events[i].contains("output_index")) {
      EXPECT_EQ(events[i]["output_index"], texts.size() - 1) << events[i];
    }
  }
  EXPECT_EQ(texts, (std::vector<std::string>{"ab", "cd", "{}", "{}"}));
  EXPECT_EQ(events.back()["type"], "response.completed");
  EXPECT_EQ(events.back()["response"]["output"], json(closed));
  EXPECT_EQ(closed[2]["call_id"], "call_1");
  EXPECT_EQ(closed[3]["name"], "g");
}

TEST(ResponseWriter, AFailureOfTheClientsPaceHasItsCode) {
  const auto writer = make_response_writer({"resp_1", 5, "m", OrderedJson::object()});
  const auto events = events_of(writer->failure({429, "too many", {}, {}, {}}));
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["response"]["error"]["code"], "rate_limit_exceeded");
  EXPECT_EQ(events[0]["response"]["status"], "failed");
}

}  // namespace
}  // namespace thimble::server
