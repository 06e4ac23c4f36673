// Aim: the tree finds the longest beginning it holds, of any length, and never a token more;
// identities and images do not mix; the list of what may go is in order. Method: texts that part at
// every place around block edges; random trees against a search through all texts; pins by hand.
#include "cache/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "cache/testing.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

// Adds all blocks of a text, tail included; nothing is pinned afterwards.
void add_text(PrefixTree& tree, const CacheIdentity& of, const TokenView& text) {
  static uint32_t next_block = 0;
  PrefixNode* node = &tree.root(of);
  tree.pin_path(*node);
  while (node->end() < text.end()) {
    const uint64_t end = std::min<uint64_t>(text.end(), node->end() + kBlockTokens);
    const TokenView tokens = text.slice(node->end(), end);
    const bool is_full = tokens.size() == kBlockTokens;
    PrefixNode* next = is_full ? tree.child(*node, tokens) : nullptr;
    if (next == nullptr && !is_full && tree.covers(*node, tokens)) break;
    if (next == nullptr) {
      while (PrefixNode* tail = tree.covered_tail(*node, tokens)) tree.remove(*tail);
      next = &tree.add(*node, tokens, BlockId{next_block++}, 0);
    }
    if (!is_full) break;
    tree.pin(*next);
    node = next;
  }
  tree.unpin_path(*node);
}

uint64_t found(const PrefixTree& tree, const CacheIdentity& of, const TokenView& text) {
  return tree.find(of, text).tokens;
}

TEST(PrefixTree, FindsUpToWhereTextsPartAndNoFurther) {
  for (const uint64_t common : {0u, 1u, 2u, 3u, 127u, 128u, 129u, 255u, 256u, 257u, 299u, 300u}) {
    PrefixTree tree;
    add_text(tree, identity(), text_ids(300));
    EXPECT_EQ(found(tree, identity(), text_ids(400, 1, common)), common);
    EXPECT_EQ(found(tree, identity(), text_ids(common)), common);
    add_text(tree, identity(), text_ids(300, 1, common));
    EXPECT_EQ(found(tree, identity(), text_ids(400, 1, common)), 300u);
    EXPECT_EQ(found(tree, identity(), text_ids(400, 2, common)), common);
    EXPECT_TRUE(tree.check_shape().has_value());
  }
}

TEST(PrefixTree, EachPartOfTheIdentityKeepsTextsApart) {
  PrefixTree tree;
  CacheIdentity other = identity("tenant");
  add_text(tree, identity(), text_ids(300));
  EXPECT_EQ(found(tree, other, text_ids(300)), 0u);
  other = identity();
  other.model[15] = std::byte{1};
  EXPECT_EQ(found(tree, other, text_ids(300)), 0u);
  other = identity();
  other.format = arch::CacheFormat::kFloat;
  EXPECT_EQ(found(tree, other, text_ids(300)), 0u);
  other = identity();
  other.numerics_version = 1;
  EXPECT_EQ(found(tree, other, text_ids(300)), 0u);
  EXPECT_EQ(found(tree, identity(), text_ids(300)), 300u);
}

TEST(PrefixTree, TwoImagesWithTheSamePlaceholdersDoNotMeet) {
  const std::vector<int32_t> ids = text_ids(300);
  for (const uint64_t position : {0u, 5u, 127u, 128u, 129u, 290u}) {
    ContentMark a{.position = position};
    ContentMark b = a;
    b.identity[3] = std::byte{1};
    PrefixTree tree;
    add_text(tree, identity(), {ids, {&a, 1}});
    EXPECT_EQ(found(tree, identity(), {ids, {&b, 1}}), position);
    EXPECT_EQ(found(tree, identity(), ids), position);
    add_text(tree, identity(), {ids, {&b, 1}});
    EXPECT_EQ(found(tree, identity(), {ids, {&a, 1}}), 300u);
    EXPECT_EQ(found(tree, identity(), {ids, {&b, 1}}), 300u);
    EXPECT_TRUE(tree.check_shape().has_value());
  }
}

