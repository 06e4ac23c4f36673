// Aim: whatever sequences, forks, aborts, rewinds, evictions, expiries, private runs and snapshots
// do to each other, every row that a sequence sees is the one a fresh run of its tokens would have
// written. Method: random operations from a seed on the fake model of cache/testing.h in a pool
// that is too small; after each of them check_integrity() and a comparison of all rows of all live
// sequences. A seed that fails prints the command that replays it.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cache/paged_cache.h"
#include "cache/testing.h"

namespace thimble::cache {
namespace {

constexpr int kSteps = 80;
constexpr uint64_t kTokensMax = 700;
constexpr uint64_t kWindow = 8;
constexpr int64_t kTtl = 50;

using Ids = std::vector<int32_t>;

struct Live {
  std::unique_ptr<Sequence> sequence;
  std::string salt;
  Ids goal;            // what it is about to become
  uint64_t taint = 0;  // of its approximate rows
};

struct Held {
  std::unique_ptr<Match> match;
  Ids prompt;
  std::string salt;
};

// How often the rarer things happened, so that a simulation that never gets there is seen.
struct Tally {
  uint64_t opens = 0;
  uint64_t opens_alone = 0;  // of those, with nobody in the way and room enough
  uint64_t from_exact_snapshots = 0;
  uint64_t from_private_snapshots = 0;
  uint64_t one_before = 0;  // snapshots resumed one token before their position
  uint64_t odd_hits = 0;
  uint64_t waits = 0;  // kUnavailable: open, reserve, fork
  uint64_t rewind_waits = 0;
  uint64_t refusals = 0;  // kResourceExhausted
  uint64_t evictions = 0;
  uint64_t duplicates = 0;  // blocks that two computed
  uint64_t recycled = 0;
  uint64_t expired = 0;
};

class Simulation {
 public:
  Simulation(uint64_t seed, Tally& tally) : random_(seed), tally_(tally) {
    PagedCacheOptions options = small_pool(model_, 2 + below(below(2) == 0 ? 8 : 30));
    options.snapshot_bytes = below(4) == 0 ? 0 : below(8) * 8'000;
    options.snapshot_ttl_us = kTtl;
    options.clock_us = [this] { return now_us_; };
    cache_ = make_cache(model_, options);
  }

  // "" or what went wrong, and after which operations.
  std::string run_all() {
    for (int i = 0; i < kSteps; ++i) {
      operate();
      std::string found = !wrong_.empty() ? wrong_ : look();
      if (!found.empty()) return found + " after:" + log_;
    }
    while (!live_.empty()) {
      abort(live_.size() - 1);
      if (const std::string found = !wrong_.empty() ? wrong_ : look(); !found.empty()) return found;
    }
    held_.clear();
    const CacheCounters counters = cache_->counters();
    tally_.evictions += counters.blocks_evicted;
    tally_.duplicates += counters.blocks_deduplicated;
    tally_.recycled += counters.snapshots_recycled;
    tally_.expired += counters.snapshots_expired;
    return look();
  }

 private:
  uint64_t below(uint64_t bound) { return random_.below(bound); }
  void expect(bool condition, const char* what) {
    if (!condition && wrong_.empty()) wrong_ = what;
  }
  void expect_wait(const Error& error, const char* what) {
    ++tally_.waits;
    expect(error.code == ErrorCode::kUnavailable, what);
  }
  void note(const std::string& what) { log_ += " " + what; }

  std::string look() const {
    if (std::string found = violation(*cache_); !found.empty()) return found;
    for (const Live& live : live_) {
      if (std::string d = model_.differences(*live.sequence, live.taint); !d.empty()) return d;
    }
    return "";
  }

  void operate() {
    now_us_ += static_cast<int64_t>(below(4));
    const uint64_t what = below(100);
    if (what < 20 || live_.empty()) return start();
    const size_t which = below(live_.size());
    if (what < 50) return append(which);
    if (what < 62) return rewind(which);
    if (what < 68) return fork(which);
    if (what < 80) return abort(which);
    if (what < 91) return snapshot(which);
    if (what < 94) return hold();
    if (what < 97) return release();
    now_us_ += kTtl / 2;
    cache_->drop_expired();
    note("wait");
  }

