// What a person sees: colours and progress bars, only when the stream is a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thimble::base {

enum class Style { kBold, kDim, kRed, kGreen, kYellow, kCyan };
enum class Stream { kOut, kErr };

// Is that stream a terminal that wants colours (NO_COLOR unset, TERM not dumb)?
bool wants_colour(Stream stream);

// `text`, wrapped in the style's escape codes if the stream wants colours.
std::string styled(Stream stream, Style style, std::string_view text);

// `text` with control bytes escaped ("\x1b") and cut after `bytes_max`: names out of files end up
// on terminals.
std::string printable(std::string_view text, size_t bytes_max = 120);

// A progress bar on standard error; silent when that is no terminal.
//
//   Progress bar("loading", total_bytes, Progress::Unit::kBytes);
//   bar.add(n);   // the destructor ends the line
class Progress {
 public:
  enum class Unit { kCount, kBytes };
  Progress(std::string label, uint64_t total, Unit unit);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void add(uint64_t amount);

 private:
  void draw();
  std::string label_;
  uint64_t total_;
  uint64_t done_ = 0;
  Unit unit_;
  bool shown_;
  int64_t start_us_;
  int64_t drawn_us_ = 0;
};

}  // namespace thimble::base
