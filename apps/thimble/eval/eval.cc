#include "apps/thimble/eval/commands.h"

namespace thimble::app {

Command eval_command() {
  return {.name = "eval",
          .summary = "Measure what an approximation costs",
          .details =
              "`resume` compares a model with itself and needs no data set; each evaluation "
              "says how to read its figures (docs/eval.md).",
          .examples = {{"thimble eval resume --model DIR", "cached prefixes against cold runs"}},
          .subcommands = {eval_resume_command(), eval_perplexity_command()}};
}

}  // namespace thimble::app
