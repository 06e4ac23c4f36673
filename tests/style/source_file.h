// The text of the repository as the style checks see it: files, their lines, and their code with
// comments and literals blanked out.
//
// Values only: a check takes files and returns findings, so that its self-test can hand it a bad
// sample from memory. Uses nothing of src/: the checks must work while src/ does not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thimble::style {

// What a check has against a place. Line 0 means the whole file.
struct Finding {
  std::string path;
  size_t line = 0;
  std::string message;
};

// "path:line: message"
std::string to_string(const Finding& finding);

struct Include {
  std::string target;  // as written between the quotes or brackets
  size_t line = 0;     // from 1
  bool quoted = false;
};

// One text file. `lines` are without their ends; `code_lines` are as long as `lines`, with spaces
// in place of comments and of what stands between quotes. For files that are not C++ they are
// equal.
struct SourceFile {
  std::string path;  // from the root of the repository, with '/'
  std::vector<std::string> lines;
  std::vector<std::string> code_lines;
  std::vector<Include> includes;
};

// A file from its text; what the self-tests feed to the checks.
SourceFile make_source_file(std::string path, std::string_view text);

// Every text file under `root` that somebody wrote: no build output, golden data, packages or
// lockfiles; of models their cards. Sorted by path.
std::vector<SourceFile> read_tree(const std::string& root);

// C++ text with comments and the inside of literals replaced by spaces; line breaks stay.
std::string blank_comments_and_literals(std::string_view text);

bool is_cpp(std::string_view path);
bool is_header(std::string_view path);
bool is_test(std::string_view path);  // x_test.cc, or anything under tests/

// The first folder under src/, empty for a file elsewhere: "src/arch/config.h" -> "arch".
std::string module_of(std::string_view path);

// Did the author say why this line may break a rule? A comment `style-ok: reason`, on the line or
// the one above.
bool is_excused(const SourceFile& file, size_t line);

}  // namespace thimble::style
