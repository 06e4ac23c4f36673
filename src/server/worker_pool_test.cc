// Aim: every task runs once, and none after close(). Method: counters under many posting threads.
#include "server/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>

namespace thimble::server {
namespace {

TEST(WorkerPool, RunsEachTaskOnce) {
  std::atomic<int> ran{0};
  {
    WorkerPool pool(3);
    std::vector<std::thread> posters;
    for (int i = 0; i < 4; ++i) {
      posters.emplace_back([&] {
        for (int k = 0; k < 500; ++k) pool.post([&] { ++ran; });
      });
    }
    for (std::thread& poster : posters) poster.join();
    pool.close();
    EXPECT_EQ(ran, 2000);
    pool.post([&] { ++ran; });
  }
  EXPECT_EQ(ran, 2000);
}

TEST(WorkerPool, ATaskMayPostAnother) {
  std::atomic<int> ran{0};
  WorkerPool pool(1);
  pool.post([&] { pool.post([&] { ++ran; }); });
  while (ran == 0) std::this_thread::yield();
  pool.close();
  EXPECT_EQ(ran, 1);
}

}  // namespace
}  // namespace thimble::server
