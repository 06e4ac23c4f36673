#include "text/stream_decoder.h"

#include <utility>

#include "text/utf8.h"

namespace thimble::text {

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  std::string out;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Step step = next_code_point(rest);
    if (step.incomplete) break;
    out.append(step.valid ? rest.substr(0, step.bytes) : kReplacementUtf8);
    rest.remove_prefix(step.bytes);
  }
  held_.erase(0, held_.size() - rest.size());
  return out;
}

std::string Utf8Stream::finish() { return to_valid_utf8(std::exchange(held_, {})); }

Result<std::string> StreamDecoder::push(int32_t id) {
  if (id < 0 || static_cast<uint32_t>(id) >= tokenizer_->size()) {
    return base::fail(ErrorCode::kInvalidArgument, "token id {}, expected 0 to {}", id,
                      tokenizer_->size() - 1);
  }
  return stream_.push(tokenizer_->token_bytes(id));
}

}  // namespace thimble::text
