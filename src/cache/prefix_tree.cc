#include "cache/prefix_tree.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "base/check.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

struct Agreement {
  PrefixNode* child = nullptr;
  uint64_t tokens = 0;
};

// The child that shares most tokens with `tokens`: in an ordered set it is a neighbour of the place
// where they would be.
Agreement closest_child(const PrefixNode& parent, const TokenView& tokens) {
  Agreement best;
  const auto consider = [&](const std::unique_ptr<PrefixNode>& child) {
    const uint64_t common = compare(child->tokens.view(), tokens).common;
    if (common > best.tokens) best = {child.get(), common};
  };
  const auto after = parent.children.lower_bound(tokens);
  if (after != parent.children.end()) consider(*after);
  if (after != parent.children.begin()) consider(*std::prev(after));
  return best;
}

}  // namespace

bool ByTokens::operator()(const Owned& a, const Owned& b) const {
  return compare(a->tokens.view(), b->tokens.view()).order < 0;
}
bool ByTokens::operator()(const Owned& a, const TokenView& b) const {
  return compare(a->tokens.view(), b).order < 0;
}
bool ByTokens::operator()(const TokenView& a, const Owned& b) const {
  return compare(a, b->tokens.view()).order < 0;
}

PrefixTree::Found PrefixTree::find(const CacheIdentity& identity, const TokenView& tokens) const {
  Found found;
  const auto root = roots_.find(identity);
  if (root == roots_.end()) return found;
  found.node = root->second.get();
  while (found.tokens < tokens.end()) {
    const uint64_t block_end = std::min(tokens.end(), found.tokens + kBlockTokens);
    const Agreement next = closest_child(*found.node, tokens.slice(found.tokens, block_end));
    found.tokens += next.tokens;
    if (next.tokens < kBlockTokens) {
      found.partial = next.child;
      break;
    }
    found.node = next.child;
  }
  return found;
}

PrefixNode& PrefixTree::root(const CacheIdentity& identity) {
  const auto [where, is_new] = roots_.try_emplace(identity);
  if (is_new) {
    where->second = std::make_unique<PrefixNode>();
    where->second->identity = &where->first;
  }
  return *where->second;
}

PrefixNode* PrefixTree::child(const PrefixNode& parent, const TokenView& tokens) const {
  CHECK_EQ(tokens.size(), uint64_t{kBlockTokens});
  const auto found = parent.children.find(tokens);
  return found == parent.children.end() ? nullptr : found->get();
}

PrefixNode& PrefixTree::add(PrefixNode& parent, const TokenView& tokens, BlockId block,
                            uint64_t checksum) {
  CHECK(tokens.size() >= 1 && tokens.size() <= kBlockTokens);
  CHECK_EQ(tokens.begin, parent.end());
  CHECK(parent.is_root() || parent.is_full());
  auto made = std::make_unique<PrefixNode>();
  made->parent = &parent;
  made->tokens = TokenLog(tokens);
  made->block = block;
  made->checksum = checksum;
  const auto [where, is_new] = parent.children.insert(std::move(made));
  CHECK(is_new);
  ++nodes_;
  push_newest(**where);
  return **where;
}

bool PrefixTree::covers(const PrefixNode& parent, const TokenView& tokens) const {
  const auto after = parent.children.lower_bound(tokens);
  return after != parent.children.end() &&
         compare((*after)->tokens.view(), tokens).common == tokens.size();
}

// Between a beginning of `tokens` and `tokens` themselves lie only texts that extend that
// beginning, and a tail that another child extends is dropped when that child comes. So the only
// place to look is just before.
PrefixNode* PrefixTree::covered_tail(const PrefixNode& parent, const TokenView& tokens) const {
  const auto after = parent.children.lower_bound(tokens);
  if (after == parent.children.begin()) return nullptr;
  PrefixNode& before = **std::prev(after);
  const uint64_t size = before.tokens.view().size();
  if (before.pins > 0 || before.is_full() || size >= tokens.size()) return nullptr;
  return compare(before.tokens.view(), tokens).common == size ? &before : nullptr;
}

void PrefixTree::pin_path(PrefixNode& node) {
  for (PrefixNode* at = &node; at != nullptr; at = at->parent) pin(*at);
}

void PrefixTree::pin(PrefixNode& node) {
  if (++node.pins == 1 && !node.is_root()) unlink(node);
}

void PrefixTree::unpin_path(PrefixNode& node, const PrefixNode* stop) {
  PrefixNode* at = &node;
  while (at != stop) {
    CHECK(at != nullptr && at->pins > 0);
    PrefixNode* const parent = at->parent;
    --at->pins;
    if (parent == nullptr) {
      remove_if_idle(*at);
    } else if (at->pins == 0) {
      push_newest(*at);
    }
    at = parent;
  }
}

