// The table for CPUs with AVX-512 VNNI besides F, BW, DQ and VL: that of avx512.cc but for the
// integer products, which are all that this file compiles for VNNI.
//
// See avx512.cc for the rules of target regions.
#include "kernels/internal/table_entries.h"

#if defined(__x86_64__)

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/isa/int_avx512_vnni.h"
#include "kernels/isa/simd_avx512.h"
#include "kernels/packed.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"

#if defined(__clang__)
#pragma clang attribute push(                                                               \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#endif

#include "kernels/generic/index-inl.h"
#include "kernels/generic/packed-inl.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

namespace thimble::kernels {
namespace {

Table vnni_table(const Table& avx512) {
  Table table = avx512;
  table.name = avx512::IntVnni::kName;
  table.packed_fp4 = generic::packed_fp4<avx512::Vec, avx512::IntVnni>;
  table.score_tile_int8 = generic::score_tile_int8<avx512::Vec, avx512::IntVnni>;
  table.level_tile = avx512::IntVnni::level_tile;
  table.score_level = generic::score_level<avx512::Vec, avx512::IntVnni>;
  return table;
}

}  // namespace

const Table* avx512_vnni_table() {
  if (avx512_table() == nullptr || !__builtin_cpu_supports("avx512vnni")) return nullptr;
  static const Table table = vnni_table(*avx512_table());
  return &table;
}

}  // namespace thimble::kernels

#else

namespace thimble::kernels {

const Table* avx512_vnni_table() { return nullptr; }

}  // namespace thimble::kernels

#endif
