#include "tests/api/test_server.h"

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "text/byte_tokenizer.h"

namespace thimble::server {
namespace {

// The same file without one token that chat needs.
std::string without_chat_tokens(const std::string& json) {
  auto file = nlohmann::json::parse(json);
  auto& added = file["added_tokens"];
  for (size_t i = 0; i < added.size(); ++i) {
    if (added[i]["content"] == text::kThinkCloseText) added[i]["content"] = "<unused>";
  }
  return file.dump();
}

}  // namespace

TestServer::TestServer(const TestServerOptions& options) {
  const std::string json = text::make_byte_tokenizer_json();
  auto tokenizer = text::Tokenizer::parse(options.can_chat ? json : without_chat_tokens(json));
  if (!tokenizer) base::check_failed(__FILE__, __LINE__, "tokenizer", tokenizer.error().describe());
  tokenizer_ = std::make_unique<text::Tokenizer>(std::move(*tokenizer));
  ModelInfo info = make_model_info("fake", options.context_tokens, *tokenizer_);
  info.texts = options.texts;
  generator_ = std::make_unique<FakeGenerator>(std::move(info), options.queue_requests_max);
  ApiServerOptions server_options;
  server_options.http.limits = options.limits;
  auto server = ApiServer::listen(server_options);
  if (!server) base::check_failed(__FILE__, __LINE__, "listen", server.error().describe());
  server_ = std::move(*server);
  server_->start(*generator_, options.routes);
}

TestServer::~TestServer() { server_->stop(0); }

}  // namespace thimble::server
