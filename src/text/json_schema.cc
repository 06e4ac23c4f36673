#include "text/json_schema.h"

#include "text/internal/schema_compiler.h"
#include "text/json_text.h"

namespace thimble::text {

Result<Grammar> compile_json_schema(std::string_view schema) {
  if (schema.size() > kSchemaBytesMax) {
    return base::fail(ErrorCode::kUnsupported, "the schema has {} bytes, at most {} are supported",
                      schema.size(), kSchemaBytesMax);
  }
  THIMBLE_TRY(python_json(schema));  // well-formed, and no deeper than kJsonTextDepthMax
  const SchemaJson json = SchemaJson::parse(schema, nullptr, false);
  if (json.is_discarded()) {  // a number beyond a double
    return base::fail(ErrorCode::kInvalidArgument, "the schema is not JSON that can be read");
  }
  return SchemaCompiler(json).run();
}

Grammar json_object_grammar() {
  GrammarBuilder builder;
  JsonRules rules(builder);
  const auto root = rules.any_object();
  rules.write_pending();
  return builder.build(root);
}

}  // namespace thimble::text
