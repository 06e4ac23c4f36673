// Equal random weight matrices, together larger than every cache: a benchmark takes them in turn.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/huge_memory.h"
#include "base/result.h"
#include "kernels/view.h"

namespace thimble::app {

class Rotation {
 public:
  // kernels::uncached_bytes() of them at least, in huge pages where there are some. `packed`: laid
  // out for speed.
  static Result<Rotation> create(kernels::WeightFormat format, uint32_t outputs, uint32_t inputs,
                                 bool packed);

  kernels::WeightView view(size_t turn) const { return views_[turn % views_.size()]; }
  // What each of them is, codes as the checkpoint has them.
  kernels::WeightView plain() const { return plain_; }
  double bytes_each() const { return bytes_each_; }
  Bytes memory() const { return memory_.bytes(); }

 private:
  Rotation() = default;

  base::HugeMemory memory_;
  double bytes_each_ = 0;  // codes and scales as the checkpoint has them
  std::vector<kernels::WeightView> views_;
  std::vector<std::byte> plain_bytes_;
  kernels::WeightView plain_;
};

std::vector<float> random_activations(uint64_t count);

}  // namespace thimble::app
