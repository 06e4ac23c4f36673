// Random weights in the released layout, for `thimble init` and tests: as large as keeps
// activations near one and every choice (expert, selection, gate) undecided.
//
// Every byte is a pure function of seed, tensor name and position, made of integers: the same on
// every machine, whatever order tensors are written in.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "arch/config.h"
#include "arch/weight_table.h"
#include "base/file.h"
#include "base/result.h"

namespace thimble::arch {

// Bytes of `tensor` from `offset` on. REQUIRES: `offset` is a multiple of the element size.
void fill_random(const ExpectedTensor& tensor, uint64_t seed, uint64_t offset,
                 std::span<std::byte> out);

// config.json and all tensors: model.safetensors, or shards of at most `shard_bytes` (larger only
// where one tensor is) behind an index. `on_bytes` is told of each piece written.
Result<void> write_random_checkpoint(const Config& config, const Path& directory, uint64_t seed,
                                     const std::function<void(uint64_t bytes)>& on_bytes,
                                     uint64_t shard_bytes = 5'000'000'000);

}  // namespace thimble::arch
