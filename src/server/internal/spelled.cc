#include "server/internal/spelled.h"

#include "text/json_text.h"

namespace thimble::server {

std::string_view spelled(std::string_view object, std::string_view name) {
  const auto members = text::json_members(object);
  if (!members) return {};
  for (auto it = members->rbegin(); it != members->rend(); ++it) {
    if (it->key == name) return it->value;
  }
  return {};
}

}  // namespace thimble::server
