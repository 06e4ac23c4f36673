// Aim: a state survives its bytes, at its position and one token before, and no broken bytes are
// taken for one. Method: states made by hand; every truncation and some lies.
#include "model/sequence_state.h"

#include <gtest/gtest.h>

namespace thimble::model {
namespace {

// As a model with owners at ratio 2 and 1 and three layers would have it after `position` tokens.
SequenceState state_at(uint64_t position) {
  SequenceState state;
  state.position = position;
  state.half_pairs.resize(2);
  state.windows.assign(3, {position > 4 ? position - 4 : 0, position});
  state.engram_history = {1, 2};
  return state;
}

SequenceState with_open_group(uint64_t position) {
  SequenceState state = state_at(position);
  const uint64_t token = (position - 1) / 2 * 2;
  state.half_pairs[0] = {token, {1.5F, -2}, {0.25F, 3}};
  return state;
}

TEST(SequenceState, SurvivesItsBytes) {
  for (const uint64_t position : {1, 2, 7, 8}) {
    const SequenceState before = with_open_group(position);
    SequenceState after = state_at(position);
    ASSERT_TRUE(restore_bytes(to_bytes(before), after));
    EXPECT_EQ(after.half_pairs[0].token, before.half_pairs[0].token);
    EXPECT_EQ(after.half_pairs[0].value, before.half_pairs[0].value);
    EXPECT_EQ(after.half_pairs[0].gate, before.half_pairs[0].gate);
    EXPECT_FALSE(after.half_pairs[1].token);
    EXPECT_EQ(after.windows[2].begin, before.windows[2].begin);
    EXPECT_EQ(after.windows[2].end, position);
    EXPECT_EQ(after.engram_history, before.engram_history);  // from the tokens, not the bytes
  }
}

TEST(SequenceState, GoesBackByOneToken) {
  SequenceState one_before = state_at(6);  // token 6, which had opened a group, is taken back
  ASSERT_TRUE(restore_bytes(to_bytes(with_open_group(7)), one_before));
  EXPECT_FALSE(one_before.half_pairs[0].token);
  EXPECT_EQ(one_before.windows[0].end, 6u);
  SequenceState odd = state_at(7);  // token 7 is taken back: the group of token 6 is open again
  ASSERT_TRUE(restore_bytes(to_bytes(with_open_group(8)), odd));
  EXPECT_EQ(odd.half_pairs[0].token, 6u);
}

TEST(SequenceState, RefusesWhatDoesNotFit) {
  const std::vector<std::byte> bytes = to_bytes(with_open_group(8));
  for (size_t length = 0; length < bytes.size(); ++length) {
    SequenceState state = state_at(8);
    const auto read = restore_bytes(std::span(bytes).first(length), state);
    ASSERT_FALSE(read) << length;
    EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
    EXPECT_FALSE(state.half_pairs[0].token) << "changed by a failed restore";
  }
  std::vector<std::byte> longer = bytes;
  longer.push_back(std::byte{0});
  SequenceState state = state_at(8);
  EXPECT_FALSE(restore_bytes(longer, state));
  for (const uint64_t position : {0, 5, 6, 9, 10}) {
    SequenceState other = state_at(position);
    EXPECT_FALSE(restore_bytes(bytes, other)) << position;
  }
}

}  // namespace
}  // namespace thimble::model
