// Lines from a person or a pipe.
//
// On a terminal: editing and history by libedit, a pasted text of several lines stays one message,
// and history is kept in a file. From a pipe, or with no terminal to show the editing on: plain
// lines, nothing shown. In both a line that ends
// in a backslash goes on in the next. One object per process, used by one thread.
#pragma once

#include <memory>
#include <string>

#include "base/file.h"

namespace thimble::app {

class LineEditor {
 public:
  // `history`: read now and written by the destructor; empty: history ends with the process.
  explicit LineEditor(Path history);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  enum class Event {
    kMessage,
    kInterrupt,  // Ctrl-C: what was typed is dropped
    kEnd,        // Ctrl-D on an empty line, or the pipe's end
  };

  // `message` gets the text without its last newline.
  Event read(std::string& message);

  bool interactive() const { return terminal_ != nullptr; }

 private:
  struct Terminal;
  Event read_line(bool continues, std::string& line);

  std::unique_ptr<Terminal> terminal_;  // null: plain lines
};

}  // namespace thimble::app