BlockId PrefixTree::remove(PrefixNode& node) {
  CHECK(!node.is_root() && node.children.empty() && node.pins == 0 && node.snapshots.empty());
  unlink(node);
  --nodes_;
  const BlockId block = node.block;
  PrefixNode& parent = *node.parent;
  const auto where = parent.children.find(node.tokens.view());
  CHECK(where != parent.children.end() && where->get() == &node);
  parent.children.erase(where);
  remove_if_idle(parent);
  return block;
}

void PrefixTree::remove_if_idle(PrefixNode& root) {
  if (!root.is_root() || root.pins > 0 || !root.children.empty() || !root.snapshots.empty()) return;
  const auto where = roots_.find(*root.identity);
  CHECK(where != roots_.end() && where->second.get() == &root);
  roots_.erase(where);
}

void PrefixTree::push_newest(PrefixNode& node) {
  node.used_us = clock_us_();
  node.older = newest_;
  node.newer = nullptr;
  (newest_ == nullptr ? oldest_ : newest_->newer) = &node;
  newest_ = &node;
  ++evictable_;
}

void PrefixTree::unlink(PrefixNode& node) {
  (node.older == nullptr ? oldest_ : node.older->newer) = node.newer;
  (node.newer == nullptr ? newest_ : node.newer->older) = node.older;
  node.older = nullptr;
  node.newer = nullptr;
  --evictable_;
}

std::vector<const PrefixNode*> PrefixTree::all_nodes() const {
  std::vector<const PrefixNode*> nodes;
  for (const auto& [identity, root] : roots_) nodes.push_back(root.get());
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const auto& child : nodes[i]->children) nodes.push_back(child.get());
  }
  return nodes;
}

Result<void> PrefixTree::check_shape() const {
  const std::vector<const PrefixNode*> nodes = all_nodes();
  if (nodes.size() != nodes_ + roots_.size()) {
    return base::fail(ErrorCode::kInternal, "the tree has {} nodes and {} roots, {} were counted",
                      nodes.size() - roots_.size(), roots_.size(), nodes_);
  }
  for (const PrefixNode* node : nodes) {
    if (!node->is_root() && !node->is_full() && !node->children.empty()) {
      return base::fail(ErrorCode::kInternal, "a tail that ends at {} has children", node->end());
    }
    const PrefixNode* before = nullptr;
    for (const auto& child : node->children) {
      const TokenView tokens = child->tokens.view();
      if (child->parent != node || tokens.begin != node->end() || tokens.size() == 0 ||
          tokens.size() > kBlockTokens) {
        return base::fail(ErrorCode::kInternal,
                          "a child [{}, {}) hangs under a node that ends at {}", tokens.begin,
                          tokens.end(), node->end());
      }
      if (before != nullptr && compare(before->tokens.view(), tokens).order >= 0) {
        return base::fail(ErrorCode::kInternal,
                          "children of a node that ends at {} are out of order", node->end());
      }
      before = child.get();
    }
  }
  return check_list(nodes);
}

Result<void> PrefixTree::check_list(const std::vector<const PrefixNode*>& nodes) const {
  std::unordered_map<const PrefixNode*, uint64_t> rank;
  for (const PrefixNode* at = oldest_; at != nullptr; at = at->newer) {
    if ((at->newer == nullptr ? newest_ : at->newer->older) != at || rank.size() > nodes_) {
      return base::fail(ErrorCode::kInternal, "the list of unpinned nodes is broken");
    }
    rank.emplace(at, rank.size());
  }
  if (rank.size() != evictable_) {
    return base::fail(ErrorCode::kInternal, "{} unpinned nodes were counted, {} are listed",
                      evictable_, rank.size());
  }
  for (const PrefixNode* node : nodes) {
    if (node->is_root()) continue;
    const auto own = rank.find(node);
    if ((own != rank.end()) != (node->pins == 0)) {
      return base::fail(ErrorCode::kInternal, "a node that ends at {} has {} pins and is {}listed",
                        node->end(), node->pins, own == rank.end() ? "not " : "");
    }
    const auto above = rank.find(node->parent);
    if (above != rank.end() && (own == rank.end() || own->second > above->second)) {
      return base::fail(ErrorCode::kInternal, "a node that ends at {} outlives its child",
                        node->parent->end());
    }
  }
  return {};
}

std::vector<PrefixNode*> path_to(PrefixNode& node) {
  std::vector<PrefixNode*> path;
  for (PrefixNode* at = &node; !at->is_root(); at = at->parent) path.push_back(at);
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace thimble::cache
