#include "apps/thimble/line_editor.h"

#include <histedit.h>
#include <langinfo.h>
#include <sys/stat.h>
#include <unistd.h>

#include <clocale>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/terminal.h"

namespace thimble::app {
namespace {

constexpr int kHistoryEntries = 1000;
constexpr wchar_t kControlC = L'\x03';

// Terminals that know bracketed paste mark what is pasted; others ignore these.
constexpr const char* kPasteMarksOn = "\x1b[?2004h";
constexpr const char* kPasteMarksOff = "\x1b[?2004l";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

// libedit reads characters by the locale's encoding; without one of UTF-8 it would take them apart.
void use_utf8() {
  std::setlocale(LC_CTYPE, "");  // NOLINT(concurrency-mt-unsafe): before any other thread reads it
  if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::Terminal {
  explicit Terminal(Path history_file);
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  Event read(bool continues, std::string& line);
  void remember(const std::string& message);

  static Terminal& of(EditLine* edit);
  static char* prompt(EditLine* edit);
  static unsigned char on_interrupt(EditLine* edit, wint_t key);
  static unsigned char on_suspend(EditLine* edit, wint_t key);
  static unsigned char on_paste(EditLine* edit, wint_t key);
  void bind();

  Path file;
  FILE* screen;  // where editing shows: never a pipe that collects answers
  EditLine* edit = nullptr;
  History* history = nullptr;
  std::string prompt_text;
  bool interrupted = false;
  struct sigaction old_int {};
};

LineEditor::Terminal::Terminal(Path history_file)
    : file(std::move(history_file)), screen(::isatty(STDOUT_FILENO) == 1 ? stdout : stderr) {
  use_utf8();
  edit = ::el_init("thimble", stdin, screen, stderr);
  history = ::history_init();
  CHECK(edit != nullptr && history != nullptr);
  HistEvent event;
  ::history(history, &event, H_SETSIZE, kHistoryEntries);
  ::history(history, &event, H_SETUNIQUE, 1);
  if (!file.empty()) ::history(history, &event, H_LOAD, file.c_str());
  bind();
  // Around the moments in which Ctrl-C is a key it must not end the session either.
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &ignore, &old_int);
}

LineEditor::Terminal::~Terminal() {
  ::sigaction(SIGINT, &old_int, nullptr);
  if (!file.empty()) {
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    const mode_t old = ::umask(S_IRWXG | S_IRWXO);  // what one types is nobody else's business
    HistEvent event;
    ::history(history, &event, H_SAVE, file.c_str());
    ::umask(old);
  }
  ::history_end(history);
  ::el_end(edit);
}

LineEditor::Terminal& LineEditor::Terminal::of(EditLine* edit) {
  void* self = nullptr;
  ::el_get(edit, EL_CLIENTDATA, &self);
  return *static_cast<Terminal*>(self);
}

char* LineEditor::Terminal::prompt(EditLine* edit) { return of(edit).prompt_text.data(); }

void LineEditor::Terminal::bind() {
  ::el_set(edit, EL_CLIENTDATA, this);
  ::el_set(edit, EL_PROMPT_ESC, &Terminal::prompt, '\1');
  ::el_set(edit, EL_EDITOR, "emacs");
  ::el_set(edit, EL_SIGNAL, 1);  // window size, suspend
  ::el_set(edit, EL_HIST, ::history, history);
  // While editing Ctrl-C is a key that drops the line, and Ctrl-Z one that suspends.
  ::el_set(edit, EL_SETTY, "-d", "-isig", nullptr);
  ::el_wset(edit, EL_ADDFN, L"thimble-suspend", L"back to the shell", &Terminal::on_suspend);
  ::el_wset(edit, EL_BIND, L"^Z", L"thimble-suspend", nullptr);
  ::el_wset(edit, EL_ADDFN, L"thimble-interrupt", L"drop the line", &Terminal::on_interrupt);
  ::el_wset(edit, EL_BIND, L"^C", L"thimble-interrupt", nullptr);
  ::el_wset(edit, EL_ADDFN, L"thimble-paste", L"take a pasted text whole", &Terminal::on_paste);
  ::el_wset(edit, EL_BIND, L"\\e[200~", L"thimble-paste", nullptr);
  ::el_source(edit, nullptr);  // ~/.editrc has the last word
}

unsigned char LineEditor::Terminal::on_interrupt(EditLine* edit, wint_t) {
  of(edit).interrupted = true;
  return CC_EOF;
}

unsigned char LineEditor::Terminal::on_suspend(EditLine*, wint_t) {
  ::raise(SIGTSTP);  // libedit's handler leaves and later restores the editing mode
  return CC_REFRESH;
}

// Takes the paste up to its end mark into the line being edited, newlines and all.
unsigned char LineEditor::Terminal::on_paste(EditLine* edit, wint_t) {
  std::wstring text;
  for (wchar_t c = 0; !text.ends_with(kPasteEnd) && ::el_wgetc(edit, &c) == 1;) {
    if (c == L'\r') c = L'\n';
    if (c >= L' ' || c == L'\n' || c == L'\t' || c == L'\x1b') text += c;
    if (c == kControlC) break;
  }
  if (text.ends_with(kPasteEnd)) text.resize(text.size() - kPasteEnd.size());
  while (text.ends_with(L'\n')) text.pop_back();
  std::erase(text, L'\x1b');
  if (!text.empty()) ::el_winsertstr(edit, text.c_str());
  return CC_REFRESH;
}

LineEditor::Event LineEditor::Terminal::read(bool continues, std::string& line) {
  const bool colour =
      base::wants_colour(screen == stdout ? base::Stream::kOut : base::Stream::kErr);
  const std::string mark = continues ? "." : ">";
  // \1 encloses what takes no room on the screen; libedit drops it at the very end.
  prompt_text = colour ? "\1\x1b[1m\1" + mark + "\1\x1b[0m\1 " : mark + " ";
  interrupted = false;
  ::el_set(edit, EL_PREP_TERM, 1);  // keys are keys before the prompt shows, not only after
  std::fputs(kPasteMarksOn, screen);
  std::fflush(screen);
  int count = 0;
  const char* const text = ::el_gets(edit, &count);
  std::fputs(kPasteMarksOff, screen);
  if (interrupted || text == nullptr || count <= 0) std::fputs("\n", screen);
  std::fflush(screen);
  if (interrupted) return Event::kInterrupt;
  if (text == nullptr || count <= 0) return Event::kEnd;
  line.assign(text, static_cast<size_t>(count));
  if (line.ends_with('\n')) line.pop_back();
  return Event::kMessage;
}

void LineEditor::Terminal::remember(const std::string& message) {
  if (message.find_first_not_of(" \n\t") == std::string::npos) return;
  HistEvent event;
  ::history(history, &event, H_ENTER, message.c_str());
}

LineEditor::LineEditor(Path history) {
  const bool seen = ::isatty(STDOUT_FILENO) == 1 || ::isatty(STDERR_FILENO) == 1;
  if (::isatty(STDIN_FILENO) == 1 && seen)
    terminal_ = std::make_unique<Terminal>(std::move(history));
}

LineEditor::~LineEditor() = default;

LineEditor::Event LineEditor::read_line(bool continues, std::string& line) {
  if (terminal_ != nullptr) return terminal_->read(continues, line);
  return std::getline(std::cin, line) ? Event::kMessage : Event::kEnd;
}

LineEditor::Event LineEditor::read(std::string& message) {
  message.clear();
  for (bool continues = false;; continues = true) {
    std::string line;
    const Event event = read_line(continues, line);
    if (event == Event::kEnd && continues) break;  // a backslash at the very end
    if (event != Event::kMessage) return event;
    message += line;
    if (!line.ends_with('\\')) break;
    message.back() = '\n';
  }
  if (terminal_ != nullptr) terminal_->remember(message);
  return Event::kMessage;
}

}  // namespace thimble::app
