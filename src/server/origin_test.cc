// Aim: which pages may call a server on this machine, and by which names it may be called. Method:
// tables of origins and hosts.
#include "server/origin.h"

#include <gtest/gtest.h>

namespace thimble::server {
namespace {

constexpr std::string_view kHost = "192.168.1.5:8080";

const OriginPolicy kForOthersToo{{}, true, ""};

TEST(Origin, TheServersOwnPage) {
  EXPECT_TRUE(origin_allowed("", kHost, {})) << "no browser";
  EXPECT_TRUE(origin_allowed("http://192.168.1.5:8080", kHost, kForOthersToo));
  for (const char* host : {"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "localhost"}) {
    EXPECT_TRUE(origin_allowed(std::string("http://") + host, host, {})) << host;
  }
  EXPECT_TRUE(origin_allowed("http://mybox:8080", "mybox:8080", {{}, false, "mybox"}));
}

TEST(Origin, EverythingElseIsElsewhere) {
  for (const char* origin :
       {"https://evil.example", "null", "http://192.168.1.5", "http://192.168.1.5:8081",
        "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:5173",
        "http://localhost.evil.example", "http://evil.example:8080", "http://[::2]:1", "x"}) {
    EXPECT_FALSE(origin_allowed(origin, kHost, kForOthersToo)) << origin;
    EXPECT_FALSE(origin_allowed(origin, "localhost:8080", {})) << origin;
  }
}

// A page of evil.example whose name suddenly resolves to 127.0.0.1.
TEST(Origin, ANameThatWasMadeToPointHereIsElsewhere) {
  EXPECT_FALSE(origin_allowed("http://evil.example:8080", "evil.example:8080", {}));
  EXPECT_TRUE(origin_allowed("http://localhost:8080", "localhost:8080", {}));
}

TEST(Origin, UnlessItWasAllowed) {
  const OriginPolicy one{{"https://a.example"}, false, ""};
  EXPECT_TRUE(origin_allowed("https://a.example", kHost, one));
  EXPECT_FALSE(origin_allowed("https://b.example", kHost, one));
  const OriginPolicy all{{"*"}, false, ""};
  EXPECT_TRUE(origin_allowed("null", kHost, all));
}

TEST(Host, ThisMachinesNamesAndNoOthers) {
  for (const char* host : {"", "localhost", "localhost:8080", "LocalHost:1", "127.0.0.1:8080",
                           "127.0.0.2", "[::1]:8080", "[::1]"}) {
    EXPECT_TRUE(host_allowed(host, {})) << host;
  }
  for (const char* host : {"evil.example", "evil.example:8080", "localhost.evil.example",
                           "127.0.0.1.evil.example", "127.evil.example:8080", "192.168.1.5:8080",
                           "[::2]:8080", "0.0.0.0:8080", ":8080", "[::1].evil.example"}) {
    EXPECT_FALSE(host_allowed(host, {})) << host;
  }
}

TEST(Host, TheNameItListensOnAndThoseOfAllowedPages) {
  const OriginPolicy policy{{"https://chat.example", "http://b.example:81"}, false, "mybox"};
  for (const char* host :
       {"mybox:8080", "MyBox", "chat.example", "chat.example:443", "b.example:8080"}) {
    EXPECT_TRUE(host_allowed(host, policy)) << host;
  }
  EXPECT_FALSE(host_allowed("example", policy));
  EXPECT_FALSE(host_allowed("null", {{"null"}, false, ""}));
  EXPECT_TRUE(host_allowed("anything.example", {{"*"}, false, ""}));
}

TEST(Host, AnyOnAServerForOthersToo) {
  EXPECT_TRUE(host_allowed("thimble.example:8080", kForOthersToo));
}

}  // namespace
}  // namespace thimble::server
