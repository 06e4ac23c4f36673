// The real server on a free port around the fake generator and a tokenizer of single bytes.
#pragma once

#include <memory>
#include <string>

#include "server/api_server.h"
#include "tests/api/fake_generator.h"

namespace thimble::server {

struct TestServerOptions {
  RouteOptions routes;
  net::HttpLimits limits;
  uint64_t context_tokens = 4096;
  uint32_t queue_requests_max = 64;
  text::EncodingTexts texts{"<tools>\n\n", "\n\n</tools>\n", "<format>\n"};
  bool can_chat = true;  // false: the tokenizer has no control tokens
};

class TestServer {
 public:
  explicit TestServer(const TestServerOptions& options = {});
  ~TestServer();
  FakeGenerator& generator() { return *generator_; }
  ApiServer& server() { return *server_; }
  uint16_t port() const { return server_->port(); }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<FakeGenerator> generator_;
  std::unique_ptr<ApiServer> server_;
};

}  // namespace thimble::server
