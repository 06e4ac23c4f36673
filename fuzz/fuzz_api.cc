// Bodies of API requests from strangers, each as every request that it could be.
//
// Whatever the bytes are, each parser gives a request or a 4xx error in valid UTF-8. What it gives
// makes a prompt or such an error, and the prompt a generation that the engine would admit: ids in
// the vocabulary, within the context, sampling in range. A form never leaves the model without a
// token, and demanded calls are such as are read again.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"
#include "engine/sampler.h"
#include "server/internal/response_request.h"
#include "server/prompt.h"
#include "text/byte_tokenizer.h"
#include "text/call_parser.h"
#include "text/utf8.h"

namespace thimble::server {
namespace {

constexpr uint64_t kContextTokens = 2000;
constexpr int kStepsMax = 80;

const text::Tokenizer& tokenizer() {
  static const auto made = *text::Tokenizer::parse(text::make_byte_tokenizer_json());
  return made;
}

const ModelInfo& model() {
  static const ModelInfo made = [] {
    ModelInfo info = make_model_info("m", kContextTokens, tokenizer());
    info.texts = text::own_encoding_texts();
    return info;
  }();
  return made;
}

void check_error(const ApiError& error) {
  CHECK(error.status >= 400 && error.status < 500);
  CHECK(!error.message.empty());
  const std::string text = error_json(error);
  CHECK(text::is_valid_utf8(text));
  CHECK(nlohmann::json::parse(text).at("error").is_object());
}

// The value; null where it is an error that a client may see.
template <class T>
const T* value_of(const ApiResult<T>& result) {
  if (result) return &*result;
  check_error(result.error());
  return nullptr;
}

void check_ids(const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) CHECK(id >= 0 && static_cast<uint32_t>(id) < tokenizer().size());
}

// Any token that may come; -1: none.
int32_t pick(const std::vector<uint64_t>& bits, base::SplitMix64& random) {
  std::vector<int32_t> tokens;
  for (size_t id = 0; id < bits.size() * 64; ++id) {
    if (((bits[id / 64] >> (id % 64)) & 1) != 0) tokens.push_back(static_cast<int32_t>(id));
  }
  return tokens.empty() ? -1 : tokens[random.below(tokens.size())];
}

void check_form(const engine::AnswerForm& form, const std::string& forced) {
  base::SplitMix64 random(1);
  text::GrammarState state = form.masker->grammar().begin();
  text::CallParser parser;
  text::CallText out;
  parser.push(forced, out);
  std::vector<uint64_t> bits;
  for (int step = 0; step < kStepsMax; ++step) {
    form.masker->allowed(state, bits);
    const int32_t token = pick(bits, random);
    CHECK(token >= 0 || text::Grammar::is_complete(state));
    if (token < 0) break;
    CHECK(form.masker->accept(state, token));
    parser.push(form.masker->trie().bytes_of(token), out);
    CHECK(forced.empty() || (!parser.broken() && out.prose.empty()));
  }
}

void check_generation(const Prompt& prompt, const GenerationFields& fields) {
  CHECK(!prompt.ids.empty());
  check_ids(prompt.ids);
  const auto made = generation_request(prompt, fields, model(), {});
  const auto* request = value_of(made);
  if (request == nullptr) return;
  CHECK(request->max_tokens > 0);
  CHECK_LE(request->prompt.size() + request->max_tokens, kContextTokens);
  CHECK(engine::validate(request->sampling).has_value());
  CHECK(fields.choices > 0 && fields.choices <= kChoicesMax);
  if (request->form) check_form(*request->form, prompt.forced);
}

void check_chat(const ChatRequest& request) {
  TurnMemory turns(1 << 16);
  const auto prompt = chat_prompt(request, model(), {}, turns);
  if (const auto* made = value_of(prompt)) check_generation(*made, request.common);
}

void run(std::string_view body) {
  const auto chat = parse_chat_request(body);
  if (const auto* request = value_of(chat)) check_chat(*request);
  const auto response = parse_response_request(body);
  if (const auto* request = value_of(response)) {
    CHECK(request->echo.is_object());
    check_chat(request->chat);
  }
  const auto completion = parse_completion_request(body);
  if (const auto* request = value_of(completion)) {
    const auto prompt = completion_prompt(*request, model());
    if (const auto* made = value_of(prompt)) check_generation(*made, request->common);
  }
  const auto tokenize = parse_tokenize_request(body);
  if (const auto* request = value_of(tokenize)) {
    if (request->chat) {
      check_chat(*request->chat);
    } else {
      check_ids(tokenizer().encode(request->text, request->added));
    }
  }
  const auto detokenize = parse_detokenize_request(body);
  if (const auto* ids = value_of(detokenize)) {
    const auto text = tokenizer().decode(*ids);
    CHECK(!text || text::is_valid_utf8(text::to_valid_utf8(*text)));
  }
}

}  // namespace
}  // namespace thimble::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thimble::server::run({reinterpret_cast<const char*>(data), size});
  return 0;
}
