// What `usage` says in every dialect beyond OpenAI's counts: what ran of the prompt.
#pragma once

#include "server/internal/json.h"
#include "server/openai_answers.h"

namespace thimble::server {

inline OrderedJson thimble_usage_json(const Usage& usage) {
  return {{"replayed_tokens", usage.replayed_tokens},
          {"computed_tokens", usage.computed_tokens},
          {"exact", usage.exact}};
}

}  // namespace thimble::server
