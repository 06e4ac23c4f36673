// One client's socket: reads requests, runs the handler, sends answers, notices who left.
//
// Everything in Connection happens on the I/O thread. Exchange is its other half, which the handler
// owns: it may live on any thread and outlive the connection and the server, so it holds no
// connection, only a weak pointer to one and a mailbox to the I/O thread.
#pragma once

#include <utility>  // before Asio 1.74, which forgets it

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "net/http.h"
#include "net/internal/http_parser.h"

namespace thimble::net {

namespace asio = boost::asio;
using asio::ip::tcp;

// Runs functions on the I/O thread until it is closed; then drops them.
class Mailbox {
 public:
  explicit Mailbox(asio::io_context& io) : io_(&io) {}
  void post(std::function<void()> task);
  void close();

 private:
  std::mutex mutex_;
  asio::io_context* io_;
};

// What a stream wrote and the I/O thread has not yet taken. Threads: any.
class Outbox {
 public:
  // True: the I/O thread has to be told; it knows already if something lies there.
  bool add(std::string_view bytes);
  std::string take();

 private:
  std::mutex mutex_;
  std::string bytes_;
};

class Connection;

// What connections share: limits, handler, who is connected. I/O thread only.
struct ServerState {
  HttpLimits limits;
  HttpHandler handler;
  HttpRefuser refuser;
  std::shared_ptr<Mailbox> mailbox;
  std::unordered_map<Connection*, std::shared_ptr<Connection>> connections;
  uint64_t bodies_bytes = 0;  // of requests that arrive or are being answered
  bool stopping = false;
  std::function<void()> on_last_closed;  // called when stopping and nobody is connected
};

class Exchange : public HttpExchange, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(HttpRequest request, std::weak_ptr<Connection> connection,
           std::shared_ptr<Mailbox> mailbox, uint64_t unsent_bytes_max);
  ~Exchange() override;

  const HttpRequest& request() const override { return request_; }
  void respond(HttpResponse response) override;
  void begin_stream(HttpResponse head, StreamOptions options) override;
  bool write(std::string bytes) override;
  void end_stream() override;
  void abort_stream(HttpResponse unsent, std::string tail) override;
  void on_gone(std::function<void()> gone) override;

  // From the connection: bytes that left, and the news that nobody is there any more.
  void sent(uint64_t bytes) { unsent_bytes_.fetch_sub(bytes); }
  void mark_gone();

 private:
  // True for the caller that says the last word.
  bool finish();
  void on_connection(std::function<void(Connection&)> task);

  const HttpRequest request_;
  const std::weak_ptr<Connection> connection_;
  const std::shared_ptr<Mailbox> mailbox_;
  const uint64_t unsent_bytes_max_;
  const std::shared_ptr<Outbox> outbox_ = std::make_shared<Outbox>();
  std::atomic<uint64_t> unsent_bytes_{0};
  std::atomic<bool> gone_{false};
  std::mutex mutex_;  // guards the rest
  bool finished_ = false;
  std::function<void()> on_gone_;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ServerState& server);
  void start();
  // Sends 503 and closes; for connections over the limit.
  void refuse_busy();
  // Closes at once if idle, else when the answer is complete.
  void stop_soon();
  void close();

  // Called through Exchange.
  void respond(const HttpResponse& response);
  void begin_stream(const HttpResponse& head, const StreamOptions& options,
                    std::shared_ptr<Outbox> outbox);
  // Something lies in the outbox.
  void take_outbox();
  void end_stream();
  void abort_stream(const HttpResponse& unsent, std::string_view tail);
  // Answers for the handler and closes. No answer may have begun.
  void refuse(const HttpRefusal& refusal);

 private:
  enum class State {
    kIdle,       // nothing of a request has arrived
    kReading,    // part of one has
    kAnswering,  // the handler has it
    kLingering,  // the last answer is sent; waiting for the client to close
    kClosed
  };

  void read();
  void on_read(const boost::system::error_code& error, size_t bytes);
  void on_half_closed();
  void advance();
  bool check_body();
  void account_body(uint64_t bytes);
  void dispatch();
  void begin_answer();

  std::string head_text(const HttpResponse& response, bool stream) const;
  void release_head();
  void write(std::string_view bytes);
  void send_chunk(std::string_view bytes);
  void send(std::string_view bytes);
  void start_write();
  void write_some();
  void on_written(const boost::system::error_code& error, size_t bytes);
  void answer_complete();
  void next_request();
  void linger();

  uint32_t tick_ms() const;
  void arm(uint32_t ms);
  void on_timer();
  void tick();
  bool peer_hung_up();

  tcp::socket socket_;
  asio::steady_timer timer_;
  uint64_t timer_serial_ = 0;  // an older wait that fires late is ignored
  ServerState& server_;
  State state_ = State::kIdle;

  // What arrives.
  std::string read_buffer_;  // filled by the pending read
  std::string in_;           // not yet parsed
  std::optional<HttpParser> parser_;
  bool reading_ = false;        // a read is pending
  bool peer_done_ = false;      // the client closed its sending side
  bool continue_sent_ = false;  // "100 Continue" for this request
  uint64_t accounted_ = 0;      // of server_.bodies_bytes

  // The answer being made.
  std::weak_ptr<Exchange> exchange_;
  bool keep_alive_ = false;
  bool http_1_1_ = true;
  bool head_only_ = false;  // HEAD: no body follows
  bool streaming_ = false;
  bool last_word_ = false;           // nothing will be added to the answer
  std::optional<std::string> head_;  // of a stream, not yet sent
  StreamOptions stream_;
  std::shared_ptr<Outbox> outbox_;
  int64_t quiet_since_us_ = 0;  // when the stream last said something

  // What leaves.
  std::string out_;              // after `sending_`
  std::string sending_;          // of the pending write; empty: none is pending
  size_t sent_ = 0;              // of `sending_`
  uint64_t stream_out_ = 0;      // bytes in out_ that count against the stream's buffer
  uint64_t stream_sending_ = 0;  // the same of sending_
  int64_t last_progress_us_ = 0;
};

}  // namespace thimble::net
