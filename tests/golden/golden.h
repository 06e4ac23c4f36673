// Opens the golden data of this folder by name, for tests of any module.
//
//   const auto exact = golden::open("t2_text_minimal/vectors/exact.safetensors");
//   const auto logits = golden::view(exact, "logits").as<float>();
// A missing file or tensor fails the test by name; nothing is skipped.
#pragma once

#include <string>
#include <string_view>

#include "arch/safetensors.h"
#include "base/check.h"

namespace thimble::golden {

inline Path path(std::string_view name) {
  return Path(THIMBLE_SOURCE_DIR) / "tests" / "golden" / name;
}

inline arch::SafetensorsFile open(std::string_view name) {
  auto file = arch::SafetensorsFile::open(path(name));
  if (!file) base::check_failed(__FILE__, __LINE__, "golden file opens", file.error().describe());
  return std::move(*file);
}

inline arch::TensorView view(const arch::SafetensorsFile& file, std::string_view name) {
  auto tensor = file.get(name);
  if (!tensor) {
    base::check_failed(__FILE__, __LINE__, "golden tensor exists", tensor.error().describe());
  }
  return *tensor;
}

inline std::string text(std::string_view name) {
  auto content = base::read_file(path(name));
  if (!content) base::check_failed(__FILE__, __LINE__, "golden file", content.error().describe());
  return *content;
}

}  // namespace thimble::golden
