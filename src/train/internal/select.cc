#include "train/internal/select.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "train/internal/kernels.h"

namespace thimble::train::internal {
namespace {

// The `count` best of `order` by score, lower index first among equals; ascending at the end.
template <class T>
void keep_best(const std::vector<T>& scores, int64_t count, std::vector<int32_t>& order) {
  if (static_cast<int64_t>(order.size()) <= count) return;
  const auto better = [&](int32_t a, int32_t b) {
    const T x = scores[static_cast<size_t>(a)];
    const T y = scores[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::nth_element(order.begin(), order.begin() + count, order.end(), better);
  order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
}

template <class T>
std::vector<bool> best_blocks(const std::vector<T>& scores, const SelectRules& rules) {
  const size_t size = static_cast<size_t>(rules.block_entries);
  const size_t blocks = (scores.size() + size - 1) / size;
  std::vector<T> best(blocks, -std::numeric_limits<T>::infinity());
  for (size_t j = 0; j < scores.size(); ++j) best[j / size] = std::max(best[j / size], scores[j]);
  if (blocks > 0) best.back() = std::numeric_limits<T>::infinity();  // the newest is always kept
  std::vector<int32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  keep_best(best, rules.blocks_max, order);
  std::vector<bool> kept(blocks);
  for (const int32_t b : order) kept[static_cast<size_t>(b)] = true;
  return kept;
}

std::vector<int32_t> allowed_entries(int32_t visible, const std::vector<bool>* kept,
                                     int64_t block_entries) {
  std::vector<int32_t> out;
  for (int32_t j = 0; j < visible; ++j) {
    if (kept == nullptr || (*kept)[static_cast<size_t>(j / block_entries)]) out.push_back(j);
  }
  return out;
}

// Some of the slots become entries at random (training spec 5.4, "explore").
void explore(const SelectRules& rules, uint64_t row, int32_t visible, std::vector<int32_t>& list) {
  if (rules.explore <= 0 || static_cast<int32_t>(list.size()) >= visible) return;
  for (size_t i = 0; i < list.size(); ++i) {
    if (base::counter_uniform(rules.explore_seed, row, 2 * i) >= rules.explore) continue;
    const double u = base::counter_uniform(rules.explore_seed, row, 2 * i + 1);
    list[i] = static_cast<int32_t>(u * visible);
  }
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

// Lists of document-relative entries to one padded array of batch entries.
Indices pack(const std::vector<std::vector<int32_t>>& lists, const QueryRows& rows,
             const EntryRows& entries) {
  size_t slots = 1;
  for (const auto& list : lists) slots = std::max(slots, list.size());
  std::vector<int32_t> out(lists.size() * slots, -1);
  for (size_t i = 0; i < lists.size(); ++i) {
    const int32_t first = entries.first[static_cast<size_t>((*rows.tokens)[i])];
    for (size_t k = 0; k < lists[i].size(); ++k) out[i * slots + k] = first + lists[i][k];
  }
  return std::make_shared<const std::vector<int32_t>>(std::move(out));
}

template <class T>
class Selector {
 public:
  Selector(const SelectInputs& in, const QueryRows& rows, const EntryRows& entries,
           const SelectRules& rules)
      : rows_(rows), entries_(entries), rules_(rules) {
    shape_ = {in.q.size(0), in.q.size(1), in.q.size(2)};
    q_ = in.q.contiguous();
    weights_ = in.weights.contiguous();
    keys_t_ = in.keys.t().contiguous();
  }

  Indices run() {
    std::vector<std::vector<int32_t>> lists(static_cast<size_t>(rows_.rows()));
    if (rules_.makes != nullptr) rules_.makes->kept.resize(lists.size());
    for (size_t i = 0; i < lists.size(); ++i) lists[i] = select(i);
    return pack(lists, rows_, entries_);
  }

 private:
  std::vector<int32_t> select(size_t i) {
    const auto token = static_cast<size_t>((*rows_.tokens)[i]);
    const int32_t visible = entries_.visible[token];
    const bool makes =
        rules_.makes != nullptr && visible > rules_.blocks_max * rules_.block_entries;
    const std::vector<bool>* kept = nullptr;
    if (rules_.within != nullptr && !rules_.within->kept[i].empty()) kept = &rules_.within->kept[i];
    std::vector<int32_t> list = allowed_entries(visible, kept, rules_.block_entries);
    if (!makes && static_cast<int64_t>(list.size()) <= rules_.topk) return list;
    scores_.resize(static_cast<size_t>(visible));
    const auto row = static_cast<int64_t>(i);
    index_scores(shape_, q_.data_ptr<T>() + row * shape_.heads * shape_.dims,
                 weights_.data_ptr<T>() + row * shape_.heads,
                 keys_t_.data_ptr<T>() + entries_.first[token], entries_.count, visible,
                 scores_.data());
    if (makes) rules_.makes->kept[i] = best_blocks(scores_, rules_);
    keep_best(scores_, rules_.topk, list);
    explore(rules_, token, visible, list);
    return list;
  }

  const QueryRows& rows_;
  const EntryRows& entries_;
  const SelectRules& rules_;
  IndexShape shape_;
  Tensor q_, weights_, keys_t_;
  std::vector<T> scores_;
};

}  // namespace

Indices select_entries(const SelectInputs& in, const QueryRows& rows, const EntryRows& entries,
                       const SelectRules& rules) {
  if (in.q.scalar_type() == at::kDouble) return Selector<double>(in, rows, entries, rules).run();
  return Selector<float>(in, rows, entries, rules).run();
}

Indices all_visible(const QueryRows& rows, const EntryRows& entries, const Candidates* within,
                    int64_t block_entries) {
  std::vector<std::vector<int32_t>> lists(static_cast<size_t>(rows.rows()));
  for (size_t i = 0; i < lists.size(); ++i) {
    const std::vector<bool>* kept = nullptr;
    if (within != nullptr && !within->kept[i].empty()) kept = &within->kept[i];
    lists[i] = allowed_entries(entries.visible[static_cast<size_t>((*rows.tokens)[i])], kept,
                               block_entries);
  }
  return pack(lists, rows, entries);
}

}  // namespace thimble::train::internal
