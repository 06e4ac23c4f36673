#include "text/call_grammar.h"

#include <deque>
#include <utility>

#include "base/check.h"
#include "text/internal/call_markup.h"
#include "text/internal/schema_compiler.h"

namespace thimble::text {
namespace {

using At = GrammarBuilder::At;
using Rule = GrammarBuilder::Rule;

// A tool's parameters, up to the close of its call.
struct CallRule {
  std::string name;
  SchemaJson schema;
  std::optional<SchemaCompiler> compiler = {};
  Rule rule = 0;
};

// The block after the tag that opens it, or after the one that opens the first call.
Rule block_rule(GrammarBuilder& b, const std::deque<CallRule>& calls, const ForcedCall& forced,
                CallCount count) {
  const Rule root = b.declare();
  b.begin_rule(root);
  const At next = b.jump();
  std::vector<std::pair<std::string, At>> names;
  for (const CallRule& call : calls) {
    names.emplace_back(call.name + std::string(kCallOpened), b.call(call.rule, next));
  }
  const At first = names.front().second;
  const At any = b.literal(kCallOpen, b.literals(std::move(names)));
  const At close = b.literal(kBlockClose, b.leave());
  b.set_jump(next, count == CallCount::kOne ? close : b.split(close, b.literal(kBetween, any)));
  b.end_rule(forced.name.empty() ? any : first);
  return root;
}

}  // namespace

Result<Grammar> compile_calls(std::span<const Tool> tools, const ForcedCall& forced,
                              CallCount count) {
  GrammarBuilder builder;
  JsonRules rules(builder);
  std::deque<CallRule> calls;  // compilers point into it
  for (const Tool& tool : tools) {
    if (!forced.name.empty() && tool.name != forced.name) continue;
    SchemaJson schema = THIMBLE_TRY(base::in(read_schema(parameters_of(tool)), tool.name));
    calls.push_back({tool.name, std::move(schema)});
    CallRule& call = calls.back();
    call.compiler.emplace(call.schema, builder, rules);
    call.rule = THIMBLE_TRY(base::in(call.compiler->run(ValueForm::kParameters), tool.name));
  }
  CHECK(!calls.empty());
  const auto faults = rule_faults(builder);
  for (const CallRule& call : calls) THIMBLE_TRY(base::in(call.compiler->check(faults), call.name));
  const Rule root = block_rule(builder, calls, forced, count);
  if (!builder.is_full()) return builder.build(root);
  return base::fail(ErrorCode::kUnsupported,
                    "the tools are too many: more than 65,536 steps of their grammar");
}

Grammar answer_or_calls(const Grammar& form) {
  GrammarBuilder b;
  const Rule answer = b.add(form);
  const Rule block = b.declare();
  b.begin_rule(block);
  const At rest = b.jump();
  b.set_jump(rest, b.split(b.leave(), b.read({{0x00, 0xFF, rest}})));
  b.end_rule(b.literal(kBlockOpen.substr(0, kBlockOpen.size() - 1), rest));
  const Rule root = b.declare();
  b.begin_rule(root);
  b.end_rule(b.split(b.enter(answer), b.enter(block)));
  return b.build(root);
}

}  // namespace thimble::text
