#include "server/openai_answers.h"

#include <algorithm>
#include <cmath>

#include "server/internal/json.h"
#include "server/internal/logprobs.h"
#include "server/internal/usage.h"

namespace thimble::server {
namespace {

OrderedJson frame_json(const AnswerFrame& frame, const char* object) {
  return {{"id", frame.id},
          {"object", object},
          {"created", frame.created},
          {"model", frame.model},
          {"system_fingerprint", frame.fingerprint}};
}

OrderedJson usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", usage.prompt_tokens - usage.cached_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"thimble", thimble_usage_json(usage)}};
}

OrderedJson chunk_json(const AnswerFrame& frame) {
  return frame_json(frame,
                    frame.kind == AnswerKind::kChat ? "chat.completion.chunk" : "text_completion");
}

std::string chunk_text(const ChunkFrame& chunks, const OrderedJson& choice) {
  return chunks.head + to_text(choice) + chunks.tail;
}

OrderedJson logprobs_json(const AnswerFrame& frame, const AnswerPart& part,
                          const text::Tokenizer& tokenizer) {
  if (!part.logprobs) return nullptr;
  if (frame.kind == AnswerKind::kChat) return chat_logprobs(*part.logprobs, tokenizer);
  return completion_logprobs(*part.logprobs, tokenizer);
}

OrderedJson call_json(const CallPart& call) {
  return {{"id", call.id},
          {"type", "function"},
          {"function", {{"name", call.name.value_or("")}, {"arguments", call.arguments}}}};
}

OrderedJson call_delta(const CallPart& call) {
  if (!call.name) {
    return {{"index", call.index}, {"function", {{"arguments", call.arguments}}}};
  }
  OrderedJson out = {{"index", call.index}};
  out.update(call_json(call));
  return out;
}

// Whole calls, put together of their parts.
OrderedJson calls_json(const std::vector<CallPart>& parts) {
  std::vector<CallPart> calls;
  for (const CallPart& part : parts) {
    if (part.name) {
      calls.push_back(part);
    } else {
      calls.back().arguments += part.arguments;
    }
  }
  OrderedJson out = OrderedJson::array();
  for (const CallPart& call : calls) out.push_back(call_json(call));
  return out;
}

OrderedJson choice_json(const AnswerFrame& frame, const WholeChoice& whole,
                        const text::Tokenizer& tokenizer) {
  const AnswerPart& all = *whole.all;
  const bool chat = frame.kind == AnswerKind::kChat;
  OrderedJson choice = {{"index", all.choice}};
  if (chat) {
    OrderedJson message = {{"role", "assistant"}, {"content", all.text.content}};
    if (frame.with_reasoning) message["reasoning_content"] = all.text.reasoning;
    if (!all.calls.empty()) message["tool_calls"] = calls_json(all.calls);
    choice["message"] = std::move(message);
  } else {
    choice["text"] = all.text.content;
  }
  choice["logprobs"] = logprobs_json(frame, all, tokenizer);
  choice["finish_reason"] = finish_reason_name(whole.end);
  if (all.prompt_logprobs && !chat) {
    choice["prompt_logprobs"] = prompt_logprobs_json(*all.prompt_logprobs, tokenizer);
  }
  return choice;
}

// `reasoning_effort` as a request would send it to ask for what it gets anyway.
OrderedJson model_object(const ModelInfo& model, const PromptDefaults& defaults) {
  OrderedJson effort;
  if (model.chat_tokens) {
    effort = defaults.thinking ? OrderedJson(defaults.effort) : OrderedJson("none");
  }
  return {{"id", model.name},
          {"object", "model"},
          {"created", model.created},
          {"owned_by", "thimble"},
          {"max_model_len", model.context_tokens},
          {"thimble",
           {{"random_weights", model.random_weights},
            {"chat", model.chat_tokens.has_value()},
            {"reasoning_effort", std::move(effort)}}}};
}

}  // namespace

// OpenAI sends a usage of null too, so that clients know one is to come.
ChunkFrame::ChunkFrame(AnswerFrame common)
    : frame(std::move(common)), tail(frame.with_usage ? "],\"usage\":null}" : "]}") {
  head = to_text(chunk_json(frame));
  head.pop_back();  // its closing brace
  head += ",\"choices\":[";
}

const char* finish_reason_name(AnswerEnd end) {
  switch (end) {
    case AnswerEnd::kStop:
      return "stop";
    case AnswerEnd::kLength:
      return "length";
    case AnswerEnd::kCalls:
      return "tool_calls";
  }
  return "stop";
}

std::string part_chunk(const ChunkFrame& chunks, ChunkPlace place, const AnswerPart& part,
                       const text::Tokenizer& tokenizer) {
  const AnswerFrame& frame = chunks.frame;
  OrderedJson choice = {{"index", part.choice}};
  if (frame.kind == AnswerKind::kChat) {
    OrderedJson delta = OrderedJson::object();
    const bool first = place == ChunkPlace::kFirst;
    if (first) delta["role"] = "assistant";
    if (!part.text.reasoning.empty()) delta["reasoning_content"] = part.text.reasoning;
    if (first || !part.text.content.empty()) delta["content"] = part.text.content;
    for (const CallPart& call : part.calls) delta["tool_calls"].push_back(call_delta(call));
    choice["delta"] = std::move(delta);
  } else {
    choice["text"] = part.text.content;
  }
  choice["logprobs"] = logprobs_json(frame, part, tokenizer);
  choice["finish_reason"] = nullptr;
  return chunk_text(chunks, choice);
}

std::string finish_chunk(const ChunkFrame& chunks, AnswerEnd end, uint32_t index) {
  OrderedJson choice = {{"index", index}};
  if (chunks.frame.kind == AnswerKind::kChat) {
    choice["delta"] = OrderedJson::object();
  } else {
    choice["text"] = "";
  }
  choice["logprobs"] = nullptr;
  choice["finish_reason"] = finish_reason_name(end);
  return chunk_text(chunks, choice);
}

std::string usage_chunk(const AnswerFrame& frame, const Usage& usage) {
  OrderedJson out = chunk_json(frame);
  out["choices"] = OrderedJson::array();
  out["usage"] = usage_json(usage);
  return to_text(out);
}

std::string whole_answer(const AnswerFrame& frame, std::span<const WholeChoice> choices,
                         const Usage& usage, const text::Tokenizer& tokenizer) {
  const bool chat = frame.kind == AnswerKind::kChat;
  OrderedJson out = frame_json(frame, chat ? "chat.completion" : "text_completion");
  OrderedJson list = OrderedJson::array();
  for (const WholeChoice& whole : choices) list.push_back(choice_json(frame, whole, tokenizer));
  // vLLM's places: in a chat beside the choices, in a plain completion within each.
  const auto& prompt = choices.front().all->prompt_logprobs;
  if (prompt && chat) out["prompt_logprobs"] = prompt_logprobs_json(*prompt, tokenizer);
  out["choices"] = std::move(list);
  out["usage"] = usage_json(usage);
  return to_text(out);
}

std::string models_json(const ModelInfo& model, const PromptDefaults& defaults) {
  return to_text(
      {{"object", "list"}, {"data", OrderedJson::array({model_object(model, defaults)})}});
}

std::string model_json(const ModelInfo& model, const PromptDefaults& defaults) {
  return to_text(model_object(model, defaults));
}

}  // namespace thimble::server
