#include "text/json_schema.h"

#include "text/internal/schema_compiler.h"

namespace thimble::text {

Result<Grammar> compile_json_schema(std::string_view schema) {
  const SchemaJson json = THIMBLE_TRY(read_schema(schema));
  GrammarBuilder builder;
  JsonRules rules(builder);
  SchemaCompiler compiler(json, builder, rules);
  const auto root = THIMBLE_TRY(compiler.run(ValueForm::kJson));
  THIMBLE_TRY(compiler.check(rule_faults(builder)));
  return builder.build(root);
}

Grammar json_object_grammar() {
  GrammarBuilder builder;
  JsonRules rules(builder);
  const auto root = rules.any_object();
  rules.write_pending();
  return builder.build(root);
}

}  // namespace thimble::text
