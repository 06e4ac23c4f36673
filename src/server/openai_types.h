// The requests of the OpenAI-compatible API as values, read from JSON and validated.
//
// Everything that can be judged without the model is judged here, so that what leaves this file
// is a request that may only fail for its length. Fields that would change the answer but that
// thimble cannot honour yet are refused by name; unknown fields are ignored. Values; any thread.
// Sources: serving spec 13.2, chat-format spec 4 and 10.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "server/errors.h"
#include "text/chat_format.h"
#include "text/grammar.h"
#include "text/tokenizer.h"
#include "text/tools.h"

namespace thimble::server {

inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopStringBytesMax = 4096;
inline constexpr size_t kCacheSaltBytesMax = 1024;  // of each field that names a tenant
inline constexpr uint32_t kChoicesMax = 128;
inline constexpr size_t kToolsMax = 128;
inline constexpr uint32_t kChatTopLogprobsMax = 20;
inline constexpr uint32_t kCompletionLogprobsMax = 5;
inline constexpr uint32_t kPromptLogprobsMax = 20;
inline constexpr float kDefaultTopP = 0.95F;

// What `response_format` asks for, if that is not any text.
struct AnswerFormat {
  enum class Kind { kObject, kSchema };
  Kind kind = Kind::kObject;
  std::shared_ptr<const text::Grammar> grammar;
  std::string schema;  // as a prompt shows it
};

// What both kinds of generation share.
struct GenerationFields {
  std::string model;  // empty: not named
  engine::SamplingParams sampling;
  std::optional<uint64_t> seed;                // empty: any
  std::optional<uint32_t> max_tokens;          // empty: as many as fit, up to the server's default
  std::string max_tokens_name = "max_tokens";  // the field that said so
  std::vector<std::string> stop;
  std::optional<uint32_t> top_logprobs;     // empty: none; else so many alternatives a token
  std::optional<uint32_t> prompt_logprobs;  // the same of the prompt's tokens
  engine::ControlTokens control = engine::ControlTokens::kHide;
  bool ignore_eos = false;               // never end by itself; for measurements
  std::optional<AnswerFormat> format;    // empty: any text
  std::optional<engine::Replay> replay;  // empty: the server's default
  std::string cache_salt;                // tenant: cached prefixes are shared within one alone
  bool reuse = true;                     // may the prompt begin with what is cached?
  int32_t priority = 0;                  // higher ones run first
  std::optional<uint32_t> deadline_ms;   // from now; then the request ends with an error
  uint32_t choices = 1;                  // answers to give
  bool stream = false;
  bool include_usage = false;  // a usage chunk at the end of the stream
};

// What a request says about reasoning; empty: nothing, the server's default holds.
struct ReasoningFields {
  std::optional<bool> thinking;
  std::optional<int32_t> budget;  // 1 .. 100
  text::PastReasoning past = text::PastReasoning::kByEncoding;
};

struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired };
  Kind kind = Kind::kAuto;
  std::string name;  // kRequired: of this function; empty: of any
};

struct ToolFields {
  std::vector<text::Tool> tools;
  ToolChoice choice;
  bool parallel = true;                                // may one answer have several calls?
  std::shared_ptr<const text::Grammar> demanded = {};  // with kRequired: what the answer has to be
};

struct ChatRequest {
  GenerationFields common;
  std::string field = "messages";  // what holds the conversation
  std::vector<text::ChatMessage> messages;
  std::vector<std::string> sources = {};  // where each is in the request; empty: "messages[i]"
  ReasoningFields reasoning;
  text::PromptEnding ending;
  ToolFields tools;
};

struct CompletionRequest {
  GenerationFields common;
  std::variant<std::string, std::vector<int32_t>> prompt;  // text, or ids to take as they are
};

struct TokenizeRequest {
  std::string text;
  text::AddedTokens added = text::AddedTokens::kMatch;
  bool add_special = false;         // BOS in front
  std::optional<ChatRequest> chat;  // instead of text: the prompt these messages make
  bool with_strings = false;        // vLLM's: each token's text beside the tokens,
  bool with_pieces = false;         // llama.cpp's: within
};

ApiResult<ChatRequest> parse_chat_request(std::string_view body);
ApiResult<CompletionRequest> parse_completion_request(std::string_view body);
ApiResult<TokenizeRequest> parse_tokenize_request(std::string_view body);
ApiResult<std::vector<int32_t>> parse_detokenize_request(std::string_view body);

}  // namespace thimble::server
