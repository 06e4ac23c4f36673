// Runs a fuzz target over files and folders of inputs, without a fuzzer: the corpus and every input
// that once failed are ordinary tests of the default build.
//
//   TARGET_replay FOLDER_OR_FILE...
#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

int replayed = 0;

bool replay(const std::filesystem::path& file) {
  const auto input = thimble::base::read_file(file);
  if (!input) {
    fmt::print(stderr, "{}\n", input.error().describe());
    return false;
  }
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input->data()), input->size());
  ++replayed;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (!std::filesystem::is_directory(argv[i])) {
      if (!replay(argv[i])) return 1;
      continue;
    }
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file() && !replay(entry.path())) return 1;
    }
  }
  fmt::print("{} inputs replayed\n", replayed);
  return replayed > 0 ? 0 : 1;
}
