#include "net/internal/http_connection.h"

#include <fmt/chrono.h>
#include <poll.h>

#include <boost/asio/buffer.hpp>
#include <ctime>

#include "base/check.h"
#include "base/clock.h"

namespace thimble::net {
namespace {

constexpr size_t kReadBytes = 16 << 10;
constexpr uint32_t kTickMs = 1000;
constexpr uint32_t kLingerMs = 2000;
constexpr uint32_t kLingerStoppingMs = 100;

std::string http_date() {
  return fmt::format("{:%a, %d %b %Y %H:%M:%S} GMT", fmt::gmtime(std::time(nullptr)));
}

bool may_have_body(uint32_t status) { return status >= 200 && status != 204 && status != 304; }

}  // namespace

Connection::Connection(tcp::socket socket, ServerState& server)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), server_(server) {
  read_buffer_.resize(kReadBytes);
}

void Connection::start() { next_request(); }

void Connection::refuse_busy() {
  refuse({503, fmt::format("all {} connections are taken", server_.limits.connections)});
}

void Connection::stop_soon() {
  if (state_ == State::kAnswering) {
    keep_alive_ = false;
  } else if (state_ == State::kLingering) {
    arm(kLingerStoppingMs);  // it began with the long wait, before the stop
  } else {
    close();
  }
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const auto self = shared_from_this();
  boost::system::error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  account_body(0);
  server_.connections.erase(this);
  if (const auto exchange = exchange_.lock()) exchange->mark_gone();
  if (server_.stopping && server_.connections.empty()) server_.on_last_closed();
}

// Reading

void Connection::read() {
  if (reading_ || state_ == State::kClosed || peer_done_) return;
  reading_ = true;
  socket_.async_read_some(
      asio::buffer(read_buffer_),
      [self = shared_from_this()](const boost::system::error_code& error, size_t bytes) {
        self->reading_ = false;
        self->on_read(error, bytes);
      });
}

void Connection::on_read(const boost::system::error_code& error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) {
    if (state_ == State::kAnswering && error == asio::error::eof) {
      on_half_closed();
    } else {
      close();
    }
    return;
  }
  switch (state_) {
    case State::kIdle:
    case State::kReading:
      in_.append(read_buffer_, 0, bytes);
      advance();
      break;
    case State::kAnswering:
      in_.append(read_buffer_, 0, bytes);
      if (in_.size() < server_.limits.pipelined_bytes) read();
      break;
    case State::kLingering:
      read();
      break;
    case State::kClosed:
      break;
  }
}

// The client will send no more. Almost always it has left, so whoever makes its answer is told; but
// an answer that comes at once is still sent, for the few that only closed their sending side.
void Connection::on_half_closed() {
  peer_done_ = true;
  keep_alive_ = false;
  if (const auto exchange = exchange_.lock()) exchange->mark_gone();
}

void Connection::advance() {
  if (in_.empty()) return read();
  if (state_ == State::kIdle) {
    state_ = State::kReading;
    parser_.emplace(server_.limits);
    continue_sent_ = false;
    arm(server_.limits.header_ms);
  }
  const auto used = parser_->feed(in_);
  if (!used) return refuse(used.error());
  in_.erase(0, *used);
  if (parser_->header_done() && !check_body()) return;
  if (parser_->done()) return dispatch();
  read();
}

// After the headers: is there room for the body, and does the client wait for a word?
bool Connection::check_body() {
  const uint64_t wanted = std::max(parser_->declared_body_bytes(), parser_->body_bytes());
  if (server_.bodies_bytes - accounted_ + wanted > server_.limits.bodies_bytes) {
    refuse({503, "too many large requests at once"});
    return false;
  }
  account_body(wanted);
  if (parser_->done()) return true;
  if (parser_->expects_continue() && !continue_sent_) {
    continue_sent_ = true;
    send("HTTP/1.1 100 Continue\r\n\r\n");
  }
  arm(server_.limits.body_ms);
  return true;
}

