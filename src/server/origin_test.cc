// Aim: which pages may call a server on this machine. Method: a table of origins.
#include "server/origin.h"

#include <gtest/gtest.h>

#include <vector>

namespace thimble::server {
namespace {

constexpr std::string_view kHost = "192.168.1.5:8080";

TEST(Origin, TheServersOwnPageAndThisMachine) {
  for (const char* origin :
       {"", "http://192.168.1.5:8080", "http://localhost", "http://localhost:3000",
        "https://localhost:1", "http://127.0.0.1:8080", "http://[::1]:5173"}) {
    EXPECT_TRUE(origin_allowed(origin, kHost, {})) << origin;
  }
}

TEST(Origin, EverythingElseIsElsewhere) {
  for (const char* origin :
       {"https://evil.example", "null", "http://192.168.1.5", "http://192.168.1.5:8081",
        "http://localhost.evil.example", "http://evil.example:8080", "http://[::2]:1", "x"}) {
    EXPECT_FALSE(origin_allowed(origin, kHost, {})) << origin;
  }
}

TEST(Origin, UnlessItWasAllowed) {
  const std::vector<std::string> one = {"https://a.example"};
  EXPECT_TRUE(origin_allowed("https://a.example", kHost, one));
  EXPECT_FALSE(origin_allowed("https://b.example", kHost, one));
  const std::vector<std::string> all = {"*"};
  EXPECT_TRUE(origin_allowed("null", kHost, all));
}

}  // namespace
}  // namespace thimble::server
