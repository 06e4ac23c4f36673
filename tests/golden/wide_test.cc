// Aim: the engine at the released model's true widths. Method: make the checkpoint (1.6 GB, from
// integers alone), run 1,300 tokens, hold logits and decisions to the bounds of tests/golden/wide,
// and peak memory to twice the checkpoint. Slow: about ten CPU-minutes, 1.6 GB of disk.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "engine/forced_run.h"
#include "tests/golden/collector.h"
#include "tests/golden/golden.h"
#include "tests/golden/wide_model.h"

namespace thimble::golden {
namespace {

using model::Mode;

class Wide : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto opened = arch::Checkpoint::open(wide_model(THIMBLE_WIDE_DIR, THIMBLE_MAKE_WIDE));
    ASSERT_TRUE(opened) << opened.error().describe();
    checkpoint_ = std::make_unique<arch::Checkpoint>(std::move(*opened));
  }
  static void TearDownTestSuite() { checkpoint_.reset(); }

  Wide() : file_(open("wide/vectors.safetensors")) {
    const auto positions = view(file_, "positions").as<int32_t>();
    positions_.assign(positions.begin(), positions.end());
  }

  std::vector<float> run(Mode mode, model::Trace* trace) const {
    model::ModelOptions options;
    options.mode = mode;
    auto model = model::Model::create(*checkpoint_, options);
    CHECK(model.has_value());
    base::ThreadPool pool;
    auto all = engine::run_forced(**model, view(file_, "tokens").as<int32_t>(), {256}, pool, trace);
    CHECK(all.has_value());
    std::vector<float> kept;
    const size_t vocab = checkpoint_->config().vocab_size;
    for (const int32_t p : positions_) {
      const auto row = all->begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(p) * vocab);
      kept.insert(kept.end(), row, row + static_cast<std::ptrdiff_t>(vocab));
    }
    return kept;
  }

  // Share of kept positions whose argmax is that of `expected`.
  double argmax_agreement(std::span<const float> a, std::span<const float> b) const {
    const size_t vocab = checkpoint_->config().vocab_size;
    size_t equal = 0;
    for (size_t i = 0; i < positions_.size(); ++i) {
      const auto best = [&](std::span<const float> all) {
        const auto row = all.subspan(i * vocab, vocab);
        return std::max_element(row.begin(), row.end()) - row.begin();
      };
      equal += static_cast<size_t>(best(a) == best(b));
    }
    return static_cast<double>(equal) / static_cast<double>(positions_.size());
  }

  // Mean share of the golden's selected entries that were selected too, over kept positions.
  double selection_overlap(const Collector& trace, const std::string& name) const {
    const auto expected = view(file_, name).as<int32_t>();
    const size_t width = expected.size() / positions_.size();
    double sum = 0;
    for (size_t i = 0; i < positions_.size(); ++i) {
      const auto& row = trace.int_rows().at(name)[static_cast<size_t>(positions_[i])];
      size_t wanted = 0;
      size_t found = 0;
      for (const int32_t entry : expected.subspan(i * width, width)) {
        if (entry < 0) continue;
        ++wanted;
        found += static_cast<size_t>(std::find(row.begin(), row.end(), entry) != row.end());
      }
      sum += wanted == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(wanted);
    }
    return sum / static_cast<double>(positions_.size());
  }

  // Share of tokens whose set of experts is the golden's.
  double expert_agreement(const Collector& trace, uint32_t layer) const {
    const std::string name = "expert_ids.layers." + std::to_string(layer);
    const auto expected = view(file_, name).as<int32_t>();
    const auto& rows = trace.int_rows().at(name);
    const size_t active = expected.size() / rows.size();
    size_t equal = 0;
    for (size_t t = 0; t < rows.size(); ++t) {
      std::vector<int32_t> a(rows[t]);
      std::vector<int32_t> b(expected.begin() + static_cast<std::ptrdiff_t>(t * active),
                             expected.begin() + static_cast<std::ptrdiff_t>((t + 1) * active));
      std::sort(a.begin(), a.end());
      std::sort(b.begin(), b.end());
      equal += static_cast<size_t>(a == b);
    }
    return static_cast<double>(equal) / static_cast<double>(rows.size());
  }

  static std::unique_ptr<arch::Checkpoint> checkpoint_;
  arch::SafetensorsFile file_;
  std::vector<int32_t> positions_;
};

std::unique_ptr<arch::Checkpoint> Wide::checkpoint_;

TEST_F(Wide, NokvqIsSharp) {
  Collector trace({"expert_ids.layers"});
  const auto logits = run(Mode::kNokvq, &trace);
  const auto expected = view(file_, "logits_nokvq").as<float>();
  const Distance d = distance(logits, expected);
  RecordProperty("max_abs", std::to_string(d.max_abs));
  fmt::print("nokvq: max {:.3g} rms {:.3g}\n", d.max_abs, d.rms);
  EXPECT_LE(d.max_abs, 2e-4);
  EXPECT_EQ(argmax_agreement(logits, expected), 1.0);
}

TEST_F(Wide, ExactWithinStatisticalBounds) {
  Collector trace({"topk", "expert_ids.layers", "hidden.layers"});
  const auto logits = run(Mode::kExact, &trace);
  const auto expected = view(file_, "logits").as<float>();
  const Distance d = distance(logits, expected);
  const double argmax = argmax_agreement(logits, expected);
  fmt::print("exact: rms {:.4f} argmax {:.3f}\n", d.rms, argmax);
  EXPECT_LE(d.rms, 0.04);
  EXPECT_GE(argmax, 0.98);
  const double overlap_min[] = {0.998, 0.996, 0.985};
  for (uint32_t source = 1; source <= 3; ++source) {
    const double overlap = selection_overlap(trace, "topk." + std::to_string(source));
    fmt::print("source {}: overlap {:.4f}\n", source, overlap);
    EXPECT_GE(overlap, overlap_min[source - 1]) << source;
  }
  const double experts_min[] = {1.0, 0.999, 0.99, 0.99};
  for (uint32_t layer = 0; layer < 4; ++layer) {
    const double agreement = expert_agreement(trace, layer);
    fmt::print("layer {}: expert sets equal {:.4f}\n", layer, agreement);
    EXPECT_GE(agreement, experts_min[layer]) << layer;
  }
  for (uint32_t layer = 0; layer < 4; ++layer) {
    const std::string name = "hidden.layers." + std::to_string(layer);
    const auto expected_last = view(file_, name + ".last").as<float>();
    const Distance h = distance(trace.float_rows().at(name).back(), expected_last);
    fmt::print("stream after layer {}, last position: max {:.3g} rms {:.3g}\n", layer, h.max_abs,
               h.rms);
    if (layer == 0) {
      EXPECT_LE(h.max_abs, 1e-4);
    }
  }
}

// Runs last of its program: the peak is that of the runs above.
TEST_F(Wide, PeakMemoryBelowTwiceTheCheckpoint) {
  rusage usage{};
  ASSERT_EQ(getrusage(RUSAGE_SELF, &usage), 0);
  const uint64_t peak = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  fmt::print("peak {:.2f} GiB, checkpoint {:.2f} GiB\n", static_cast<double>(peak) / (1ULL << 30),
             static_cast<double>(checkpoint_->bytes()) / (1ULL << 30));
  EXPECT_LT(peak, 2 * checkpoint_->bytes());
}

}  // namespace
}  // namespace thimble::golden
