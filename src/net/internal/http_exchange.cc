#include <boost/asio/post.hpp>

#include "net/internal/http_connection.h"

namespace thimble::net {

void Mailbox::post(std::function<void()> task) {
  const std::lock_guard lock(mutex_);
  if (io_ != nullptr) asio::post(*io_, std::move(task));
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  io_ = nullptr;
}

bool Outbox::add(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  const bool was_empty = bytes_.empty();
  bytes_ += bytes;
  return was_empty && !bytes.empty();
}

std::string Outbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(bytes_, {});
}

Exchange::Exchange(HttpRequest request, std::weak_ptr<Connection> connection,
                   std::shared_ptr<Mailbox> mailbox, uint64_t unsent_bytes_max)
    : request_(std::move(request)),
      connection_(std::move(connection)),
      mailbox_(std::move(mailbox)),
      unsent_bytes_max_(unsent_bytes_max) {}

Exchange::~Exchange() {
  if (!finish()) return;
  if (gone_) {
    on_connection([](Connection& connection) { connection.close(); });
  } else {
    on_connection([](Connection& connection) { connection.refuse({500, "no answer was made"}); });
  }
}

void Exchange::on_connection(std::function<void(Connection&)> task) {
  mailbox_->post([weak = connection_, task = std::move(task)] {
    if (const auto connection = weak.lock()) task(*connection);
  });
}

bool Exchange::finish() {
  std::function<void()> released;  // destroyed after the lock: it may hold this exchange's owner
  const std::lock_guard lock(mutex_);
  if (finished_) return false;
  finished_ = true;
  released.swap(on_gone_);
  return true;
}

void Exchange::respond(HttpResponse response) {
  if (!finish()) return;
  on_connection([response = std::move(response)](Connection& c) { c.respond(response); });
}

void Exchange::begin_stream(HttpResponse head, StreamOptions options) {
  on_connection([head = std::move(head), options = std::move(options),
                 outbox = outbox_](Connection& c) { c.begin_stream(head, options, outbox); });
}

bool Exchange::write(std::string bytes) {
  if (gone_) return false;
  const uint64_t unsent = unsent_bytes_.fetch_add(bytes.size()) + bytes.size();
  if (unsent > unsent_bytes_max_) {
    on_connection([](Connection& connection) { connection.close(); });
    mark_gone();
    return false;
  }
  if (outbox_->add(bytes)) on_connection([](Connection& c) { c.take_outbox(); });
  return true;
}

void Exchange::end_stream() {
  if (!finish()) return;
  on_connection([](Connection& connection) { connection.end_stream(); });
}

void Exchange::abort_stream(HttpResponse unsent, std::string tail) {
  if (!finish()) return;
  on_connection([unsent = std::move(unsent), tail = std::move(tail)](Connection& c) {
    c.abort_stream(unsent, tail);
  });
}

void Exchange::on_gone(std::function<void()> gone) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (!gone_) {
      on_gone_ = std::move(gone);
      return;
    }
  }
  gone();
}

void Exchange::mark_gone() {
  std::function<void()> call;
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    call.swap(on_gone_);
  }
  if (call) call();
}

}  // namespace thimble::net
