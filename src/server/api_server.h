// The whole server: sockets, workers and routes around one generator, and the order in which they
// start and stop.
//
// listen() early, so that a busy port is known before a model is loaded; start() when there is a
// generator. stop() refuses new work, ends running answers, lets what is written leave, and returns
// within about `grace_ms`.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "net/http.h"
#include "server/generator.h"
#include "server/routes.h"

namespace thimble::server {

struct ApiServerOptions {
  net::HttpServerOptions http;
  uint32_t workers = 2;
};

class ApiServer {
 public:
  static Result<std::unique_ptr<ApiServer>> listen(ApiServerOptions options);
  ~ApiServer();  // stop(0)

  // Once. `generator` must outlive stop().
  void start(Generator& generator, RouteOptions routes);
  void stop(uint32_t grace_ms);

  uint16_t port() const;
  bool only_this_machine() const;  // it listens on a loopback address
  std::string url() const;

 private:
  ApiServer(std::unique_ptr<net::HttpServer> http, uint32_t workers);
  AnswerThreads threads_;
  std::unique_ptr<Routes> routes_;
  std::unique_ptr<net::HttpServer> http_;
};

}  // namespace thimble::server
