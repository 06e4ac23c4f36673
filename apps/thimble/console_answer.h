// One answer, streamed to a person or a pipe: the answer to standard output, reasoning dimmed to
// standard error.
//
// The calling thread prints and waits; the engine's thread only hands over text. Ctrl-C and SIGTERM
// end the answer where it is.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/request.h"
#include "engine/text_stream.h"

namespace thimble::app {

struct ConsoleAnswer {
  std::string reasoning;
  std::string content;
  std::vector<int32_t> sampled;  // as it was sampled, what has no text included
  engine::GenerationEnd end;
  int signal = 0;  // what interrupted it; 0: nothing
};

// An error of the engine, or of standard output. REQUIRES: the engine has a tokenizer.
Result<ConsoleAnswer> run_on_console(engine::Engine& engine, engine::GenerationRequest request,
                                     engine::TextStreamOptions options);

// "5 prompt tokens (4 cached) in 0.02 s, 40 generated in 0.61 s (65.6 a second), ended by the
// model"
std::string summary(const ConsoleAnswer& answer);

}  // namespace thimble::app