void Connection::account_body(uint64_t bytes) {
  server_.bodies_bytes += bytes - accounted_;
  accounted_ = bytes;
}

void Connection::dispatch() {
  HttpRequest request = parser_->take();
  parser_.reset();
  begin_answer();
  keep_alive_ = request.keep_alive && !server_.stopping;
  http_1_1_ = request.http_1_1;
  head_only_ = request.method == "HEAD";
  auto exchange = std::make_shared<Exchange>(std::move(request), weak_from_this(), server_.mailbox,
                                             server_.limits.unsent_bytes);
  exchange_ = exchange;
  read();
  server_.handler(std::move(exchange));
}

void Connection::begin_answer() {
  state_ = State::kAnswering;
  last_word_ = false;
  streaming_ = false;
  head_only_ = false;
  http_1_1_ = true;
  head_.reset();
  arm(kTickMs);
}

void Connection::refuse(const HttpRefusal& refusal) {
  if (state_ == State::kClosed || state_ == State::kLingering) return;
  if (state_ == State::kAnswering && streaming_ && !head_) return close();  // too late for a status
  const bool was_head = state_ == State::kAnswering && head_only_;
  parser_.reset();
  begin_answer();
  head_only_ = was_head;
  keep_alive_ = false;
  HttpResponse response;
  if (server_.refuser) {
    response = server_.refuser(refusal.status, refusal.message);
  } else {
    response = {refusal.status, {{"Content-Type", "text/plain"}}, refusal.message + "\n"};
  }
  respond(response);
}

// Answering

std::string Connection::head_text(const HttpResponse& response, bool stream) const {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\nDate: {}\r\n", response.status,
                                reason_phrase(response.status), http_date());
  for (const HttpHeader& header : response.headers) {
    DCHECK(header.value.find_first_of("\r\n") == std::string::npos);
    out += fmt::format("{}: {}\r\n", header.name, header.value);
  }
  if (stream && http_1_1_) {
    out += "Transfer-Encoding: chunked\r\n";
  } else if (!stream && may_have_body(response.status)) {
    out += fmt::format("Content-Length: {}\r\n", response.body.size());
  }
  out += keep_alive_ ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return out;
}

void Connection::respond(const HttpResponse& response) {
  if (state_ != State::kAnswering || last_word_) return;
  last_word_ = true;
  std::string out = head_text(response, false);
  if (!head_only_ && may_have_body(response.status)) out += response.body;
  send(out);
}

void Connection::begin_stream(const HttpResponse& head, const StreamOptions& options,
                              std::shared_ptr<Outbox> outbox) {
  if (state_ != State::kAnswering || last_word_ || streaming_) return;
  streaming_ = true;
  // A stream is the last answer of its connection. Without chunks only closing ends it; with them
  // node-fetch 2 on Debian's Node.js 18 takes the end of a kept connection for a broken answer.
  keep_alive_ = false;
  head_ = head_text(head, true);
  stream_ = options;
  outbox_ = std::move(outbox);
  quiet_since_us_ = base::monotonic_us();
  arm(tick_ms());
}

void Connection::release_head() {
  if (!head_) return;
  const std::string head = std::move(*head_);
  head_.reset();
  send(head);
}

void Connection::take_outbox() {
  if (!outbox_) return;
  const std::string bytes = outbox_->take();
  if (bytes.empty()) return;
  write(bytes);
}

void Connection::write(std::string_view bytes) {
  if (state_ != State::kAnswering || last_word_ || !streaming_) return;
  release_head();
  stream_out_ += bytes.size();
  send_chunk(bytes);
}

void Connection::send_chunk(std::string_view bytes) {
  quiet_since_us_ = base::monotonic_us();
  if (bytes.empty() || head_only_) return;  // an empty chunk would end the body
  if (http_1_1_) {
    send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
  } else {
    send(bytes);
  }
}

void Connection::end_stream() {
  if (state_ != State::kAnswering || last_word_ || !streaming_) return;
  take_outbox();
  release_head();
  last_word_ = true;
  if (http_1_1_ && !head_only_) {
    send("0\r\n\r\n");
  } else if (sending_.empty() && out_.empty()) {
    answer_complete();
  }
}

