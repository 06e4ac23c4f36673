#include "server/internal/generation_fields.h"

#include <charconv>
#include <limits>

namespace thimble::server {
namespace {

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kPriorityMax = 1000;

// {"TOKEN": BIAS}; whether the model has the token is for the prompt to say.
ApiResult<std::vector<engine::LogitBias>> read_logit_bias(const Fields& fields) {
  std::vector<engine::LogitBias> out;
  const auto object = THIMBLE_TRY(fields.object("logit_bias"));
  if (!object) return out;
  for (const auto& [key, value] : fields.find("logit_bias")->items()) {
    int32_t token = -1;
    const char* const end = key.data() + key.size();
    const auto [at, error] = std::from_chars(key.data(), end, token);
    if (error != std::errc() || at != end || token < 0) {
      return bad_field("logit_bias", "the keys of 'logit_bias' must be token ids");
    }
    const auto bias = THIMBLE_TRY(object->number(key, -100, 100));
    if (bias) out.push_back({token, static_cast<float>(*bias)});
  }
  return out;
}

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
  if (const auto v = THIMBLE_TRY(fields.number("presence_penalty", -2, 2))) {
    out.presence_penalty = static_cast<float>(*v);
  }
  if (const auto v = THIMBLE_TRY(fields.number("frequency_penalty", -2, 2))) {
    out.frequency_penalty = static_cast<float>(*v);
  }
  if (const auto v =
          THIMBLE_TRY(fields.number("repetition_penalty", 0, engine::kRepetitionPenaltyMax))) {
    out.repetition_penalty = static_cast<float>(*v);
    if (out.repetition_penalty <= 0) {
      return bad_field("repetition_penalty", "'repetition_penalty' must be above 0");
    }
  }
  out.logit_bias = THIMBLE_TRY(read_logit_bias(fields));
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

ApiResult<void> read_max_tokens(const Fields& fields, std::span<const char* const> names,
                                GenerationFields& out) {
  for (const char* name : names) {
    if (const auto v = THIMBLE_TRY(fields.integer(name, 1, kInt32Max))) {
      out.max_tokens = static_cast<uint32_t>(*v);
      out.max_tokens_name = name;
      return {};
    }
  }
  return {};
}

// Any 64 bits: clients write them with and without a sign, so -1 is 2^64 - 1.
ApiResult<std::optional<uint64_t>> read_seed(const Fields& fields) {
  const Json* seed = fields.find("seed");
  if (seed == nullptr) return std::nullopt;
  if (seed->is_number_unsigned()) return seed->get<uint64_t>();
  if (const auto number = as_integer(*seed)) return static_cast<uint64_t>(*number);
  return bad_field("seed",
                   fmt::format("'seed' must be a whole number from -2^63 to 2^64-1, not {}",
                               seed->is_number() ? seed->dump() : std::string(type_name(*seed))));
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

ApiResult<std::optional<engine::Replay>> read_replay(const Fields& fields) {
  const auto name = THIMBLE_TRY(fields.string("replay"));
  if (!name) return std::nullopt;
  const auto replay = engine::parse_replay(*name);
  if (!replay) return bad_field("replay", fmt::format("'replay': {}", replay.error().describe()));
  return *replay;
}

// All that says whose request it is, each under its name, so that no two tenants come out alike.
ApiResult<std::string> read_salt(const Fields& fields) {
  std::string salt;
  for (const char* name : {"cache_salt", "user_id", "user"}) {
    const auto value = THIMBLE_TRY(fields.string(name));
    if (!value || value->empty()) continue;
    if (value->size() > kCacheSaltBytesMax) {
      return bad_field(name, fmt::format("'{}' must have at most {} bytes, not {}", name,
                                         kCacheSaltBytesMax, value->size()));
    }
    salt += fmt::format("{} {} {};", name, value->size(), *value);
  }
  return salt;
}

// vLLM's field: a whole answer has a place for them, a stream has none.
ApiResult<std::optional<uint32_t>> read_prompt_logprobs(const Fields& fields, bool stream) {
  const auto asked = THIMBLE_TRY(fields.integer("prompt_logprobs", 0, kPromptLogprobsMax));
  if (!asked) return std::nullopt;
  if (stream) {
    return bad_field("prompt_logprobs",
                     "'prompt_logprobs' come with a whole answer only; send 'stream': false");
  }
  return static_cast<uint32_t>(*asked);
}

}  // namespace

ApiResult<GenerationFields> read_generation_fields(const Fields& fields,
                                                   std::span<const char* const> max_tokens_names) {
  GenerationFields out;
  out.model = THIMBLE_TRY(fields.string("model")).value_or("");
  out.sampling = THIMBLE_TRY(read_sampling(fields));
  out.seed = THIMBLE_TRY(read_seed(fields));
  THIMBLE_TRY(read_max_tokens(fields, max_tokens_names, out));
  out.stop = THIMBLE_TRY(read_stop(fields));
  const bool skip = THIMBLE_TRY(fields.boolean("skip_special_tokens")).value_or(true);
  out.control = skip ? engine::ControlTokens::kHide : engine::ControlTokens::kShow;
  out.ignore_eos = THIMBLE_TRY(fields.boolean("ignore_eos")).value_or(false);
  out.replay = THIMBLE_TRY(read_replay(fields));
  out.cache_salt = THIMBLE_TRY(read_salt(fields));
  out.reuse = THIMBLE_TRY(fields.boolean("cache_prompt")).value_or(true);
  // vLLM's order: the lowest first.
  out.priority = -static_cast<int32_t>(
      THIMBLE_TRY(fields.integer("priority", -kPriorityMax, kPriorityMax)).value_or(0));
  if (const auto ms = THIMBLE_TRY(fields.integer("deadline_ms", 1, kInt32Max))) {
    out.deadline_ms = static_cast<uint32_t>(*ms);
  }
  out.choices = static_cast<uint32_t>(THIMBLE_TRY(fields.integer("n", 1, kChoicesMax)).value_or(1));
  out.stream = THIMBLE_TRY(fields.boolean("stream")).value_or(false);
  if (const auto options = THIMBLE_TRY(fields.object("stream_options"))) {
    if (!out.stream) {
      return bad_field("stream_options", "'stream_options' is only for 'stream': true");
    }
    out.include_usage = THIMBLE_TRY(options->boolean("include_usage")).value_or(false);
  }
  out.prompt_logprobs = THIMBLE_TRY(read_prompt_logprobs(fields, out.stream));
  return out;
}

ApiResult<void> refuse_unsupported(const Fields& fields) {
  THIMBLE_TRY(refuse_number(fields, "min_tokens", 0));
  for (const char* name : {"stop_token_ids", "bad_words", "guided_json", "guided_regex",
                           "guided_choice", "guided_grammar", "grammar"}) {
    THIMBLE_TRY(refuse_unless_empty(fields, name));
  }
  return {};
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
