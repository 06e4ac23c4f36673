// The function table each instruction set fills, and the choice among them.
//
// The entries are single-threaded pieces of the operations in ops.h; the files beside it cut the
// work and call them. The scalar table is the definition: every other table gives the same bits.
#pragma once

#include <span>
#include <string_view>

namespace thimble::kernels {

struct Table;  // kernels/internal/table_entries.h

// The table in use: THIMBLE_ISA if set and runnable, else the best this CPU runs.
const Table& kernels();

// Every table this CPU can run, best first, scalar last. Tests and benchmarks loop over it.
std::span<const Table* const> runnable();

const char* name(const Table& table);

// Of runnable(); null where this CPU runs none of that name.
const Table* find_table(std::string_view name);

// Replaces the table in use until the object goes: for tests and benchmarks, one thread at a time.
class ScopedTable {
 public:
  explicit ScopedTable(const Table& table);
  ~ScopedTable();
  ScopedTable(const ScopedTable&) = delete;
  ScopedTable& operator=(const ScopedTable&) = delete;

 private:
  const Table* previous_;
};

}  // namespace thimble::kernels
