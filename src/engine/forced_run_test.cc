// Aim: a context of random entries behaves as one that was computed. Method: decode behind it:
// finite logits, the same for the same seed, others for another; the cache counts right.
#include "engine/forced_run.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/model_files.h"
#include "engine/testing.h"

namespace thimble::engine {
namespace {

class RandomContext : public testing::Test {
 protected:
  RandomContext() {
    checkpoint_ = std::make_unique<arch::Checkpoint>(*arch::Checkpoint::open(nano_model()));
    const auto map = *engram_map(*checkpoint_, *open_tokenizer(*checkpoint_));
    model::ModelOptions options;
    options.token_map = map;
    model_ = *model::Model::create(*checkpoint_, options);
  }

  // Logits of a token behind `pieces` of random entries.
  std::vector<float> logits(const std::vector<uint64_t>& pieces, uint64_t seed) {
    auto sequence = *ForcedSequence::create(*model_, 1000, pool_);
    for (const uint64_t length : pieces) {
      EXPECT_TRUE(sequence.append_random(std::vector<int32_t>(length, 5), seed).has_value());
    }
    std::vector<float> out(model_->config().vocab_size);
    const std::vector<int32_t> id = {7};
    EXPECT_TRUE(sequence.run(id, {.logit_rows = 1}, out).has_value());
    const auto checked = sequence.cache().check_integrity();
    EXPECT_TRUE(checked.has_value()) << checked.error().describe();
    return out;
  }

  std::unique_ptr<arch::Checkpoint> checkpoint_;
  std::unique_ptr<model::Model> model_;
  base::ThreadPool pool_{1};
};

TEST_F(RandomContext, IsFiniteAndRepeats) {
  for (const std::vector<uint64_t>& pieces :
       std::vector<std::vector<uint64_t>>{{128}, {768}, {256, 512}}) {
    const auto first = logits(pieces, 1);
    for (const float l : first) ASSERT_TRUE(std::isfinite(l));
    EXPECT_EQ(first, logits(pieces, 1));
    EXPECT_NE(first, logits(pieces, 2));
  }
}

}  // namespace
}  // namespace thimble::engine
