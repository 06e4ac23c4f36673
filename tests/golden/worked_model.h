// The worked tiny model of docs/model.md ("worked model"): every weight is a hash of its name, so
// that anyone can remake it in any language. Written as a checkpoint, so that the loader is part of
// the test.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace thimble::golden {

// Writes config.json and model.safetensors into `directory`.
void write_worked_model(const Path& directory);

// The 15 prompt ids.
std::vector<int32_t> worked_prompt();

// One hashed word: element `i` of the tensor called `name`.
uint64_t worked_word(std::string_view name, uint64_t i);

}  // namespace thimble::golden
