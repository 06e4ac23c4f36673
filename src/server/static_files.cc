#include "server/static_files.h"

#include "base/check.h"

namespace thimble::server {
namespace {

// The page runs its own script and style only and talks to this server only.
constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// FNV-1a: names the content; nobody attacks their own copy.
std::string etag_of(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : bytes) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ULL;
  return fmt::format("\"{:016x}\"", hash);
}

}  // namespace

StaticFiles::StaticFiles(const std::vector<StaticFile>& files) {
  for (const StaticFile& file : files) entries_.push_back({file, etag_of(file.bytes)});
}

const StaticFiles::Entry* StaticFiles::find(std::string_view path) const {
  for (const Entry& entry : entries_) {
    if (entry.file.path == path) return &entry;
  }
  return nullptr;
}

bool StaticFiles::has(std::string_view path) const { return find(path) != nullptr; }

net::HttpResponse StaticFiles::serve(const net::HttpRequest& request) const {
  const Entry* entry = find(request.path);
  CHECK(entry != nullptr);
  net::HttpResponse response;
  response.headers = {{"ETag", entry->etag},
                      {"Cache-Control", "no-cache"},  // ask each time; mostly a 304
                      {"Content-Security-Policy", kPolicy},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"}};
  if (request.header("If-None-Match").find(entry->etag) != std::string_view::npos) {
    response.status = 304;
    return response;
  }
  response.headers.push_back({"Content-Type", entry->file.content_type});
  response.body = entry->file.bytes;
  return response;
}

}  // namespace thimble::server
