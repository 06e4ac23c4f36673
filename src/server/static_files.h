// A few files that came with the binary, served with types, validators and a strict policy.
//
// Immutable after construction; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "net/http.h"

namespace thimble::server {

struct StaticFile {
  std::string path;  // "/app.js"; "/" is the page
  std::string content_type;
  std::string_view bytes;  // must outlive the server
};

class StaticFiles {
 public:
  explicit StaticFiles(const std::vector<StaticFile>& files);

  bool has(std::string_view path) const;

  // 200 with the file, or 304 where the client has it already. REQUIRES: has(request.path).
  net::HttpResponse serve(const net::HttpRequest& request) const;

 private:
  struct Entry {
    StaticFile file;
    std::string etag;
  };
  const Entry* find(std::string_view path) const;
  std::vector<Entry> entries_;
};

}  // namespace thimble::server
