#include "base/terminal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "base/bytes.h"
#include "base/clock.h"

namespace thimble::base {
namespace {

const char* code(Style style) {
  switch (style) {
    case Style::kBold:
      return "1";
    case Style::kDim:
      return "2";
    case Style::kRed:
      return "31";
    case Style::kGreen:
      return "32";
    case Style::kYellow:
      return "33";
    case Style::kCyan:
      return "36";
  }
  return "0";
}

}  // namespace

bool wants_colour(Stream stream) {
  // NOLINTBEGIN(concurrency-mt-unsafe): the two terminal conventions; nothing here calls setenv
  const char* term = std::getenv("TERM");
  const char* no_colour = std::getenv("NO_COLOR");
  // NOLINTEND(concurrency-mt-unsafe)
  if (no_colour != nullptr && *no_colour != '\0') return false;
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return ::isatty(stream == Stream::kOut ? STDOUT_FILENO : STDERR_FILENO) == 1;
}

std::string styled(Stream stream, Style style, std::string_view text) {
  if (!wants_colour(stream)) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", code(style), text);
}

std::string printable(std::string_view text, size_t bytes_max) {
  std::string out;
  for (const char c : text.substr(0, bytes_max)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  return text.size() > bytes_max ? out + "..." : out;
}

Progress::Progress(std::string label, uint64_t total, Unit unit)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      shown_(::isatty(STDERR_FILENO) == 1),
      start_us_(monotonic_us()) {}

Progress::~Progress() {
  if (shown_ && drawn_us_ != 0) {
    draw();
    std::fputs("\n", stderr);
  }
}

void Progress::add(uint64_t amount) {
  done_ += amount;
  const int64_t now = monotonic_us();
  if (shown_ && now - drawn_us_ > 100'000 && now - start_us_ > 300'000) {
    drawn_us_ = now;
    draw();
  }
}

void Progress::draw() {
  constexpr int kWidth = 30;
  const double share =
      total_ == 0 ? 1.0 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * kWidth);
  const double seconds = static_cast<double>(monotonic_us() - start_us_) * 1e-6;
  const double left = share > 0 ? seconds * (1.0 - share) / share : 0.0;
  const std::string amount = unit_ == Unit::kBytes
                                 ? human_bytes(done_) + " / " + human_bytes(total_)
                                 : fmt::format("{} / {}", done_, total_);
  fmt::print(stderr, "\r\x1b[K{} [{:<{}}] {:3.0f}%  {}  {:.0f}s left", label_,
             std::string(static_cast<size_t>(filled), '#'), kWidth, share * 100, amount, left);
  std::fflush(stderr);
}

}  // namespace thimble::base
