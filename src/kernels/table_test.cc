// Aim: the choice among tables, and the workspace's promise to stop allocating.
// Method: every table of this CPU is complete and named; the choice on two made-up tables, and in
// processes of their own, each with another THIMBLE_ISA; the scope restores; marks give memory back
// in order; a step repeated does not grow the workspace, however it is cut.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/env.h"
#include "kernels/internal/test_support.h"

namespace thimble::kernels {
namespace {

TEST(Tables, CompleteNamedScalarLast) {
  ASSERT_FALSE(runnable().empty());
  EXPECT_STREQ(name(*runnable().back()), "scalar");
  for (const Table* table : runnable()) {
    // Every entry is a pointer: none may be null, but for two that a table may be without.
    Table filled = *table;
    EXPECT_EQ(filled.level_tile == nullptr, filled.score_level == nullptr) << name(*table);
    if (filled.level_tile == nullptr) filled.level_tile = runnable().back()->level_tile;
    if (filled.score_level == nullptr) filled.score_level = runnable().back()->score_level;
    const void* entries[sizeof(Table) / sizeof(void*)];
    static_assert(sizeof(entries) == sizeof(Table));
    std::memcpy(entries, &filled, sizeof(Table));
    for (const void* entry : entries) EXPECT_NE(entry, nullptr) << name(*table);
  }
}

TEST(Tables, TheWantedOneElseTheFirst) {
  Table best{}, plain{};
  best.name = "best";
  plain.name = "plain";
  const Table* const both[] = {&best, &plain};
  EXPECT_EQ(choose_table(both, std::nullopt), &best);
  EXPECT_EQ(choose_table(both, "best"), &best);
  EXPECT_EQ(choose_table(both, "plain"), &plain);
  EXPECT_EQ(choose_table(both, "pla"), &best);
  for (const Table* table : runnable()) EXPECT_EQ(find_table(name(*table)), table);
  EXPECT_EQ(find_table("best"), nullptr);
}

// kernels() chooses once a process: each name has one of its own.
TEST(TablesDeathTest, TheEnvironmentChooses) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // started anew, not forked
  const auto before = base::env_isa();
  const auto expect = [](const char* wanted, const Table* table) {
    ::setenv("THIMBLE_ISA", wanted, 1);  // NOLINT(concurrency-mt-unsafe)
    EXPECT_EXIT(std::_Exit(&kernels() == table ? 0 : 1), testing::ExitedWithCode(0), "") << wanted;
  };
  for (const Table* table : runnable()) expect(name(*table), table);
  expect("", runnable().front());
  expect("unheard-of", runnable().front());
  if (before) {
    ::setenv("THIMBLE_ISA", before->c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  } else {
    ::unsetenv("THIMBLE_ISA");  // NOLINT(concurrency-mt-unsafe)
  }
}

TEST(Tables, ScopeReplacesAndRestores) {
  const Table& before = kernels();
  {
    const ScopedTable scope(*runnable().back());
    EXPECT_STREQ(name(kernels()), "scalar");
  }
  EXPECT_EQ(&kernels(), &before);
}

TEST(Workspace, AlignedDisjointAndGivenBack) {
  Workspace workspace;
  const Workspace::Mark outer(workspace);
  const auto a = workspace.take<float>(3);
  std::fill(a.begin(), a.end(), 1.0f);
  float* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    const Workspace::Mark inner(workspace);
    const auto b = workspace.take<float>(1000);
    const auto c = workspace.take<uint8_t>(1);
    const auto big = workspace.take<double>(1 << 20);
    for (const void* p : {static_cast<const void*>(b.data()), static_cast<const void*>(c.data()),
                          static_cast<const void*>(big.data())}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    }
    std::fill(b.begin(), b.end(), 2.0f);
    std::fill(big.begin(), big.end(), 3.0);
    if (round == 0) first = b.data();
    EXPECT_EQ(b.data(), first);
  }
  EXPECT_EQ(a[0], 1.0f);
  EXPECT_EQ(a[2], 1.0f);
}

TEST(Workspace, StopsGrowing) {
  Workspace workspace;
  auto step = [&](uint64_t n) {
    const Workspace::Mark mark(workspace);
    for (int i = 0; i < 5; ++i) {
      workspace.take<float>(n);
      const Workspace::Mark inner(workspace);
      workspace.take<float>(n / 2 + 7);
    }
  };
  step(1 << 20);
  step(1 << 20);
  const uint64_t capacity = workspace.capacity_bytes();
  for (uint64_t n : {1 << 20, 1, 1 << 19, 12345, 1 << 20}) step(n);
  EXPECT_EQ(workspace.capacity_bytes(), capacity);
  EXPECT_LE(capacity, 4u * 6 * (1 << 20) * 4);
}

TEST(Workspace, NothingTakenIsNothingAllocated) {
  Workspace workspace;
  { const Workspace::Mark mark(workspace); }
  EXPECT_EQ(workspace.capacity_bytes(), 0u);
  EXPECT_TRUE(workspace.take<float>(0).empty());
}

}  // namespace
}  // namespace thimble::kernels
