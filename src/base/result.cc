#include "base/result.h"

namespace thimble::base {

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid argument";
    case ErrorCode::kNotFound:
      return "not found";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kResourceExhausted:
      return "resource exhausted";
    case ErrorCode::kUnavailable:
      return "unavailable";
    case ErrorCode::kCancelled:
      return "cancelled";
    case ErrorCode::kIo:
      return "input/output error";
    case ErrorCode::kInternal:
      return "internal error";
  }
  return "unknown error";
}

std::string Error::describe() const {
  std::string out;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) out += *step + ": ";
  return out + message;
}

}  // namespace thimble::base
