#include "apps/thimble/bench/commands.h"

namespace thimble::app {

Command bench_command() {
  return {
      .name = "bench",
      .summary = "Measure this machine",
      .details = "Figures of one run are set against each other; those of two runs are not.",
      .examples = {{"thimble bench roofs", "what the machine can do at most"},
                   {"thimble bench kernels", "what our operations reach of it"}},
      .subcommands = {bench_roofs_command(), bench_kernels_command(), bench_layer_command(),
                      bench_context_command(), bench_generate_command(), bench_serve_command()}};
}

}  // namespace thimble::app
