#include <algorithm>
#include <array>
#include <atomic>

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

std::atomic<const Table*>& current() {
  static std::atomic<const Table*> table{choose_table(runnable(), base::env_isa())};
  return table;
}

const Table* find_in(std::span<const Table* const> tables, std::string_view name) {
  const auto found = std::ranges::find(tables, name, &Table::name);
  return found == tables.end() ? nullptr : *found;
}

}  // namespace

const Table* choose_table(std::span<const Table* const> tables,
                          const std::optional<std::string>& wanted) {
  const Table* const found = wanted ? find_in(tables, *wanted) : nullptr;
  return found != nullptr ? found : tables.front();
}

const Table* find_table(std::string_view name) { return find_in(runnable(), name); }

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