  // Some text that leaves an earlier one somewhere, or repeats it.
  Ids make_text() {
    Ids text;
    if (!texts_.empty()) text = texts_[below(texts_.size())];
    if (below(2) == 0) text.resize(below(text.size() + 1));
    for (uint64_t more = below(3) == 0 ? 0 : below(300); more > 0; --more)
      text.push_back(some_id());
    text.resize(std::min<size_t>(text.size(), kTokensMax - 200));
    if (text.empty()) text.push_back(0);
    remember(text);
    return text;
  }
  void remember(const Ids& text) {
    if (texts_.size() < 20) texts_.emplace_back();
    (texts_.size() < 20 ? texts_.back() : texts_[below(20)]) = text;
  }
  int32_t some_id() { return static_cast<int32_t>(below(3)); }

  std::string some_salt() { return below(5) == 0 ? "other" : ""; }
  Exactness some_exactness() { return static_cast<Exactness>(below(3)); }

  void start() {
    const Ids prompt = make_text();
    const std::string salt = some_salt();
    const Exactness wanted = some_exactness();
    const auto match = cache_->match(identity(salt), prompt, wanted);
    for (const SnapshotUse& use : match->snapshots()) {
      expect(accepts(wanted, use.marks), "a marked snapshot was found");
    }
    open(*match, prompt, salt);
  }

  uint64_t blocks_total() const { return cache_->counters().blocks_total; }
  // Enough to open what was found: all that the match keeps pinned, and a copy of a partial block.
  static uint64_t blocks_needed(const Match& match) {
    const auto blocks = [](uint64_t tokens) { return (tokens + 127) / 128; };
    uint64_t needed = blocks(match.hit()) + 1;
    for (const SnapshotUse& use : match.snapshots()) {
      needed += use.marks.encoder_exact ? 1 : blocks(use.snapshot_position);
    }
    return needed;
  }

  void open(const Match& match, const Ids& prompt, const std::string& salt) {
    expect(match.hit() < prompt.size(), "a hit covers the whole prompt");
    PagedCache::Opening opening{.hit = match.hit(), .snapshot = nullptr, .tokens_max = kTokensMax};
    if (below(3) == 0) opening.hit = below(match.hit() + 1);
    if (!match.snapshots().empty() && below(4) != 0) {
      const SnapshotUse& use = match.snapshots()[below(2) * below(match.snapshots().size())];
      if (!use.marks.encoder_exact) opening.hit = use.position;
      opening.hit = std::max(opening.hit, use.position);
      opening.snapshot = &use;
      expect(FakeModel::is_state(use.model, prompt, use), "a snapshot of another text");
    }
    note(fmt::format("open({},{})", opening.hit, opening.snapshot != nullptr));
    const bool alone = live_.empty() && held_.empty() && blocks_needed(match) <= blocks_total();
    auto opened = cache_->open(match, opening);
    if (!opened) {
      expect(!alone, "open: alone in a pool that is large enough, and told to wait");
      return expect_wait(opened.error(), "open: wrong error");
    }
    ++tally_.opens;
    tally_.opens_alone += alone;
    tally_.odd_hits += opening.hit % 2;
    if (opening.snapshot != nullptr) {
      const SnapshotUse& use = *opening.snapshot;
      ++(use.marks.encoder_exact ? tally_.from_exact_snapshots : tally_.from_private_snapshots);
      tally_.one_before += use.snapshot_position - use.position;
    }
    Live live{std::move(*opened), salt, prompt};
    Sequence& sequence = *live.sequence;
    expect(compare(sequence.tokens(), prompt).common == opening.hit, "other tokens were adopted");
    if (!sequence.marks().encoder_exact) {
      live.taint = base::load<uint64_t>(opening.snapshot->model.data() + 16);
    }
    make_windows(live);
    live_.push_back(std::move(live));
  }

