#include "apps/thimble/commands.h"
#include "base/env.h"
#include "base/log.h"
#include "kernels/table.h"

namespace {

// A forced instruction set that this CPU does not run would otherwise go unnoticed.
void warn_of_unknown_isa() {
  const auto wanted = thimble::base::env_isa();
  if (!wanted || thimble::kernels::find_table(*wanted) != nullptr) return;
  thimble::base::log_warn(
      "instruction set not runnable here",
      {{"THIMBLE_ISA", *wanted}, {"using", thimble::kernels::name(thimble::kernels::kernels())}});
}

}  // namespace

int main(int argc, char** argv) {
  thimble::base::init_log();
  warn_of_unknown_isa();
  return thimble::app::run_command_line(argc, argv,
                                        {
                                            thimble::app::inspect_command(),
                                            thimble::app::init_command(),
                                            thimble::app::logits_command(),
                                            thimble::app::generate_command(),
                                            thimble::app::chat_command(),
                                            thimble::app::serve_command(),
                                            thimble::app::plan_command(),
                                            thimble::app::bench_command(),
                                            thimble::app::eval_command(),
                                            thimble::app::train_command(),
                                            thimble::app::tokenizer_command(),
                                        });
}
