#include "server/internal/generation_fields.h"

#include <limits>

namespace thimble::server {
namespace {

constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

ApiResult<engine::SamplingParams> read_sampling(const Fields& fields) {
  engine::SamplingParams out;
  out.top_p = kDefaultTopP;
  if (const auto v = THIMBLE_TRY(fields.number("temperature", 0, 2))) {
    out.temperature = static_cast<float>(*v);
  }
  if (const auto v = THIMBLE_TRY(fields.number("top_p", 0, 1))) {
    out.top_p = static_cast<float>(*v);
    if (out.top_p <= 0) return bad_field("top_p", "'top_p' must be above 0");
  }
  // Some clients write "off" as -1.
  if (const auto v = THIMBLE_TRY(fields.integer("top_k", -1, kInt32Max))) {
    out.top_k = *v < 0 ? 0 : static_cast<uint32_t>(*v);
  }
  if (const auto v = THIMBLE_TRY(fields.number("min_p", 0, 1))) {
    out.min_p = static_cast<float>(*v);
  }
  return out;
}

ApiResult<std::vector<std::string>> read_stop(const Fields& fields) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return std::vector<std::string>{};
  const Json list = stop->is_string() ? Json::array({*stop}) : *stop;
  if (!list.is_array() || list.size() > kStopStringsMax) {
    return bad_field("stop", fmt::format("'stop' must be a string or an array of up to {} strings",
                                         kStopStringsMax));
  }
  std::vector<std::string> out;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string path = stop->is_string() ? "stop" : indexed("stop", i);
    if (!list[i].is_string()) {
      return bad_field(path,
                       fmt::format("'{}' must be a string, not {}", path, type_name(list[i])));
    }
    const auto& text = list[i].get_ref<const std::string&>();
    if (text.empty() || text.size() > kStopStringBytesMax) {
      return bad_field(path, fmt::format("'{}' must have 1 to {} bytes, not {}", path,
                                         kStopStringBytesMax, text.size()));
    }
    out.push_back(text);
  }
  return out;
}

ApiResult<std::optional<uint32_t>> read_max_tokens(const Fields& fields) {
  // OpenAI's newer name wins where a client sends both.
  for (const char* name : {"max_completion_tokens", "max_tokens"}) {
    if (const auto v = THIMBLE_TRY(fields.integer(name, 1, kInt32Max))) {
      return static_cast<uint32_t>(*v);
    }
  }
  return std::nullopt;
}

// `neutral` is the value that means "off" and may be sent.
ApiResult<void> refuse_number(const Fields& fields, const char* name, double neutral) {
  const auto value = THIMBLE_TRY(fields.number(name, -1e9, 1e9));
  if (!value || *value == neutral) return {};
  return not_yet(name,
                 fmt::format("'{}' is not supported yet; leave it out or send {}", name, neutral));
}

ApiResult<void> refuse_unless_empty(const Fields& fields, const char* name) {
  const Json* value = fields.find(name);
  if (value == nullptr || (value->is_structured() && value->empty())) return {};
  return not_yet(name, fmt::format("'{}' is not supported yet", name));
}

}  // namespace

ApiResult<GenerationFields> read_generation_fields(const Fields& fields) {
  GenerationFields out;
  out.model = THIMBLE_TRY(fields.string("model")).value_or("");
  out.sampling = THIMBLE_TRY(read_sampling(fields));
  if (const auto v = THIMBLE_TRY(fields.integer("seed", kInt64Min, kInt64Max))) {
    out.seed = static_cast<uint64_t>(*v);
  }
  out.max_tokens = THIMBLE_TRY(read_max_tokens(fields));
  out.stop = THIMBLE_TRY(read_stop(fields));
  out.ignore_eos = THIMBLE_TRY(fields.boolean("ignore_eos")).value_or(false);
  out.stream = THIMBLE_TRY(fields.boolean("stream")).value_or(false);
  if (const auto options = THIMBLE_TRY(fields.object("stream_options"))) {
    if (!out.stream) {
      return bad_field("stream_options", "'stream_options' is only for 'stream': true");
    }
    out.include_usage = THIMBLE_TRY(options->boolean("include_usage")).value_or(false);
  }
  return out;
}

ApiResult<void> refuse_unsupported(const Fields& fields) {
  THIMBLE_TRY(refuse_number(fields, "n", 1));
  THIMBLE_TRY(refuse_number(fields, "presence_penalty", 0));
  THIMBLE_TRY(refuse_number(fields, "frequency_penalty", 0));
  THIMBLE_TRY(refuse_number(fields, "repetition_penalty", 1));
  THIMBLE_TRY(refuse_number(fields, "min_tokens", 0));
  THIMBLE_TRY(refuse_number(fields, "prompt_logprobs", 0));
  for (const char* name : {"logit_bias", "stop_token_ids", "bad_words", "guided_json",
                           "guided_regex", "guided_choice", "guided_grammar", "grammar"}) {
    THIMBLE_TRY(refuse_unless_empty(fields, name));
  }
  const auto format = THIMBLE_TRY(fields.object("response_format"));
  if (!format) return {};
  const auto type = THIMBLE_TRY(format->string("type"));
  if (type == "text") return {};
  return not_yet("response_format",
                 fmt::format("'response_format' of type '{}' is not supported yet; only 'text' is",
                             type.value_or("")));
}

ApiResult<std::vector<int32_t>> read_token_ids(const Json& array, const std::string& path) {
  std::vector<int32_t> out;
  out.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const std::optional<int64_t> id = as_integer(array[i]);
    if (!id || *id < 0 || *id > kInt32Max) {
      return bad_field(indexed(path, i), fmt::format("'{}' must be a token id", indexed(path, i)));
    }
    out.push_back(static_cast<int32_t>(*id));
  }
  return out;
}

}  // namespace thimble::server