  // Replay after a hit; now and then bounded, which makes the sequence private.
  void make_windows(Live& live) {
    Sequence& sequence = *live.sequence;
    if (sequence.windows_complete()) return;
    const uint64_t end = sequence.length();
    const uint64_t from = end > kWindow ? end - kWindow : 0;
    // From a snapshot's windows on, or all of the window anew.
    const bool go_on = sequence.window_begin() < sequence.window_end() && below(2) == 0;
    model_.replay(sequence, go_on ? std::min(from, sequence.window_end()) : from, end);
    if (!sequence.windows_complete()) model_.replay(sequence, from, end);
    expect(sequence.windows_complete(), "replay leaves the windows incomplete");
    if (below(4) == 0) sequence.mark_decoder_bounded();
    if (below(3) != 0) return;
    if (live.taint == 0) live.taint = ++taints_;
    sequence.mark_private();
  }

  void append(size_t which) {
    Live& live = live_[which];
    Sequence& sequence = *live.sequence;
    const uint64_t from = sequence.length();
    uint64_t tokens = 1 + (below(2) == 0 ? below(8) : below(150));
    if (from < live.goal.size() && below(2) == 0) tokens = live.goal.size() - from;
    tokens = std::min(tokens, kTokensMax - from);
    Ids text(sequence.tokens().ids.begin(), sequence.tokens().ids.end());
    const bool follows = compare(text, live.goal).common == text.size();
    for (uint64_t i = from; i < from + tokens; ++i) {
      text.push_back(follows && i < live.goal.size() ? live.goal[i] : some_id());
    }
    const std::span<const int32_t> ids = std::span(text).subspan(from);
    note(fmt::format("append({},{}+{})", which, from, tokens));
    if (const auto room = sequence.reserve(from + tokens); !room) {
      const bool never = room.error().code == ErrorCode::kResourceExhausted;
      ++(never ? tally_.refusals : tally_.waits);
      expect(never || room.error().code == ErrorCode::kUnavailable, "reserve: wrong error");
      expect(never || live_.size() + held_.size() > 1, "alone, and told to wait");
      return;
    }
    model_.write(sequence, ids, live.taint);
    // All accepted, some, or none as after a failed step.
    const uint64_t accepted = below(4) != 0 ? tokens : below(tokens + 1);
    sequence.commit(ids.first(accepted), entries_completed(model_.layout(), from, from + accepted));
    if (accepted < tokens) sequence.discard_uncommitted();
    make_windows(live);
  }

  void rewind(size_t which) {
    Live& live = live_[which];
    Sequence& sequence = *live.sequence;
    const uint64_t length = sequence.length();
    const uint64_t kept =
        length - (below(2) == 0 ? below(std::min<uint64_t>(length, 8) + 1) : below(length + 1));
    note(fmt::format("rewind({},{}->{})", which, length, kept));
    if (const auto cut = sequence.rewind(kept); !cut) {
      ++tally_.rewind_waits;
      expect(cut.error().code == ErrorCode::kUnavailable, "rewind: wrong error");
      expect(live_.size() + held_.size() > 1, "rewind: alone, and told to wait");
      expect(sequence.length() == std::min(length, (kept + 127) / 128 * 128), "rewind: cut wrong");
    } else {
      expect(sequence.length() == kept, "rewind: wrong length");
    }
    make_windows(live);
  }

  void fork(size_t which) {
    note(fmt::format("fork({})", which));
    auto forked = live_[which].sequence->fork();
    if (!forked) return expect_wait(forked.error(), "fork: wrong error");
    const Live& of = live_[which];
    live_.push_back({std::move(*forked), of.salt, of.goal, of.taint});
  }

  // Ends a sequence, now and then in the middle of a step.
  void abort(size_t which) {
    note(fmt::format("abort({})", which));
    Live live = std::move(live_[which]);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(which));
    Sequence& sequence = *live.sequence;
    Ids text(sequence.tokens().ids.begin(), sequence.tokens().ids.end());
    const bool exact = sequence.marks().encoder_exact;
    const Ids more(below(20), 1);
    if (text.size() + more.size() <= kTokensMax && sequence.reserve(text.size() + more.size())) {
      model_.write(sequence, more, live.taint);
    }
    live.sequence.reset();
    text.push_back(0);
    const uint64_t hit = hit_of(*cache_, text, identity(live.salt));
    expect(!exact || hit == text.size() - 1, "committed tokens were lost");
  }

