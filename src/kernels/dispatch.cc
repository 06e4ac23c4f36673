#include <array>
#include <atomic>
#include <cstring>

#include "base/env.h"
#include "kernels/internal/table_entries.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

struct Runnable {
  std::array<const Table*, 4> tables{};
  size_t count = 0;

  Runnable() {
    for (const Table* table :
         {avx512_vnni_table(), avx512_table(), avx2::table(), scalar_table()}) {
      if (table != nullptr) tables[count++] = table;
    }
  }
};

const Table* choose() {
  const auto wanted = base::env_isa();
  if (wanted.has_value()) {
    for (const Table* table : runnable()) {
      if (*wanted == table->name) return table;
    }
  }
  return runnable().front();
}

std::atomic<const Table*>& current() {
  static std::atomic<const Table*> table{choose()};
  return table;
}

}  // namespace

std::span<const Table* const> runnable() {
  static const Runnable all;
  return {all.tables.data(), all.count};
}

const Table& kernels() { return *current().load(std::memory_order_relaxed); }

const char* name(const Table& table) { return table.name; }

ScopedTable::ScopedTable(const Table& table)
    : previous_(current().exchange(&table, std::memory_order_relaxed)) {}

ScopedTable::~ScopedTable() { current().store(previous_, std::memory_order_relaxed); }

}  // namespace thimble::kernels
