// Aim: every task runs once, those in a hurry do not wait, the rest wait for company. Method: many
// posting threads; tasks that note when they ran.
#include "server/stream_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/clock.h"

namespace thimble::server {
namespace {

int64_t ran_at(StreamThread& streams, int64_t written_us, bool hurries) {
  std::promise<int64_t> ran;
  streams.post([&] { ran.set_value(base::monotonic_us()); }, written_us);
  if (hurries) streams.hurry();
  return ran.get_future().get();
}

TEST(StreamThread, RunsEachTaskOnceAndNoneAfterClose) {
  std::atomic<int> ran{0};
  StreamThread streams;
  std::vector<std::thread> posters;
  for (int i = 0; i < 4; ++i) {
    posters.emplace_back([&] {
      for (int k = 0; k < 500; ++k) {
        streams.post([&] { ++ran; }, k % 3 == 0 ? base::monotonic_us() : 0);
        if (k % 50 == 0) streams.hurry();
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  streams.close();
  EXPECT_EQ(ran, 2000);
  streams.post([&] { ++ran; }, 0);
  streams.hurry();
  streams.close();
  EXPECT_EQ(ran, 2000);
}

TEST(StreamThread, TasksThatAreDueRunInTheOrderPosted) {
  std::vector<int> order;
  StreamThread streams;
  for (int i = 0; i < 100; ++i) {
    streams.post([&order, i] { order.push_back(i); }, 0);
    if (i == 50) streams.hurry();
  }
  streams.close();
  ASSERT_EQ(order.size(), 100U);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(StreamThread, AStreamThatWasJustWrittenWaits) {
  StreamThread streams;
  const int64_t written = base::monotonic_us();
  EXPECT_GE(ran_at(streams, written, false) - written, StreamThread::kStreamUs * 3 / 4);
}

// Those of one step are written at one waking: the first waits until the second is there.
TEST(StreamThread, PiecesOfAStepWaitForEachOther) {
  StreamThread streams;
  const int64_t posted = base::monotonic_us();
  EXPECT_GE(ran_at(streams, 0, false) - posted, StreamThread::kStepUs);
}

// A hurry takes along who waits: far in the future here, so that nothing else could run it.
TEST(StreamThread, AHurryReachesWhoeverWaits) {
  constexpr int64_t kHourUs = 3'600'000'000;
  StreamThread streams;
  std::promise<void> other;
  streams.post([&] { other.set_value(); }, base::monotonic_us() + kHourUs);
  ran_at(streams, base::monotonic_us() + kHourUs, true);
  other.get_future().wait();
}

// The thread sleeps until a far task is due; a nearer one wakes it.
TEST(StreamThread, ANearerTaskIsNotHeldUpByAFarOne) {
  constexpr int64_t kHourUs = 3'600'000'000;
  std::atomic<bool> far{false};
  {
    StreamThread streams;
    streams.post([&] { far = true; }, base::monotonic_us() + kHourUs);
    ran_at(streams, 0, false);
    EXPECT_FALSE(far);
  }
  EXPECT_TRUE(far);  // close() finishes what was posted
}

TEST(StreamThread, ATaskMayPostAnother) {
  std::promise<void> ran;
  StreamThread streams;
  streams.post([&] { streams.post([&] { ran.set_value(); }, 0); }, 0);
  ran.get_future().wait();
}

}  // namespace
}  // namespace thimble::server
