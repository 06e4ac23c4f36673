// The AVX2 table once more, with the tiles of AVX-512: so their algorithms are tested on CPUs that
// have none of it. For tests; see isa/avx2.cc for the rules of target regions.
#define THIMBLE_WIDE_TILES

#include "kernels/internal/table_entries.h"
#include "kernels/internal/test_support.h"

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/isa/int_avx2.h"
#include "kernels/isa/simd_avx2.h"
#include "kernels/packed.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "kernels/generic/table-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace thimble::kernels::test {

const Table* wide_tiles_table() {
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return runs ? &generic::kTableOf<avx2_wide_tiles::Vec, avx2_wide_tiles::Int> : nullptr;
}

}  // namespace thimble::kernels::test

#else

namespace thimble::kernels::test {

const Table* wide_tiles_table() { return nullptr; }

}  // namespace thimble::kernels::test

#endif
