#include "apps/thimble/bench/isa_flag.h"

#include <fmt/format.h>

#include "kernels/table.h"

namespace thimble::app {

Result<void> check_isa(const std::string& isa) {
  if (isa.empty() || kernels::find_table(isa) != nullptr) return {};
  std::string names;
  for (const kernels::Table* table : kernels::runnable()) {
    names += fmt::format(" {}", kernels::name(*table));
  }
  return base::fail(ErrorCode::kInvalidArgument, "--isa is {}; this CPU runs:{}", isa, names);
}

}  // namespace thimble::app
