// Aim: the page's files arrive once and whole, under a policy that lets nothing else run. Method:
// requests with and without the validator.
#include "server/static_files.h"

#include <gtest/gtest.h>

namespace thimble::server {
namespace {

std::string header_of(const net::HttpResponse& response, std::string_view name) {
  net::HttpRequest holder;
  holder.headers = response.headers;
  return std::string(holder.header(name));
}

TEST(StaticFiles, ServesAndRevalidates) {
  const StaticFiles files(
      {{"/", "text/html; charset=utf-8", "<html>"}, {"/a.js", "text/javascript", "1"}});
  EXPECT_TRUE(files.has("/"));
  EXPECT_FALSE(files.has("/b.js"));
  EXPECT_FALSE(files.has("/../etc/passwd"));

  net::HttpRequest request;
  request.path = "/";
  const net::HttpResponse first = files.serve(request);
  EXPECT_EQ(first.status, 200u);
  EXPECT_EQ(first.body, "<html>");
  EXPECT_EQ(header_of(first, "Content-Type"), "text/html; charset=utf-8");
  EXPECT_NE(header_of(first, "Content-Security-Policy").find("script-src 'self'"),
            std::string::npos);

  request.headers = {{"If-None-Match", "W/" + header_of(first, "ETag")}};
  EXPECT_EQ(files.serve(request).status, 304u);
  EXPECT_EQ(files.serve(request).body, "");
  request.path = "/a.js";
  EXPECT_EQ(files.serve(request).status, 200u) << "another file's tag";
}

}  // namespace
}  // namespace thimble::server
