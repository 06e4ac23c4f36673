#include "engine/internal/admission.h"

#include <optional>
#include <span>

#include "engine/sampler.h"

namespace thimble::engine {
namespace {

Result<void> check_ids(const char* field, std::span<const int32_t> ids, uint32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && static_cast<uint32_t>(ids[i]) < vocab_size) continue;
    return base::fail(ErrorCode::kInvalidArgument,
                      "{}[{}] is token {}, expected 0 to {} (the model's vocabulary)", field, i,
                      ids[i], vocab_size - 1);
  }
  return {};
}

Result<void> check_alternatives(const char* field, const std::optional<uint32_t>& asked) {
  if (asked.value_or(0) <= kTopLogprobsMax) return {};
  return base::fail(ErrorCode::kInvalidArgument, "{} is {}, expected at most {}", field, *asked,
                    kTopLogprobsMax);
}

Result<void> check_form(const AnswerForm& form, uint32_t vocab_size) {
  if (form.masker == nullptr) {
    return base::fail(ErrorCode::kInvalidArgument, "form has no masker, expected one");
  }
  if (form.begins_after) {
    THIMBLE_TRY(check_ids("form.begins_after", {&*form.begins_after, 1}, vocab_size));
  }
  return check_ids("form.barred_before", form.barred_before, vocab_size);
}

}  // namespace

Result<void> admit(const GenerationRequest& request, const AdmissionLimits& limits) {
  if (request.prompt.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "the prompt is empty, expected a token or more");
  }
  if (request.max_tokens == 0) {
    return base::fail(ErrorCode::kInvalidArgument, "max_tokens is 0, expected 1 or more");
  }
  const uint64_t wanted = uint64_t{request.prompt.size()} + request.max_tokens;
  if (wanted > limits.context_tokens) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "prompt ({} tokens) and max_tokens ({}) make {}, the context holds {}",
                      request.prompt.size(), request.max_tokens, wanted, limits.context_tokens);
  }
  THIMBLE_TRY(check_alternatives("top_logprobs", request.top_logprobs));
  THIMBLE_TRY(check_alternatives("prompt_logprobs", request.prompt_logprobs));
  THIMBLE_TRY(check_ids("prompt", request.prompt, limits.vocab_size));
  THIMBLE_TRY(check_ids("stop_tokens", request.stop_tokens, limits.vocab_size));
  THIMBLE_TRY(check_ids("masked_tokens", request.masked_tokens, limits.vocab_size));
  if (request.form) THIMBLE_TRY(check_form(*request.form, limits.vocab_size));
  return validate(request.sampling);
}

}  // namespace thimble::engine
