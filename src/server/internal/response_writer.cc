#include "server/internal/response_writer.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "net/sse.h"
#include "server/internal/identity.h"
#include "server/internal/usage.h"

namespace thimble::server {
namespace {

enum class ItemKind { kReasoning, kMessage, kCall };

struct Item {
  ItemKind kind = ItemKind::kMessage;
  std::string id;
  const char* status = "in_progress";
  std::string text;  // a call's arguments
  std::string name = {};
  std::string call_id = {};
};

bool is_open(const Item& item) { return item.status == std::string_view("in_progress"); }

OrderedJson part_json(ItemKind kind, const std::string& text) {
  if (kind == ItemKind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", OrderedJson::array()},
          {"logprobs", OrderedJson::array()}};
}

// An item that was only opened has no part yet.
OrderedJson item_json(const Item& item, bool with_part) {
  OrderedJson out = {{"id", item.id}};
  OrderedJson parts = OrderedJson::array();
  if (with_part) parts.push_back(part_json(item.kind, item.text));
  switch (item.kind) {
    case ItemKind::kReasoning:
      out["type"] = "reasoning";
      out["summary"] = OrderedJson::array();
      out["content"] = std::move(parts);
      break;
    case ItemKind::kMessage:
      out["type"] = "message";
      out["role"] = "assistant";
      out["content"] = std::move(parts);
      break;
    case ItemKind::kCall:
      out["type"] = "function_call";
      out["call_id"] = item.call_id;
      out["name"] = item.name;
      out["arguments"] = item.text;
      break;
  }
  out["status"] = item.status;
  return out;
}

OrderedJson usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"thimble", thimble_usage_json(usage)}};
}

class ResponseWriter : public AnswerWriter {
 public:
  explicit ResponseWriter(ResponseFrame frame) : frame_(std::move(frame)) {}

  std::string begin() override {
    std::string out = response_event("response.created");
    return out + response_event("response.in_progress");
  }

  std::string part(const AnswerPart& part) override {
    std::string out = add_text(ItemKind::kReasoning, "rs_", part.text.reasoning);
    out += add_text(ItemKind::kMessage, "msg_", part.text.content);
    for (const CallPart& call : part.calls) out += add_call(call);
    return out;
  }

  // A limit cuts what was being written; what came before it is whole.
  std::string choice_end(uint32_t, AnswerEnd end) override {
    const bool cut = end == AnswerEnd::kLength;
    std::string out;
    if (items_.empty()) out = open({ItemKind::kMessage, random_id("msg_"), "in_progress", ""});
    out += close(cut ? "incomplete" : "completed");
    status_ = cut ? "incomplete" : "completed";
    if (cut) incomplete_ = {{"reason", "max_output_tokens"}};
    return out;
  }

  std::string end(const Usage& usage) override {
    usage_ = usage_json(usage);
    return response_event(std::string("response.") + status_);
  }

  std::string failure(const ApiError& error) override {
    for (Item& item : items_) {
      if (is_open(item)) item.status = "incomplete";
    }
    status_ = "failed";
    error_ = {{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
              {"message", error.message}};
    return response_event("response.failed");
  }

  // The same items as a stream has, whose events nobody hears.
  std::string whole(std::span<const WholeChoice> choices, const Usage& usage) override {
    CHECK_EQ(choices.size(), size_t{1});
    part(*choices.front().all);
    choice_end(0, choices.front().end);
    end(usage);
    return to_text(response());
  }

 private:
  std::string event(const std::string& type, OrderedJson fields) {
    OrderedJson out = {{"type", type}, {"sequence_number", events_++}};
    out.update(fields);
    return net::sse_event(type, to_text(out));
  }

  // Of the last item.
  std::string item_event(const std::string& type, OrderedJson fields) {
    OrderedJson place = {{"item_id", items_.back().id}, {"output_index", items_.size() - 1}};
    if (items_.back().kind != ItemKind::kCall) place["content_index"] = 0;
    place.update(fields);
    return event(type, std::move(place));
  }

  std::string whole_item_event(const char* type, bool with_part) {
    return event(
        type, {{"output_index", items_.size() - 1}, {"item", item_json(items_.back(), with_part)}});
  }

  std::string response_event(const std::string& type) {
    return event(type, {{"response", response()}});
  }

  OrderedJson response() const {
    OrderedJson output = OrderedJson::array();
    for (const Item& item : items_) output.push_back(item_json(item, true));
    OrderedJson out = {{"id", frame_.id},
                       {"object", "response"},
                       {"created_at", frame_.created},
                       {"status", status_},
                       {"error", error_},
                       {"incomplete_details", incomplete_},
                       {"model", frame_.model},
                       {"output", std::move(output)}};
    out.update(frame_.echo);
    out["usage"] = usage_;
    return out;
  }

  std::string open(Item item) {
    std::string out = close("completed");
    items_.push_back(std::move(item));
    out += whole_item_event("response.output_item.added", false);
    const ItemKind kind = items_.back().kind;
    if (kind == ItemKind::kCall) return out;
    return out + item_event("response.content_part.added", {{"part", part_json(kind, "")}});
  }

  std::string add_text(ItemKind kind, const char* prefix, const std::string& text) {
    if (text.empty()) return {};
    std::string out;
    if (items_.empty() || items_.back().kind != kind) {
      out = open({kind, random_id(prefix), "in_progress", ""});
    }
    return out + add(text);
  }

  std::string add_call(const CallPart& call) {
    std::string out;
    if (call.name) {
      out = open({ItemKind::kCall, random_id("fc_"), "in_progress", "", *call.name, call.id});
    }
    return call.arguments.empty() ? out : out + add(call.arguments);
  }

  std::string add(const std::string& text) {
    items_.back().text += text;
    OrderedJson fields = {{"delta", text}};
    if (items_.back().kind == ItemKind::kMessage) fields["logprobs"] = OrderedJson::array();
    return item_event(text_event() + ".delta", std::move(fields));
  }

  std::string close(const char* status) {
    if (items_.empty() || !is_open(items_.back())) return {};
    Item& item = items_.back();
    item.status = status;
    std::string out;
    if (item.kind == ItemKind::kCall) {
      out = item_event(text_event() + ".done", {{"name", item.name}, {"arguments", item.text}});
    } else {
      OrderedJson fields = {{"text", item.text}};
      if (item.kind == ItemKind::kMessage) fields["logprobs"] = OrderedJson::array();
      out = item_event(text_event() + ".done", std::move(fields));
      out += item_event("response.content_part.done", {{"part", part_json(item.kind, item.text)}});
    }
    return out + whole_item_event("response.output_item.done", true);
  }

  // What the last item's text is called in events.
  std::string text_event() const {
    switch (items_.back().kind) {
      case ItemKind::kReasoning:
        return "response.reasoning_text";
      case ItemKind::kMessage:
        return "response.output_text";
      case ItemKind::kCall:
        return "response.function_call_arguments";
    }
    return {};
  }

  const ResponseFrame frame_;
  uint64_t events_ = 0;
  std::vector<Item> items_;  // the last one may be open
  const char* status_ = "in_progress";
  OrderedJson error_;
  OrderedJson incomplete_;
  OrderedJson usage_;
};

}  // namespace

std::unique_ptr<AnswerWriter> make_response_writer(ResponseFrame frame) {
  return std::make_unique<ResponseWriter>(std::move(frame));
}

}  // namespace thimble::server
