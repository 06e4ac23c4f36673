#include "server/internal/logprobs.h"

#include <algorithm>

#include "text/utf8.h"

namespace thimble::server {
namespace {

// JSON has no infinity; OpenAI writes this for what cannot happen.
constexpr float kImpossible = -9999.0F;

double finite(float logprob) { return std::max(logprob, kImpossible); }

std::string_view bytes_of(int32_t token, const text::Tokenizer& tokenizer) {
  // A model's vocabulary may be larger than its tokenizer's.
  if (token < 0 || static_cast<uint32_t>(token) >= tokenizer.size()) return {};
  return tokenizer.token_bytes(token);
}

OrderedJson chat_entry(int32_t token, float logprob, const text::Tokenizer& tokenizer) {
  const std::string_view bytes = bytes_of(token, tokenizer);
  return {{"token", text::to_valid_utf8(bytes)},
          {"logprob", finite(logprob)},
          {"bytes", byte_list(bytes)}};
}

std::string completion_name(int32_t token, const text::Tokenizer& tokenizer) {
  const std::string_view bytes = bytes_of(token, tokenizer);
  if (text::is_valid_utf8(bytes)) return std::string(bytes);
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
  return name;
}

}  // namespace

uint64_t TextOffsets::push(std::string_view bytes) {
  const size_t before = begun_.size();
  begun_ += bytes;
  uint64_t offset = characters_;
  // Bytes that do not go on with the character make it a malformed one of its own.
  if (before > 0 && text::next_code_point(begun_).bytes == before && !bytes.empty()) ++offset;
  std::string_view rest = begun_;
  while (!rest.empty()) {
    const text::Utf8Step step = text::next_code_point(rest);
    if (step.incomplete) break;
    ++characters_;
    rest.remove_prefix(step.bytes);
  }
  begun_.erase(0, begun_.size() - rest.size());
  return offset;
}

OrderedJson chat_logprobs(const std::vector<TokenRecord>& records,
                          const text::Tokenizer& tokenizer) {
  OrderedJson content = OrderedJson::array();
  OrderedJson reasoning = OrderedJson::array();
  for (const TokenRecord& record : records) {
    OrderedJson entry = chat_entry(record.token.token, record.token.logprob, tokenizer);
    OrderedJson top = OrderedJson::array();
    for (const engine::TokenLogprob& other : record.token.top) {
      top.push_back(chat_entry(other.token, other.logprob, tokenizer));
    }
    entry["top_logprobs"] = std::move(top);
    (record.reasoning ? reasoning : content).push_back(std::move(entry));
  }
  OrderedJson out = {{"content", std::move(content)}};
  if (!reasoning.empty()) out["reasoning_content"] = std::move(reasoning);
  return out;
}

OrderedJson completion_logprobs(const std::vector<TokenRecord>& records,
                                const text::Tokenizer& tokenizer) {
  OrderedJson tokens = OrderedJson::array();
  OrderedJson logprobs = OrderedJson::array();
  OrderedJson tops = OrderedJson::array();
  OrderedJson offsets = OrderedJson::array();
  for (const TokenRecord& record : records) {
    tokens.push_back(completion_name(record.token.token, tokenizer));
    logprobs.push_back(finite(record.token.logprob));
    OrderedJson top = OrderedJson::object();
    for (const engine::TokenLogprob& other : record.token.top) {
      top[completion_name(other.token, tokenizer)] = finite(other.logprob);
    }
    // The sampled token is always among them, as the last where it was not likely enough.
    if (!record.token.top.empty()) top[tokens.back().get<std::string>()] = logprobs.back();
    tops.push_back(std::move(top));
    offsets.push_back(record.text_offset);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(tops)},
          {"text_offset", std::move(offsets)}};
}

OrderedJson prompt_logprobs_json(const std::vector<engine::PromptToken>& tokens,
                                 const text::Tokenizer& tokenizer) {
  OrderedJson out = OrderedJson::array({nullptr});
  for (const engine::PromptToken& of : tokens) {
    OrderedJson entry = OrderedJson::object();
    const auto add = [&](int32_t id, float logprob, uint64_t rank) {
      entry[std::to_string(id)] = {{"logprob", finite(logprob)},
                                   {"rank", rank},
                                   {"decoded_token", text::to_valid_utf8(bytes_of(id, tokenizer))}};
    };
    add(of.token, of.logprob, of.rank);
    for (size_t i = 0; i < of.top.size(); ++i) {
      if (of.top[i].token != of.token) add(of.top[i].token, of.top[i].logprob, i + 1);
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace thimble::server
