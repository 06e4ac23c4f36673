// The subcommands of `thimble bench`, one file each.
#pragma once

#include "apps/thimble/commands.h"

namespace thimble::app {

Command bench_roofs_command();
Command bench_kernels_command();
Command bench_layer_command();
Command bench_context_command();
Command bench_generate_command();
Command bench_serve_command();

}  // namespace thimble::app
