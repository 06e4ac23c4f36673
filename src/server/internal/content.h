// What a message says: a string, or parts, which the two dialects name differently.
#pragma once

#include <string>
#include <vector>

#include "server/internal/json.h"
#include "text/chat_format.h"

namespace thimble::server {

enum class PartNames {
  kChat,       // "text", "image_url"
  kResponses,  // "input_text", "output_text", "input_image", ...
};

// Images are refused with code not_supported.
ApiResult<std::vector<text::ContentPart>> read_content(const Json& content, const std::string& path,
                                                       PartNames names);

}  // namespace thimble::server
