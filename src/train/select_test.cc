// Aim: a query attends to its best entries, and explores where it is told to. Method: random scores
// over two documents: the selection against a plain sort, explored ones against the plain one.
#include "train/internal/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "train/internal/testing.h"

namespace thimble::train::internal {
namespace {

class Selection : public testing::Test {
 protected:
  using Lists = std::vector<std::vector<int32_t>>;  // [rows] of entries

  Selection() : tiny_(xxs_config()) {
    layout_ = make_layout(tiny_.tables(at::kDouble), random_batch(tiny_.config, {60, 9}, 1));
    auto generator = at::make_generator<at::CPUGeneratorImpl>(2);
    const auto noise = [&](std::vector<int64_t> shape) {
      return at::randn(shape, generator, at::kDouble);
    };
    in_ = {noise({kRows, 2, 4}), noise({kRows, 2}), noise({kRows, 4})};
    rules_.topk = 5;
  }

  Lists select() const {
    const Indices packed = select_entries(in_, layout_.encoder, entries(), rules_);
    const size_t slots = packed->size() / kRows;
    Lists out(kRows);
    for (size_t i = 0; i < packed->size(); ++i) {
      if ((*packed)[i] >= 0) out[i / slots].push_back((*packed)[i]);
    }
    return out;
  }

  const EntryRows& entries() const { return layout_.entries[1]; }
  size_t visible(size_t row) const { return static_cast<size_t>(entries().visible[row]); }

  static constexpr int64_t kRows = 69;
  TinyModel tiny_;
  Layout layout_;
  SelectInputs in_;
  SelectRules rules_;
};

TEST_F(Selection, IsTheBestEntries) {
  const Lists lists = select();
  const Tensor scores =
      (at::einsum("rhd,ed->rhe", {in_.q, in_.keys}).relu() * in_.weights.unsqueeze(2)).sum(1);
  for (size_t row = 0; row < kRows; ++row) {
    const int32_t first = entries().first[row];
    const double* s = scores[static_cast<int64_t>(row)].data_ptr<double>();
    std::vector<int32_t> order;
    for (size_t k = 0; k < visible(row); ++k) order.push_back(first + static_cast<int32_t>(k));
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return s[a] > s[b]; });
    if (order.size() > 5) order.resize(5);
    std::sort(order.begin(), order.end());
    EXPECT_EQ(lists[row], order) << "row " << row;
  }
}

// Slots become entries that the query may see, ascending and each once; who sees no more than its
// slots keeps them all.
TEST_F(Selection, ExploresWhatIsVisible) {
  const Lists plain = select();
  rules_.explore = 1;
  rules_.explore_seed = 3;
  const Lists explored = select();
  size_t different = 0;
  std::set<size_t> seen;  // by rows that see half of the entries or more
  for (size_t row = 0; row < kRows; ++row) {
    const int32_t first = entries().first[row];
    if (visible(row) <= 5) {
      EXPECT_EQ(explored[row], plain[row]);
      continue;
    }
    different += explored[row] != plain[row];
    EXPECT_FALSE(explored[row].empty());
    EXPECT_LE(explored[row].size(), 5u);
    for (size_t k = 0; k < explored[row].size(); ++k) {
      EXPECT_GE(explored[row][k], first);
      EXPECT_LT(explored[row][k], first + static_cast<int32_t>(visible(row)));
      EXPECT_TRUE(k == 0 || explored[row][k] > explored[row][k - 1]);
      if (visible(row) >= 30) seen.insert(static_cast<size_t>(explored[row][k]));
    }
  }
  EXPECT_GT(different, 50u);    // of 59 that see more than five
  EXPECT_GT(seen.size(), 45u);  // of 60: anywhere
}

TEST_F(Selection, ExploresByShareAndSeed) {
  const Lists plain = select();
  const auto explored = [&](double share, uint64_t seed) {
    rules_.explore = share;
    rules_.explore_seed = seed;
    return select();
  };
  EXPECT_EQ(explored(1, 3), explored(1, 3));
  EXPECT_NE(explored(1, 3), explored(1, 4));
  EXPECT_EQ(explored(0, 3), plain);
  // Of 59 full lists with five slots each about a fifth is replaced, sometimes by what was there.
  double kept = 0;
  double slots = 0;
  const Lists some = explored(0.2, 3);
  for (size_t row = 0; row < kRows; ++row) {
    if (visible(row) <= 5) continue;
    for (const int32_t entry : plain[row]) {
      slots += 1;
      kept += std::count(some[row].begin(), some[row].end(), entry) > 0 ? 1.0 : 0.0;
    }
  }
  EXPECT_NEAR(kept / slots, 0.82, 0.08);
  // Another seed names other slots, not only other entries for the same ones.
  const Lists others = explored(0.2, 4);
  int changed = 0;
  for (size_t row = 0; row < kRows; ++row) {
    changed += (some[row] == plain[row]) != (others[row] == plain[row]) ? 1 : 0;
  }
  EXPECT_GT(changed, 12);  // 26 expected of 59
}

}  // namespace
}  // namespace thimble::train::internal
