#include "apps/thimble/commands.h"
#include "base/log.h"

int main(int argc, char** argv) {
  using namespace thimble;
  base::init_log();
  return app::run_command_line(argc, argv,
                               {
                                   app::inspect_command(),
                                   app::init_command(),
                                   app::logits_command(),
                               });
}
