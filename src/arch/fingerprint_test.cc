// Aim: the fingerprint changes with any weight that it reads whole, and with nothing but weights.
// Method: a small random checkpoint, copied and changed by one byte in one tensor at a time.
#include "arch/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "arch/presets.h"
#include "arch/random_weights.h"

namespace thimble::arch {
namespace {

Fingerprint of(const Path& directory) {
  const auto opened = Checkpoint::open(directory);
  CHECK(opened.has_value());
  return fingerprint(*opened);
}

// Flips a bit in the middle of a tensor's bytes, in the one file of a small checkpoint.
void flip_bit(const Path& directory, const std::string& name) {
  const Path path = directory / "model.safetensors";
  uint64_t at = 0;
  {
    const auto file = SafetensorsFile::open(path);
    CHECK(file.has_value());
    const auto view = file->get(name);
    CHECK(view.has_value());
    // Header length, header, then data; the first tensor lies where the data begin.
    const std::byte* first = view->data.data();
    for (const auto& [other, tensor] : file->tensors()) first = std::min(first, tensor.data.data());
    const uint64_t data = std::filesystem::file_size(path) - [&] {
      uint64_t bytes = 0;
      for (const auto& [other, tensor] : file->tensors()) bytes += tensor.data.size();
      return bytes;
    }();
    at = data + static_cast<uint64_t>(view->data.data() - first) + view->data.size() / 2;
  }
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekg(static_cast<std::streamoff>(at));
  const int byte = stream.get();
  stream.seekp(static_cast<std::streamoff>(at));
  stream.put(static_cast<char>(byte ^ 1));
}

TEST(Fingerprint, FollowsTheWeightsAndNothingElse) {
  const base::TempDir folder;
  const Path a = folder.path() / "a", b = folder.path() / "b", c = folder.path() / "c";
  const Config config = nano_config(300, 200);
  for (const auto& [path, seed] : {std::pair(a, 1), std::pair(b, 1), std::pair(c, 2)}) {
    std::filesystem::create_directories(path);
    ASSERT_TRUE(
        write_random_checkpoint(config, path, static_cast<uint64_t>(seed), [](uint64_t) {}));
  }
  const Fingerprint first = of(a);
  EXPECT_EQ(first, of(b));
  EXPECT_NE(first, of(c));
  for (const char* name : {"norm.weight", "layers.0.attn.wq_a.weight", "layers.1.hc_attn_fn",
                           "layers.1.ffn.experts.0.w1.weight"}) {
    flip_bit(b, name);
    EXPECT_NE(first, of(b)) << name;
    flip_bit(b, name);
  }
  EXPECT_EQ(first, of(b));
}

}  // namespace
}  // namespace thimble::arch
