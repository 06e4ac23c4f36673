#include "server/internal/response_items.h"

#include <utility>

#include "server/internal/content.h"

namespace thimble::server {
namespace {

using text::ChatMessage;
using text::ContentPart;
using text::Role;

class Turns {
 public:
  void add(ChatMessage message, const std::string& source) {
    out_.messages.push_back(std::move(message));
    out_.sources.push_back(source);
  }

  // The assistant's turn that goes on, or a new one.
  ChatMessage& any_turn(const std::string& source) {
    const bool goes_on = !out_.messages.empty() && out_.messages.back().role == Role::kAssistant;
    if (!goes_on) add(ChatMessage{.role = Role::kAssistant, .content = {}}, source);
    return out_.messages.back();
  }

  // One that has no more than reasoning yet.
  ChatMessage& begun_turn(const std::string& source) {
    const ChatMessage& turn = any_turn(source);
    if (!turn.content.empty() || !turn.calls.empty()) {
      add(ChatMessage{.role = Role::kAssistant, .content = {}}, source);
    }
    return out_.messages.back();
  }

  ItemTurns take() { return std::move(out_); }

 private:
  ItemTurns out_;
};

ApiResult<std::string> read_text(const Fields& item, const char* name) {
  const Json* content = item.find(name);
  if (content == nullptr) return std::string();
  const auto parts = THIMBLE_TRY(read_content(*content, item.path_of(name), PartNames::kResponses));
  std::string out;
  for (const ContentPart& part : parts) {
    if (!out.empty()) out += "\n\n";
    out += part.text;
  }
  return out;
}

ApiResult<std::string> required(const Fields& item, const char* name) {
  auto value = THIMBLE_TRY(item.string(name));
  if (value.value_or("").empty()) {
    return bad_field(item.path_of(name), fmt::format("'{}' is missing", item.path_of(name)));
  }
  return *std::move(value);
}

ApiResult<void> take_message(const Fields& item, const std::string& path, Turns& turns) {
  const std::string name = THIMBLE_TRY(required(item, "role"));
  const auto role = text::parse_role(name);
  if (!role || *role == Role::kTool || *role == Role::kLatestReminder) {
    return bad_field(item.path_of("role"),
                     fmt::format("'{}' is '{}', expected user, assistant, system or developer",
                                 item.path_of("role"), std::string_view(name).substr(0, 64)));
  }
  const Json* content = item.find("content");
  if (content == nullptr) {
    return bad_field(item.path_of("content"),
                     fmt::format("'{}' is missing", item.path_of("content")));
  }
  auto parts = THIMBLE_TRY(read_content(*content, item.path_of("content"), PartNames::kResponses));
  if (*role == Role::kAssistant) {
    if (parts.empty()) parts.push_back({text::PartKind::kText, ""});  // it was said all the same
    turns.begun_turn(path).content = std::move(parts);
  } else {
    turns.add(ChatMessage{.role = *role, .content = std::move(parts)}, path);
  }
  return {};
}

// Ours have their text in `content`; a summary stands in for the text of others'. What is encrypted
// only its own server can read.
ApiResult<void> take_reasoning(const Fields& item, const std::string& path, Turns& turns) {
  std::string text = THIMBLE_TRY(read_text(item, "content"));
  if (text.empty()) text = THIMBLE_TRY(read_text(item, "summary"));
  if (text.empty()) return {};
  std::string& reasoning = turns.begun_turn(path).reasoning;
  if (!reasoning.empty()) reasoning += "\n\n";
  reasoning += text;
  return {};
}

ApiResult<void> take_call(const Fields& item, const std::string& path, Turns& turns) {
  text::ToolCall call;
  call.id = THIMBLE_TRY(required(item, "call_id"));
  call.name = THIMBLE_TRY(required(item, "name"));
  call.arguments = THIMBLE_TRY(item.string("arguments")).value_or("");
  turns.any_turn(path).calls.push_back(std::move(call));
  return {};
}

ApiResult<void> take_result(const Fields& item, const std::string& path, Turns& turns) {
  ChatMessage message;
  message.role = Role::kTool;
  message.call_id = THIMBLE_TRY(required(item, "call_id"));
  const Json* output = item.find("output");
  if (output == nullptr) {
    return bad_field(item.path_of("output"),
                     fmt::format("'{}' is missing", item.path_of("output")));
  }
  message.content =
      THIMBLE_TRY(read_content(*output, item.path_of("output"), PartNames::kResponses));
  turns.add(std::move(message), path);
  return {};
}

ApiResult<void> take_item(const Fields& item, const std::string& path, Turns& turns) {
  auto type = THIMBLE_TRY(item.string("type"));
  if (!type) type = item.find("role") == nullptr ? "item_reference" : "message";
  if (*type == "message") return take_message(item, path, turns);
  if (*type == "reasoning") return take_reasoning(item, path, turns);
  if (*type == "function_call") return take_call(item, path, turns);
  if (*type == "function_call_output") return take_result(item, path, turns);
  if (*type == "item_reference") {
    return not_yet(path, fmt::format("'{}' refers to an item, but responses are not stored here; "
                                     "send the item itself",
                                     path));
  }
  const std::string at = item.path_of("type");
  return not_yet(at, fmt::format("'{}': items of type '{}' are not supported", at,
                                 std::string_view(*type).substr(0, 64)));
}

}  // namespace

ApiResult<ItemTurns> read_items(const Fields& fields) {
  Turns turns;
  auto instructions = THIMBLE_TRY(fields.string("instructions"));
  if (instructions) {
    turns.add(text::make_message(Role::kSystem, *std::move(instructions)), "instructions");
  }
  const Json* input = fields.find("input");
  if (input == nullptr) return bad_field("input", "'input' is missing");
  if (input->is_string()) {
    turns.add(text::make_message(Role::kUser, input->get<std::string>()), "input");
    return turns.take();
  }
  if (!input->is_array()) {
    return bad_field("input", fmt::format("'input' must be a string or an array of items, not {}",
                                          type_name(*input)));
  }
  if (input->empty()) return bad_field("input", "'input' must have at least one item");
  for (size_t i = 0; i < input->size(); ++i) {
    const std::string path = indexed("input", i);
    const Json& item = (*input)[i];
    if (!item.is_object()) {
      return bad_field(path, fmt::format("'{}' must be an object, not {}", path, type_name(item)));
    }
    THIMBLE_TRY(take_item(Fields(item, path), path, turns));
  }
  ItemTurns out = turns.take();
  if (out.messages.empty()) return bad_field("input", "'input' says nothing");
  return out;
}

}  // namespace thimble::server
