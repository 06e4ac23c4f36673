// From a validated request to token ids that fit the model.
//
// The only place where requests meet the tokenizer, the chat format and the context's length.
// Stateless; any thread. Sources: chat-format spec 3 to 5 and 10.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/request.h"
#include "engine/text_stream.h"
#include "server/chat_tokens.h"
#include "server/errors.h"
#include "server/generator.h"
#include "server/openai_types.h"
#include "server/turn_memory.h"
#include "text/chat_format.h"

namespace thimble::server {

// What holds for requests that do not say.
struct PromptDefaults {
  bool thinking = true;
  int32_t effort = 75;  // "high"
  text::ChatEncoding encoding = text::ChatEncoding::kRecipe;
  uint32_t answer_tokens = 8192;     // without reasoning
  uint32_t thinking_tokens = 65536;  // with it
  engine::Replay replay = engine::Replay::kAuto;
};

struct Prompt {
  std::vector<int32_t> ids;
  bool starts_in_reasoning = false;            // it ends in <think>
  std::optional<int32_t> think_close;          // set for chat: the id that ends reasoning
  std::string field = "prompt";                // of the request: what errors about the prompt name
  std::vector<uint64_t> snapshot_points = {};  // lengths at which later requests will resume
  std::optional<OpenTurn> open_turn = {};      // chat: what the answer continues
  // Chat, with a tokenizer that has the marker: how calls are taken from the answer.
  std::optional<int32_t> dsml = {};
  engine::Calls calls = engine::Calls::kDrop;
  uint32_t calls_max = UINT32_MAX;
  std::string forced = {};  // the beginning of a block of calls that the prompt ends in
  // What the answer has to be a text of, and the field that asked for it; null: any text.
  std::shared_ptr<const text::Grammar> form = {};
  std::string form_field = {};
};

// Turns that `turns` knows are tokenised as they were sampled.
ApiResult<Prompt> chat_prompt(const ChatRequest& request, const ModelInfo& model,
                              const PromptDefaults& defaults, TurnMemory& turns);

// Text gets BOS in front unless it begins with it; ids are taken as they are.
ApiResult<Prompt> completion_prompt(const CompletionRequest& request, const ModelInfo& model);

// Clamps a default number of tokens to the context. A prompt that leaves no room for an answer, and
// an explicit number that does not fit, are a 400 with code context_length_exceeded that names the
// field at fault.
ApiResult<engine::GenerationRequest> generation_request(const Prompt& prompt,
                                                        const GenerationFields& fields,
                                                        const ModelInfo& model,
                                                        const PromptDefaults& defaults);

// The same request once for each choice. The first is as it would be alone; the others have seeds
// that follow from its seed, so that the same request gives the same choices.
std::vector<engine::GenerationRequest> choices_of(engine::GenerationRequest request,
                                                  uint32_t choices);

}  // namespace thimble::server
