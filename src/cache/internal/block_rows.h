// The rows inside one block's bytes: emptied from a token on, and looked at.
//
// Index rows of 16 entries share bytes (two codes a byte, even entry low), so forgetting an entry
// is not a memset. Format: arch/cache_layout.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "arch/cache_layout.h"

namespace thimble::cache {

// Zeroes every entry of the block that is not complete after its first `tokens` tokens.
// block: [layout.block_bytes]; tokens: at most kBlockTokens.
void erase_entries(const arch::CacheLayout& layout, std::byte* block, uint64_t tokens);

// Is every such entry zero?
bool is_erased(const arch::CacheLayout& layout, const std::byte* block, uint64_t tokens);

// `to` becomes the first `tokens` tokens of `from`, and zeros.
void copy_entries(const arch::CacheLayout& layout, const std::byte* from, uint64_t tokens,
                  std::byte* to);

// Is this all zeros?
bool is_zero(const std::byte* bytes, uint64_t size);

}  // namespace thimble::cache