  void snapshot(size_t which) {
    note(fmt::format("snapshot({},{})", which, live_[which].sequence->length()));
    Sequence& sequence = *live_[which].sequence;
    if (sequence.length() == 0) return;
    std::vector<std::byte> state = FakeModel::state(sequence);
    const auto taint = std::as_bytes(std::span(&live_[which].taint, 1));
    state.insert(state.end(), taint.begin(), taint.end());
    const auto taken = sequence.take_snapshot(state);
    const uint64_t budget = cache_->counters().snapshot_bytes_max;
    if (taken) {
      const std::span<const int32_t> ids = sequence.tokens().ids;
      return remember({ids.begin(), ids.end()});
    }
    if (taken.error().code == ErrorCode::kResourceExhausted) {
      return expect(budget < 10'000, "snapshot: refused");
    }
    if (taken.error().code == ErrorCode::kUnavailable) return;
    expect(sequence.window_end() - sequence.window_begin() < kWindow, "snapshot: wrong error");
  }

  void hold() {
    Held held{nullptr, make_text(), some_salt()};
    held.match = cache_->match(identity(held.salt), held.prompt, some_exactness());
    held_.push_back(std::move(held));
    note("hold");
  }

  // Opens what was found earlier, whatever happened since.
  void release() {
    if (held_.empty()) return;
    note("release");
    const size_t which = below(held_.size());
    const Held held = std::move(held_[which]);
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(which));
    open(*held.match, held.prompt, held.salt);
  }

  base::SplitMix64 random_;
  Tally& tally_;
  const FakeModel model_;
  int64_t now_us_ = 0;
  std::unique_ptr<PagedCache> cache_;
  std::vector<Live> live_;
  std::vector<Held> held_;
  std::vector<Ids> texts_;
  uint64_t taints_ = 0;
  std::string wrong_;
  std::string log_;
};

// Stops at the first seed that fails.
Tally run_seeds(uint64_t from, uint64_t to) {
  Tally tally;
  for (uint64_t seed = from; seed < to; ++seed) {
    Simulation simulation(seed, tally);
    const std::string found = simulation.run_all();
    if (found.empty()) continue;
    ADD_FAILURE() << "seed " << seed << ": " << found
                  << "\nreplay it with\n  cache_simulation_test "
                  << "--gtest_filter=CacheSimulation.Replay --gtest_random_seed=" << seed;
    break;
  }
  return tally;
}

TEST(CacheSimulation, TwoHundredSeeds) {
  const Tally tally = run_seeds(1, 201);
  EXPECT_GT(tally.opens, 2000u);
  EXPECT_GT(tally.opens_alone, 200u);
  EXPECT_GT(tally.from_exact_snapshots, 100u);
  EXPECT_GT(tally.from_private_snapshots, 20u);
  EXPECT_GT(tally.one_before, 10u);
  EXPECT_GT(tally.odd_hits, 500u);
  EXPECT_GT(tally.waits, 500u);
  EXPECT_GT(tally.rewind_waits, 20u);
  EXPECT_GT(tally.refusals, 20u);
  EXPECT_GT(tally.evictions, 500u);
  EXPECT_GT(tally.duplicates, 50u);
  EXPECT_GT(tally.recycled, 50u);
  EXPECT_GT(tally.expired, 50u);
}

TEST(CacheSimulationSlow, TenThousandSeeds) { run_seeds(201, 10'201); }

TEST(CacheSimulation, Replay) {
  const int seed = GTEST_FLAG_GET(random_seed);
  if (seed == 0) GTEST_SKIP() << "give a seed with --gtest_random_seed";
  run_seeds(static_cast<uint64_t>(seed), static_cast<uint64_t>(seed) + 1);
}

}  // namespace
}  // namespace thimble::cache
