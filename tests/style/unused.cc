#include "tests/style/unused.h"

#include <map>
#include <set>
#include <sstream>

namespace thimble::style {
namespace {

// Every word of every CMakeLists.txt that names a .cc file, as a path from the root.
std::set<std::string> listed_sources(const std::vector<SourceFile>& files) {
  constexpr std::string_view kName = "CMakeLists.txt";
  std::set<std::string> listed;
  for (const SourceFile& file : files) {
    if (!file.path.ends_with(kName)) continue;
    const std::string folder = file.path.substr(0, file.path.size() - kName.size());
    for (const std::string& line : file.lines) {
      std::string words = line.substr(0, line.find('#'));
      for (char& c : words) {
        if (c == '(' || c == ')' || c == '"') c = ' ';
      }
      std::istringstream in(words);
      for (std::string word; in >> word;) {
        if (word.ends_with(".cc")) listed.insert(folder + word);
      }
    }
  }
  return listed;
}

// Headers named by an #include somewhere else than in a unit test, as paths from the root. A header
// that only serves tests says so in its name.
std::set<std::string> included_headers(const std::vector<SourceFile>& files) {
  std::set<std::string> included;
  for (const SourceFile& file : files) {
    for (const Include& include : file.includes) {
      for (const std::string& path : {"src/" + include.target, include.target}) {
        const bool only_test = file.path.ends_with("_test.cc") && path.starts_with("src/") &&
                               path.find("test") == std::string::npos &&
                               path.find("fake") == std::string::npos;
        if (path != file.path && !only_test) included.insert(path);
      }
    }
  }
  return included;
}

}  // namespace

std::vector<Finding> check_unused(const std::vector<SourceFile>& files) {
  const std::set<std::string> listed = listed_sources(files);
  const std::set<std::string> included = included_headers(files);
  std::vector<Finding> findings;
  for (const SourceFile& file : files) {
    if (file.path.ends_with(".cc") && listed.count(file.path) == 0) {
      findings.push_back({file.path, 0, "no CMakeLists.txt lists it"});
    }
    if (is_header(file.path) && included.count(file.path) == 0) {
      findings.push_back({file.path, 0, "nothing but tests includes it"});
    }
  }
  return findings;
}

}  // namespace thimble::style
