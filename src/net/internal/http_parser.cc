#include "net/internal/http_parser.h"

#include <utility>  // before Beast 1.74, which forgets it

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/check.h"

namespace thimble::net {

namespace http = boost::beast::http;

struct HttpParser::Impl {
  http::request_parser<http::string_body> parser;
  HttpLimits limits;
  bool host_checked = false;
};

namespace {

HttpRefusal refusal_of(const boost::beast::error_code& error, const HttpLimits& limits) {
  if (error == http::error::header_limit) {
    return {431, fmt::format("the request's headers exceed {} bytes", limits.header_bytes)};
  }
  if (error == http::error::body_limit) {
    return {413, fmt::format("the request's body exceeds {} bytes", limits.body_bytes)};
  }
  if (error == http::error::bad_version) return {505, "this is not HTTP/1.0 or HTTP/1.1"};
  return {400, fmt::format("this is not an HTTP request: {}", error.message())};
}

std::string text_of(boost::beast::string_view view) { return {view.data(), view.size()}; }

// "http://host/path" (absolute form, RFC 9112 3.2.2) names the same thing as "/path".
std::string_view without_authority(std::string_view target) {
  const size_t scheme = target.find("://");
  if (target.starts_with('/') || scheme == std::string_view::npos) return target;
  const size_t slash = target.find('/', scheme + 3);
  return slash == std::string_view::npos ? "/" : target.substr(slash);
}

}  // namespace

HttpParser::HttpParser(const HttpLimits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->limits = limits;
  impl_->parser.header_limit(static_cast<uint32_t>(limits.header_bytes));
  impl_->parser.body_limit(limits.body_bytes);
  impl_->parser.eager(true);
}

HttpParser::~HttpParser() = default;

tl::expected<size_t, HttpRefusal> HttpParser::feed(std::string_view data) {
  CHECK(!done());
  size_t used = 0;
  // A step ends early at a chunk's border, hence the loop.
  while (used < data.size() && !done()) {
    boost::beast::error_code error;
    size_t step = 0;
    try {
      step = impl_->parser.put(boost::asio::buffer(data.data() + used, data.size() - used), error);
    } catch (const std::exception& thrown) {  // out of memory for the body
      return tl::unexpected(
          HttpRefusal{503, fmt::format("no room for the body: {}", thrown.what())});
    }
    used += step;
    if (error == http::error::need_more) break;
    if (error) return tl::unexpected(refusal_of(error, impl_->limits));
    if (step == 0) break;
  }
  if (header_done() && !impl_->host_checked) {
    impl_->host_checked = true;
    const auto& message = impl_->parser.get();
    if (message.version() >= 11 && message.count(http::field::host) != 1) {
      return tl::unexpected(HttpRefusal{400, "an HTTP/1.1 request needs one Host header"});
    }
  }
  return used;
}

bool HttpParser::header_done() const { return impl_->parser.is_header_done(); }
bool HttpParser::done() const { return impl_->parser.is_done(); }

bool HttpParser::expects_continue() const {
  const auto& message = impl_->parser.get();
  return message.version() >= 11 &&
         boost::beast::iequals(message[http::field::expect], "100-continue");
}

uint64_t HttpParser::declared_body_bytes() const {
  return impl_->parser.content_length().value_or(0);
}

uint64_t HttpParser::body_bytes() const { return impl_->parser.get().body().size(); }

HttpRequest HttpParser::take() {
  CHECK(done());
  auto message = impl_->parser.release();
  HttpRequest request;
  request.method = text_of(message.method_string());
  const std::string target = text_of(message.target());
  const std::string_view local = without_authority(target);
  const size_t question = local.find('?');
  request.path = local.substr(0, question);
  if (question != std::string_view::npos) request.query = local.substr(question + 1);
  for (const auto& field : message) {
    request.headers.push_back({text_of(field.name_string()), text_of(field.value())});
  }
  request.http_1_1 = message.version() >= 11;
  request.keep_alive = message.keep_alive();
  request.body = std::move(message.body());
  return request;
}

}  // namespace thimble::net
