// The table for CPUs with AVX2, FMA and F16C.
//
// See avx512.cc for the rules of target regions.
#include "kernels/internal/table_entries.h"
#include "kernels/isa/tiles.h"

#if defined(__x86_64__)

#include <cpuid.h>

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

namespace thimble::kernels::THIMBLE_AVX2 {

namespace {

// Clang 14 does not know the name in __builtin_cpu_supports().
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

}  // namespace

const Table* table() {
  const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  return runs ? &generic::kTableOf<Vec, Int> : nullptr;
}

}  // namespace thimble::kernels::THIMBLE_AVX2

#else

namespace thimble::kernels::THIMBLE_AVX2 {

const Table* table() { return nullptr; }

}  // namespace thimble::kernels::THIMBLE_AVX2

#endif