TEST(PrefixTree, ATailThatALongerTextCoversGoes) {
  PrefixTree tree;
  add_text(tree, identity(), text_ids(130));
  EXPECT_EQ(tree.nodes(), 2u);
  add_text(tree, identity(), text_ids(140));
  EXPECT_EQ(tree.nodes(), 2u);
  add_text(tree, identity(), text_ids(135));
  EXPECT_EQ(tree.nodes(), 2u);
  add_text(tree, identity(), text_ids(256));
  EXPECT_EQ(tree.nodes(), 2u);
  add_text(tree, identity(), text_ids(135, 1, 134));
  EXPECT_EQ(tree.nodes(), 3u);
}

// What the tree would answer if it looked at every text.
uint64_t longest_common(const std::vector<std::vector<int32_t>>& texts,
                        const std::vector<int32_t>& query) {
  uint64_t best = 0;
  for (const auto& text : texts) best = std::max(best, compare(text, query).common);
  return best;
}

TEST(PrefixTree, RandomTextsAreFoundAsBySearchingThemAll) {
  base::SplitMix64 random(11);
  for (int round = 0; round < 50; ++round) {
    PrefixTree tree;
    std::vector<std::vector<int32_t>> texts;
    const auto branch = [&] {
      // A text that leaves an earlier one somewhere, with few ids so that many agree by chance.
      std::vector<int32_t> text;
      if (!texts.empty()) text = texts[random.below(texts.size())];
      text.resize(random.below(text.size() + 1));
      const uint64_t more = random.below(200);
      for (uint64_t i = 0; i < more; ++i) text.push_back(static_cast<int32_t>(random.below(2)));
      return text;
    };
    for (int i = 0; i < 30; ++i) {
      const std::vector<int32_t> query = branch();
      ASSERT_EQ(found(tree, identity(), query), longest_common(texts, query));
      texts.push_back(branch());
      add_text(tree, identity(), texts.back());
      const auto shape = tree.check_shape();
      ASSERT_TRUE(shape.has_value()) << shape.error().describe();
    }
  }
}

TEST(PrefixTree, TheLeastRecentlyUsedLeafIsOldestAndTailsGoFirst) {
  PrefixTree tree;
  add_text(tree, identity(), text_ids(300));     // two full blocks and a tail
  add_text(tree, identity(), text_ids(256, 1));  // two full blocks
  // The first text is used again.
  const PrefixTree::Found again = tree.find(identity(), text_ids(200));
  tree.pin_path(*again.partial);
  EXPECT_EQ(tree.evictable(), 3u);
  tree.unpin_path(*again.partial);
  std::vector<uint64_t> ends;
  while (PrefixNode* leaf = tree.oldest()) {
    EXPECT_TRUE(leaf->children.empty());
    ends.push_back(leaf->end());
    tree.remove(*leaf);
    EXPECT_TRUE(tree.check_shape().has_value());
  }
  EXPECT_EQ(ends, (std::vector<uint64_t>{300, 256, 128, 256, 128}));
  EXPECT_EQ(tree.all_nodes().size(), 0u) << "empty roots go";
}

TEST(PrefixTree, PinnedPathsAreNeverOffered) {
  PrefixTree tree;
  add_text(tree, identity(), text_ids(384));
  PrefixNode& middle = *tree.find(identity(), text_ids(256)).node;
  tree.pin_path(middle);
  tree.pin_path(middle);
  EXPECT_EQ(tree.oldest()->end(), 384u);
  tree.remove(*tree.oldest());
  EXPECT_EQ(tree.oldest(), nullptr);
  tree.unpin_path(middle);
  EXPECT_EQ(tree.oldest(), nullptr);
  tree.unpin_path(middle);
  EXPECT_EQ(tree.oldest(), &middle);
}

}  // namespace
}  // namespace thimble::cache
