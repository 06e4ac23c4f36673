// What an answer may say as calls of tools, as a Grammar over the markup that a CallParser reads,
// its markers included.
//
// Strings stand as they are, other values as JSON that fits their schema (text/json_schema.h says
// which schemas can be held to). Parameters come in the schema's order, those it requires always.
// One that `additionalProperties` alone allows comes at most once, under a name of up to 64
// characters beyond what it has in common with a listed one: a name must not come twice. A tool
// without a schema has no parameters. Stateless; any thread.
#pragma once

#include <span>

#include "base/result.h"
#include "text/chat_format.h"
#include "text/grammar.h"
#include "text/tools.h"

namespace thimble::text {

enum class CallCount { kOne, kOneOrMore };

// The block that `forced` has begun, up to its end: calls of these tools, or of the one it names.
// Errors are those of a tool's schema, with its name for a step. REQUIRES: names differ, and there
// is the one that `forced` names, or any.
Result<Grammar> compile_calls(std::span<const Tool> tools, const ForcedCall& forced,
                              CallCount count);

// A text of `form`, or else a block of calls from its two newlines on, whatever it says.
Grammar answer_or_calls(const Grammar& form);

}  // namespace thimble::text
