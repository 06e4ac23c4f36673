#include "server/api_server.h"

#include "base/check.h"

namespace thimble::server {

ApiServer::ApiServer(std::unique_ptr<net::HttpServer> http, uint32_t workers)
    : threads_{std::make_shared<WorkerPool>(workers), std::make_shared<StreamThread>()},
      http_(std::move(http)) {}

ApiServer::~ApiServer() { stop(0); }

Result<std::unique_ptr<ApiServer>> ApiServer::listen(ApiServerOptions options) {
  options.http.refuser = [](uint32_t status, const std::string& message) {
    return error_response(status_error(status, message));
  };
  auto http = THIMBLE_TRY(net::HttpServer::listen(options.http));
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(http), options.workers));
}

void ApiServer::start(Generator& generator, RouteOptions routes) {
  CHECK(routes_ == nullptr);
  routes_ = std::make_unique<Routes>(std::move(routes), generator, threads_);
  http_->start([this](std::shared_ptr<net::HttpExchange> exchange) {
    routes_->handle(std::move(exchange));
  });
}

void ApiServer::stop(uint32_t grace_ms) {
  if (routes_) routes_->shut_down();
  http_->stop(grace_ms);
  threads_.pool->close();
  threads_.streams->close();
}

uint16_t ApiServer::port() const { return http_->port(); }
bool ApiServer::only_this_machine() const { return http_->only_this_machine(); }
std::string ApiServer::url() const { return http_->url(); }

}  // namespace thimble::server
