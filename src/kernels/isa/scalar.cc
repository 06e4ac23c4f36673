// The table in plain C++: runs everywhere and defines what the others compute.
#include "kernels/isa/int_scalar.h"
#include "kernels/isa/simd_scalar.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/generic/table-inl.h"
#include "kernels/internal/table_entries.h"

namespace thimble::kernels {

namespace {

// With levelled tiles, so that their algorithm is tested on CPUs without VNNI.
Table with_levels(Table table) {
  table.level_tile = scalar::Int::level_tile;
  table.score_level = generic::score_level<scalar::Vec, scalar::Int>;
  return table;
}

}  // namespace

const Table* scalar_table() {
  static const Table table = with_levels(generic::kTableOf<scalar::Vec, scalar::Int>);
  return &table;
}

}  // namespace thimble::kernels
