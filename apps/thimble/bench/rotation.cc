#include "apps/thimble/bench/rotation.h"

#include <cmath>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/packed.h"
#include "kernels/roofs.h"

namespace thimble::app {
namespace {

// Any bytes that are numbers in every format, and scales near one. Bfloat16 values are near one
// too: subnormal ones would cost some CPUs a hundred cycles a product.
void fill(kernels::WeightFormat format, std::byte* at, uint64_t codes, uint64_t scales) {
  base::SplitMix64 random(1);
  const bool bf16 = format == kernels::WeightFormat::kBF16;
  for (uint64_t i = 0; i < codes; ++i) {
    const bool exponent = bf16 && i % 2 == 1;
    at[i] = static_cast<std::byte>(exponent ? 0x3F : random.below(0x40));
  }
  for (uint64_t i = 0; i < scales; ++i) at[codes + i] = static_cast<std::byte>(118 + i % 4);
}

}  // namespace

Result<Rotation> Rotation::create(kernels::WeightFormat format, uint32_t outputs, uint32_t inputs,
                                  bool packed) {
  kernels::WeightView view{format, nullptr, nullptr, outputs, inputs};
  view.arithmetic = kernels::Arithmetic::kFast;
  const uint64_t codes = view.code_bytes();
  const uint64_t scales = view.scale_bytes();
  const uint64_t each =
      base::div_ceil(packed ? kernels::packed_bytes(view) : codes + scales, 4096) * 4096;
  const uint64_t count = base::div_ceil(kernels::uncached_bytes(), each);
  Rotation out;
  out.memory_ = THIMBLE_TRY(base::HugeMemory::create(count * each, "weights"));
  out.bytes_each_ = static_cast<double>(codes + scales);
  std::vector<std::byte> plain(codes + scales);
  fill(format, plain.data(), codes, scales);
  for (uint64_t i = 0; i < count; ++i) {
    std::byte* const mine = out.memory_.data() + i * each;
    kernels::WeightView one = view;
    if (packed) {
      one.codes = plain.data();
      one.scales = plain.data() + codes;
      kernels::pack_weight(one, 0, kernels::pack_blocks(outputs), mine);
      one.packed = mine;
      one.codes = one.scales = nullptr;  // nobody reads them
    } else {
      std::copy(plain.begin(), plain.end(), mine);
      one.codes = mine;
      one.scales = scales == 0 ? nullptr : mine + codes;
    }
    out.views_.push_back(one);
  }
  return out;
}

std::vector<float> random_activations(uint64_t count) {
  base::SplitMix64 random(2);
  std::vector<float> x(count);
  for (float& value : x) value = static_cast<float>(random.uniform() - 0.5);
  return x;
}

}  // namespace thimble::app
