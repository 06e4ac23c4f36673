// The table for CPUs with AVX-512 F, BW, DQ and VL.
//
// The algorithms are included inside a target region, so that this file needs no compiler flags and
// the rest of the program runs on any x86-64. Two rules keep the instructions in: every header that
// defines functions of other namespaces comes before the region, and whatever is defined inside is
// always inlined or a template over the vector type, whose symbols no other file has.
#include "kernels/internal/table_entries.h"

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/isa/int_avx512.h"
#include "kernels/isa/simd_avx512.h"
#include "kernels/packed.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"

#if defined(__clang__)
#pragma clang attribute push(                                                    \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

#include "kernels/generic/table-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace thimble::kernels {

const Table* avx512_table() {
  const bool runs = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return runs ? &generic::kTableOf<avx512::Vec, avx512::Int> : nullptr;
}

}  // namespace thimble::kernels

#else

namespace thimble::kernels {

const Table* avx512_table() { return nullptr; }

}  // namespace thimble::kernels

#endif
