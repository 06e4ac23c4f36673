// Aim: tokens a second are what the engine's times say. Method: requests of known times.
#include "apps/thimble/bench/speeds.h"

#include <gtest/gtest.h>

namespace thimble::app {
namespace {

TEST(Speeds, OfPromptAndAnswer) {
  engine::GenerationEnd end;
  end.prompt_tokens = 512;
  end.prefill_us = 2'000'000;
  end.completion_tokens = 64;
  end.decode_us = 500'000;
  EXPECT_DOUBLE_EQ(speeds_of(end).prefill, 256);
  EXPECT_DOUBLE_EQ(speeds_of(end).decode, 126);  // the first token came with the prompt
}

TEST(Speeds, NothingDecodedIsNoSpeed) {
  engine::GenerationEnd end;
  end.prompt_tokens = 5;
  end.decode_us = 7;
  for (const uint64_t tokens : {0, 1}) {
    end.completion_tokens = tokens;
    EXPECT_EQ(speeds_of(end).decode, 0);
    EXPECT_EQ(speeds_of(end).prefill, 0);  // took no time at all
  }
}

}  // namespace
}  // namespace thimble::app
