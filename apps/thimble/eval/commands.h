// The evaluations below `thimble eval`, one command each.
#pragma once

#include "apps/thimble/commands.h"

namespace thimble::app {

Command eval_resume_command();
Command eval_perplexity_command();

}  // namespace thimble::app
