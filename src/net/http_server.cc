#include <netinet/tcp.h>

#include <thread>

#include <utility>  // before Asio 1.74, which forgets it

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>

#include "base/check.h"
#include "net/internal/http_connection.h"

namespace thimble::net {
namespace {

constexpr uint32_t kAcceptRetryMs = 50;    // after running out of file descriptors
constexpr uint32_t kRefusalsAtOnce = 64;   // connections over the limit that still get a 503
constexpr int kUnacknowledgedMs = 30'000;  // a peer that vanished is noticed after so long

Result<tcp::endpoint> resolve(asio::io_context& io, const HttpServerOptions& options) {
  tcp::resolver resolver(io);
  boost::system::error_code error;
  const auto found =
      resolver.resolve(options.host, std::to_string(options.port),
                       tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "host '{}' is not an address to listen on: {}",
                      options.host, error.message());
  }
  return found.begin()->endpoint();
}

bool is_loopback(const asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.is_loopback();
  return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).is_loopback();
}

Error listen_error(const HttpServerOptions& options, const boost::system::error_code& error) {
  const char* hint = "";
  if (error == asio::error::address_in_use) {
    hint = "; choose another port, or 0 for any free one";
  } else if (error == asio::error::access_denied) {
    hint = "; ports below 1024 need a privilege";
  }
  return Error{ErrorCode::kIo,
               fmt::format("cannot listen on {} port {}: {}{}", options.host, options.port,
                           error.message(), hint),
               {}};
}

}  // namespace

struct HttpServer::Impl {
  ServerState state;
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer retry{io};
  asio::steady_timer grace{io};
  std::string host;
  uint16_t port = 0;
  bool loopback = false;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::thread thread;

  ~Impl() {
    state.mailbox->close();
    state.connections.clear();  // before the io_context that their sockets belong to
  }

  Result<void> open(const HttpServerOptions& options);
  void accept();
  void admit(tcp::socket socket);
  void begin_stop(uint32_t grace_ms);
  void run();
};

Result<void> HttpServer::Impl::open(const HttpServerOptions& options) {
  const tcp::endpoint endpoint = THIMBLE_TRY(resolve(io, options));
  boost::system::error_code error;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return tl::unexpected(listen_error(options, error));
  port = acceptor.local_endpoint(error).port();
  host = options.host;
  loopback = is_loopback(endpoint.address());
  state.limits = options.limits;
  state.refuser = options.refuser;
  state.mailbox = std::make_shared<Mailbox>(io);
  return {};
}

void HttpServer::Impl::accept() {
  acceptor.async_accept([this](const boost::system::error_code& error, tcp::socket socket) {
    if (error == asio::error::operation_aborted || !acceptor.is_open()) return;
    if (!error) {
      admit(std::move(socket));
      return accept();
    }
    retry.expires_after(std::chrono::milliseconds(kAcceptRetryMs));
    retry.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled) accept();
    });
  });
}

void HttpServer::Impl::admit(tcp::socket socket) {
  const size_t connected = state.connections.size();
  if (connected >= state.limits.connections + kRefusalsAtOnce) return;
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  ::setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnacknowledgedMs,
               sizeof(kUnacknowledgedMs));
  auto connection = std::make_shared<Connection>(std::move(socket), state);
  state.connections.emplace(connection.get(), connection);
  if (connected >= state.limits.connections) {
    connection->refuse_busy();
  } else {
    connection->start();
  }
}

void HttpServer::Impl::begin_stop(uint32_t grace_ms) {
  state.stopping = true;
  // Who comes while answers are on their way is answered too: by then with a refusal.
  state.on_last_closed = [this] {
    boost::system::error_code ignored;
    acceptor.close(ignored);
    retry.cancel();
    grace.cancel();
    work.reset();
  };
  const auto connections = state.connections;  // stop_soon() may erase
  for (const auto& [key, connection] : connections) connection->stop_soon();
  if (state.connections.empty()) return state.on_last_closed();
  grace.expires_after(std::chrono::milliseconds(grace_ms));
  grace.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    const auto late = state.connections;
    for (const auto& [key, connection] : late) connection->close();
  });
}

void HttpServer::Impl::run() {
  try {
    io.run();
  } catch (const std::exception& thrown) {
    base::check_failed(__FILE__, __LINE__, "no exception leaves the I/O thread", thrown.what());
  }
}

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

HttpServer::~HttpServer() { stop(0); }

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const HttpServerOptions& options) {
  try {
    auto impl = std::make_unique<Impl>();
    impl->state.mailbox = std::make_shared<Mailbox>(impl->io);
    THIMBLE_TRY(impl->open(options));
    return std::unique_ptr<HttpServer>(new HttpServer(std::move(impl)));
  } catch (const std::exception& thrown) {
    return base::fail(ErrorCode::kIo, "cannot set up the server: {}", thrown.what());
  }
}

void HttpServer::start(HttpHandler handler) {
  CHECK(!impl_->thread.joinable());
  impl_->state.handler = std::move(handler);
  impl_->work.emplace(impl_->io.get_executor());
  impl_->accept();
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

void HttpServer::stop(uint32_t grace_ms) {
  if (!impl_->thread.joinable()) return;
  asio::post(impl_->io, [impl = impl_.get(), grace_ms] { impl->begin_stop(grace_ms); });
  impl_->thread.join();
  impl_->state.mailbox->close();
}

uint16_t HttpServer::port() const { return impl_->port; }

bool HttpServer::only_this_machine() const { return impl_->loopback; }

std::string HttpServer::url() const {
  const bool v6 = impl_->host.find(':') != std::string::npos;
  const std::string host = v6 ? fmt::format("[{}]", impl_->host) : impl_->host;
  return fmt::format("http://{}:{}", host, impl_->port);
}

}  // namespace thimble::net
