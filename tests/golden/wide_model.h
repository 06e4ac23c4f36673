// The checkpoint of tests/golden/wide, made once a build folder: 1.6 GB from integers alone.
#pragma once

#include <cstdlib>
#include <string>

#include "base/check.h"
#include "tests/golden/golden.h"

namespace thimble::golden {

// The model's directory. `make_wide`: the program that writes it.
inline Path wide_model(const Path& directory, const std::string& make_wide) {
  if (!std::filesystem::exists(directory / "model.safetensors")) {
    std::filesystem::create_directories(directory);
    CHECK_EQ(std::system((make_wide + " " + directory.string()).c_str()), 0);
  }
  std::filesystem::copy_file(path("wide/config.json"), directory / "config.json",
                             std::filesystem::copy_options::overwrite_existing);
  return directory;
}

}  // namespace thimble::golden