void Connection::abort_stream(const HttpResponse& unsent, std::string_view tail) {
  take_outbox();
  if (!streaming_ || head_) {
    head_.reset();
    streaming_ = false;
    return respond(unsent);
  }
  write(tail);
  end_stream();
}

void Connection::send(std::string_view bytes) {
  out_ += bytes;
  if (sending_.empty()) start_write();
}

void Connection::start_write() {
  sending_.swap(out_);
  stream_sending_ = std::exchange(stream_out_, 0);
  sent_ = 0;
  write_some();
}

void Connection::write_some() {
  last_progress_us_ = base::monotonic_us();
  socket_.async_write_some(
      asio::buffer(sending_.data() + sent_, sending_.size() - sent_),
      [self = shared_from_this()](const boost::system::error_code& error, size_t bytes) {
        self->on_written(error, bytes);
      });
}

void Connection::on_written(const boost::system::error_code& error, size_t bytes) {
  if (state_ == State::kClosed) return;
  if (error) return close();
  sent_ += bytes;
  if (sent_ < sending_.size()) return write_some();
  sending_.clear();
  if (const auto exchange = exchange_.lock()) exchange->sent(stream_sending_);
  stream_sending_ = 0;
  if (!out_.empty()) return start_write();
  if (last_word_ && state_ == State::kAnswering) answer_complete();
}

void Connection::answer_complete() {
  exchange_.reset();
  outbox_.reset();
  account_body(0);
  if (keep_alive_ && !server_.stopping) {
    next_request();
  } else {
    linger();
  }
}

void Connection::next_request() {
  state_ = State::kIdle;
  // While the server stops, only who speaks at once is heard.
  arm(server_.stopping ? kLingerStoppingMs : server_.limits.idle_ms);
  advance();
}

// Closing at once while the client still sends would reset the connection and could destroy an
// answer it has not read yet (RFC 9112 9.6): close our side, read on for a moment.
void Connection::linger() {
  if (peer_done_) return close();
  state_ = State::kLingering;
  in_.clear();
  boost::system::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  arm(server_.stopping ? kLingerStoppingMs : kLingerMs);
  read();
}

// Time: one timer, a deadline while a request arrives, a tick while its answer is made.

uint32_t Connection::tick_ms() const {
  if (!streaming_ || stream_.heartbeat.empty()) return kTickMs;
  return std::clamp<uint32_t>(stream_.heartbeat_ms, 1, kTickMs);
}

void Connection::arm(uint32_t ms) {
  timer_.expires_after(std::chrono::milliseconds(ms));
  const uint64_t serial = ++timer_serial_;
  timer_.async_wait([self = shared_from_this(), serial](const boost::system::error_code& error) {
    if (!error && serial == self->timer_serial_) self->on_timer();
  });
}

void Connection::on_timer() {
  switch (state_) {
    case State::kReading:
      return refuse({408, "the request did not arrive in time"});
    case State::kAnswering:
      return tick();
    case State::kIdle:
    case State::kLingering:
      return close();
    case State::kClosed:
      return;
  }
}

void Connection::tick() {
  const int64_t now = base::monotonic_us();
  if (!sending_.empty() && now - last_progress_us_ > server_.limits.stalled_write_ms * 1000LL) {
    return close();
  }
  if (!reading_ && !peer_done_ && peer_hung_up()) on_half_closed();
  if (streaming_ && !last_word_ && !stream_.heartbeat.empty() && sending_.empty() &&
      now - quiet_since_us_ >= stream_.heartbeat_ms * 1000LL) {
    release_head();
    send_chunk(stream_.heartbeat);
  }
  arm(tick_ms());
}

// For the rare client that pipelined so much that we stopped reading.
bool Connection::peer_hung_up() {
  pollfd poll_for{socket_.native_handle(), POLLRDHUP, 0};
  return ::poll(&poll_for, 1, 0) > 0 && (poll_for.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

}  // namespace thimble::net
