// Small complete models to make from nothing, for `thimble init`, tests and first training runs.
#pragma once

#include <cstdint>

#include "arch/config.h"

namespace thimble::arch {

// A text model of about 15 MB in which every role occurs: window layers, two owners at ratio 2, one
// at ratio 1 that makes candidates, borrowers, re-indexers within the candidates, Engram on two
// layers. The two vocabulary sizes are the tokenizer's and its token map's.
Config nano_config(uint32_t vocab_size, uint32_t compressed_vocab_size);

}  // namespace thimble::arch
