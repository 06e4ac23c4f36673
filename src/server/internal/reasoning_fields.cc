// Reasoning has many spellings: DeepSeek's `thinking`, OpenAI's `reasoning_effort` and
// `reasoning.effort`, and what vLLM passes to the chat template. They are collected with their
// names, and must agree.
#include "server/internal/generation_fields.h"

namespace thimble::server {
namespace {

struct Said {
  std::string by;  // the field
  bool thinking = true;
};

class Collector {
 public:
  ApiResult<void> thinking(std::string by, bool on) {
    if (said_ && said_->thinking != on) {
      const std::string message = fmt::format("'{}' turns reasoning {} but '{}' turns it {}", by,
                                              on ? "on" : "off", said_->by, on ? "off" : "on");
      return bad_field(std::move(by), message);
    }
    said_ = Said{std::move(by), on};
    out_.thinking = on;
    return {};
  }

  // The first source that names an effort wins; the names are equal in what they may say.
  ApiResult<void> effort(const Fields& fields, const char* name) {
    const Json* value = fields.find(name);
    if (value == nullptr) return {};
    const std::string path = fields.path_of(name);
    const auto parsed = THIMBLE_TRY(parse(*value, path));
    THIMBLE_TRY(thinking(path, parsed.thinking));
    if (parsed.thinking && !out_.budget) out_.budget = parsed.budget;
    return {};
  }

  ReasoningFields& fields() { return out_; }

 private:
  static ApiResult<text::ReasoningEffort> parse(const Json& value, const std::string& path) {
    Result<text::ReasoningEffort> effort;
    if (value.is_string()) {
      effort = text::parse_effort(value.get_ref<const std::string&>());
    } else if (const auto number = as_integer(value)) {
      effort = text::effort_from_number(*number);
    } else {
      return bad_field(path,
                       fmt::format("'{}' must be a name or a whole number from 1 to 100", path));
    }
    if (!effort) return bad_field(path, fmt::format("'{}': {}", path, effort.error().describe()));
    return *effort;
  }

  ReasoningFields out_;
  std::optional<Said> said_;
};

ApiResult<void> read_thinking_object(const Fields& thinking, Collector& collector) {
  const auto type = THIMBLE_TRY(thinking.string("type"));
  const std::string path = thinking.path_of("type");
  if (type != "enabled" && type != "disabled") {
    return bad_field(path, fmt::format("'{}' must be 'enabled' or 'disabled'", path));
  }
  THIMBLE_TRY(collector.thinking(path, type == "enabled"));
  return collector.effort(thinking, "effort");
}

ApiResult<void> read_template_kwargs(const Fields& kwargs, Collector& collector) {
  for (const char* name : {"thinking", "enable_thinking"}) {
    if (const auto on = THIMBLE_TRY(kwargs.boolean(name))) {
      THIMBLE_TRY(collector.thinking(kwargs.path_of(name), *on));
    }
  }
  if (const auto drop = THIMBLE_TRY(kwargs.boolean("drop_thinking"))) {
    collector.fields().past = *drop ? text::PastReasoning::kDrop : text::PastReasoning::kKeep;
  }
  return collector.effort(kwargs, "reasoning_effort");
}

ApiResult<ReasoningFields> read_shared(const Fields& fields, Collector& collector) {
  if (const auto thinking = THIMBLE_TRY(fields.object("thinking"))) {
    THIMBLE_TRY(read_thinking_object(*thinking, collector));
  }
  THIMBLE_TRY(collector.effort(fields, "reasoning_effort"));
  if (const auto kwargs = THIMBLE_TRY(fields.object("chat_template_kwargs"))) {
    THIMBLE_TRY(read_template_kwargs(*kwargs, collector));
  }
  return collector.fields();
}

}  // namespace

ApiResult<ReasoningFields> read_reasoning_fields(const Fields& fields) {
  Collector collector;
  return read_shared(fields, collector);
}

ApiResult<ReasoningFields> read_responses_reasoning(const Fields& fields) {
  Collector collector;
  if (const auto reasoning = THIMBLE_TRY(fields.object("reasoning"))) {
    THIMBLE_TRY(collector.effort(*reasoning, "effort"));
  }
  return read_shared(fields, collector);
}

}  // namespace thimble::server
