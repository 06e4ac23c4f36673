#include "text/token_masker.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace thimble::text {
namespace {

// What is kept between two masks at most, about 8 MB each.
constexpr size_t kRowsMax = 8192;
constexpr size_t kStatesMax = 32768;
constexpr size_t kMasksMax = 256;

// Frames that the exit's state has left, as the state outside calls them.
std::vector<uint32_t> named(const std::vector<uint32_t>& left, const std::vector<uint32_t>& frames,
                            uint32_t outermost) {
  std::vector<uint32_t> out;
  for (const uint32_t frame : left) {
    if (frames[frame] >= outermost) out.push_back(frames[frame]);
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TokenMasker::TokenMasker(std::shared_ptr<const Grammar> grammar,
                         std::shared_ptr<const TokenTrie> trie)
    : grammar_(std::move(grammar)),
      trie_(std::move(trie)),
      automaton_(*grammar_),
      path_(trie_->longest() + 1) {}

bool TokenMasker::accept(GrammarState& state, int32_t token) const {
  const std::string_view bytes = trie_->bytes_of(token);
  if (!bytes.empty() && grammar_->read(state, bytes)) return true;
  state.threads.clear();
  state.left.clear();
  return false;
}

void TokenMasker::allowed(const GrammarState& state, std::vector<uint64_t>& bits) {
  forget();
  GrammarState work = state;
  const Inside start = inside_of(work);
  const Mask& inner = mask_of(start.id);
  std::vector<Pending> pending;
  const auto add_exits = [&](const Mask& mask, const Inside& inside) {
    for (const Exit& exit : mask.exits) {
      auto frames = named(automaton_.left(exit.id), inside.frames, state.outer);
      if (!frames.empty()) pending.push_back({std::move(frames), exit.node});
    }
  };
  add_exits(inner, start);
  Mask mask;
  mask.bits = inner.bits;
  std::map<std::vector<uint32_t>, Inside> resumed;
  while (!pending.empty()) {
    const Pending next = std::move(pending.back());
    pending.pop_back();
    auto known = resumed.find(next.frames);
    if (known == resumed.end()) {
      grammar_->resume(work, next.frames);
      known = resumed.emplace(next.frames, inside_of(work)).first;
    }
    mask.exits.clear();
    walk(known->second.id, next.node, mask);
    add_exits(mask, known->second);
  }
  bits = std::move(mask.bits);
}

// Threads by their frames, in the order they come.
TokenMasker::Inside TokenMasker::inside_of(const GrammarState& state) {
  Inside out;
  GrammarState inside;
  for (const GrammarThread& thread : state.threads) {
    const auto at = std::find(out.frames.begin(), out.frames.end(), thread.frame);
    const auto frame = static_cast<uint32_t>(at - out.frames.begin());
    if (at == out.frames.end()) out.frames.push_back(thread.frame);
    inside.threads.push_back({thread.at, frame, shortened(thread.at, thread.count)});
  }
  inside.frames.resize(out.frames.size());
  inside.outer = static_cast<uint32_t>(out.frames.size());
  std::sort(inside.threads.begin(), inside.threads.end());
  inside.threads.erase(std::unique(inside.threads.begin(), inside.threads.end()),
                       inside.threads.end());
  out.id = automaton_.id_of(inside);
  return out;
}

// A count that no token can bring to the other side of a bound is as good as another: then states
// are the same.
uint32_t TokenMasker::shortened(uint32_t instruction, uint32_t count) const {
  const GrammarRule& rule = grammar_->rule_at(instruction);
  const uint64_t reached = uint64_t{count} + trie_->longest();
  if (reached < rule.count_min) return 0;
  const bool far = rule.count_max == kUncounted || reached < rule.count_max;
  return count >= rule.count_min && far ? rule.count_min : count;
}

const TokenMasker::Mask& TokenMasker::mask_of(Id id) {
  const auto [at, made] = masks_.try_emplace(id);
  if (made) {
    at->second.bits.assign((trie_->vocab_size() + 63) / 64, 0);
    walk(id, 0, at->second);
  }
  return at->second;
}

// Below a node, where the automaton is in state `id`: sets the bits of tokens that keep it alive,
// and lists nodes, with others below them, at which it has returned from an outer frame.
void TokenMasker::walk(Id id, uint32_t node, Mask& mask) {
  const std::span<const TokenTrie::Node> nodes = trie_->nodes();
  path_[nodes[node].depth] = id;
  const uint32_t end = nodes[node].end;
  for (uint32_t i = node + 1; i < end;) {
    const TokenTrie::Node& now = nodes[i];
    const Id next = automaton_.next(path_[now.depth - 1], now.byte);
    if (next == PieceAutomaton::kDead) {
      i = now.end;
      continue;
    }
    path_[now.depth] = next;
    for (const int32_t token : trie_->tokens_at(i)) {
      mask.bits[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64);
    }
    if (now.end > i + 1 && !automaton_.left(next).empty()) mask.exits.push_back({i, next});
    ++i;
  }
}

// Before a mask, never within one: ids change.
void TokenMasker::forget() {
  if (automaton_.rows() <= kRowsMax && automaton_.size() <= kStatesMax &&
      masks_.size() <= kMasksMax) {
    return;
  }
  automaton_.clear();
  masks_.clear();
}

}  // namespace thimble::text
