// The table in plain C++: runs everywhere and defines what the others compute.
#include "kernels/isa/int_scalar.h"
#include "kernels/isa/simd_scalar.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/generic/table-inl.h"
#include "kernels/internal/table_entries.h"

namespace thimble::kernels {

const Table* scalar_table() { return &generic::kTableOf<scalar::Vec, scalar::Int>; }

}  // namespace thimble::kernels
