#include "apps/thimble/commands.h"
#include "base/log.h"

int main(int argc, char** argv) {
  thimble::base::init_log();
  return thimble::app::run_command_line(argc, argv,
                                        {
                                            thimble::app::inspect_command(),
                                            thimble::app::init_command(),
                                            thimble::app::logits_command(),
                                            thimble::app::generate_command(),
                                            thimble::app::chat_command(),
                                            thimble::app::serve_command(),
                                        });
}
