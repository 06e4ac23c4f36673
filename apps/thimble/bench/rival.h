// Another engine's MXFP4 product beside ours, in the same run: ggml as npm ships it prebuilt
// (scripts/rival.sh fetches it). Its libraries are opened at run time; nothing of it is built or
// linked.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/file.h"

namespace thimble::app {

// One shape with n rows of x, weights rotated as ours are. One thread calls.
class RivalProduct {
 public:
  virtual ~RivalProduct() = default;
  virtual void run(size_t turn) = 0;
  // Sends its threads to sleep: they wait for more work by asking for it all the time.
  virtual void rest() = 0;
};

class Rival {
 public:
  // The variant of its CPU backend that may use what our instruction set `isa` may: for the widest
  // the best that runs here, whatever it uses besides. kNotFound: `folder` has none.
  static Result<std::unique_ptr<Rival>> open(const Path& folder, std::string_view isa,
                                             uint32_t threads);
  virtual ~Rival() = default;

  virtual std::string_view variant() const = 0;  // "haswell"
  // Weights [outputs, inputs] in the layout that it prefers. The Rival must outlive it.
  virtual Result<std::unique_ptr<RivalProduct>> product(uint32_t outputs, uint32_t inputs,
                                                        uint64_t rows) = 0;
};

// Where scripts/rival.sh puts the libraries, seen from the root of the repository.
inline constexpr const char* kRivalFolder = "build/rival/package/bins/linux-x64";

}  // namespace thimble::app
