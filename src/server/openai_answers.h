// The answers of the OpenAI-compatible API as JSON text: whole, or as the chunks of a stream.
//
// Rules that clients lean on (serving spec 13.3 and 13.4): id and created are the same through a
// stream; the role comes once, in the first chunk; every chunk with choices has an object for its
// delta; the last one has finish_reason; usage comes only when asked for. A call's first delta has
// its id and name, the others go on with its arguments. `content` is always a string, empty when
// the answer ended inside its reasoning. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "server/generator.h"
#include "server/prompt.h"
#include "text/tokenizer.h"

namespace thimble::server {

enum class AnswerKind { kChat, kCompletion };

// What all chunks of one answer have in common.
struct AnswerFrame {
  AnswerKind kind = AnswerKind::kChat;
  std::string id;
  int64_t created = 0;
  std::string model;
  std::string fingerprint;
  bool with_reasoning = false;  // chat: the message has a reasoning_content
  bool with_usage = false;      // stream: a usage chunk ends it
};

// The same as text, written once for all chunks of a stream: what stands before and after the
// choices.
struct ChunkFrame {
  explicit ChunkFrame(AnswerFrame common);
  AnswerFrame frame;
  std::string head;
  std::string tail;
};

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t reasoning_tokens = 0;
  uint64_t cached_tokens = 0;    // of the prompt: the hit, replayed ones included
  uint64_t replayed_tokens = 0;  // of those, ran again
  uint64_t computed_tokens = 0;  // rows of the prompt that ran
  bool exact = true;             // is every bit that of an uninterrupted run?
};

// A sampled token with its log-probabilities and the part of the answer it belongs to.
struct TokenRecord {
  engine::GeneratedToken token;
  bool reasoning = false;
  uint64_t text_offset = 0;  // index of the character that its bytes begin in
};

// A part of a call; the first of each has the name.
struct CallPart {
  uint32_t index = 0;
  std::string id;
  std::optional<std::string> name;
  std::string arguments;
};

// Text, calls and log-probabilities that go out together; the latter are empty unless asked for.
struct AnswerPart {
  uint32_t choice = 0;          // which of the answers it belongs to
  engine::TextDelta text;       // `calls` says what was called
  std::vector<CallPart> calls;  // in order
  std::optional<std::vector<TokenRecord>> logprobs;
  // Of a whole answer: those of the prompt from its second token on.
  std::optional<std::vector<engine::PromptToken>> prompt_logprobs;
};

// What an answer ended in. A limit that cuts a call is a limit.
enum class AnswerEnd { kStop, kLength, kCalls };

// OpenAI's finish_reason: "stop", "length", "tool_calls".
const char* finish_reason_name(AnswerEnd end);

// The part's text as one chunk; `first` is the stream's first (it names the role).
enum class ChunkPlace { kFirst, kLater };
std::string part_chunk(const ChunkFrame& chunks, ChunkPlace place, const AnswerPart& part,
                       const text::Tokenizer& tokenizer);
std::string finish_chunk(const ChunkFrame& chunks, AnswerEnd end, uint32_t choice);
std::string usage_chunk(const AnswerFrame& frame, const Usage& usage);

struct WholeChoice {
  const AnswerPart* all = nullptr;
  AnswerEnd end = AnswerEnd::kStop;
};
// REQUIRES: at least one choice.
std::string whole_answer(const AnswerFrame& frame, std::span<const WholeChoice> choices,
                         const Usage& usage, const text::Tokenizer& tokenizer);

// Where tokens stand in the text that is made of their bytes. A malformed part is one character
// there, U+FFFD (text/utf8.h). One object per answer; not thread-safe.
class TextOffsets {
 public:
  // Index of the character that shows the first of these bytes; without bytes, of the next one or
  // the one begun.
  uint64_t push(std::string_view bytes);

 private:
  uint64_t characters_ = 0;  // whole ones
  std::string begun_;        // the bytes of the one after them
};

std::string models_json(const ModelInfo& model, const PromptDefaults& defaults);
std::string model_json(const ModelInfo& model, const PromptDefaults& defaults);

}  // namespace thimble::server
