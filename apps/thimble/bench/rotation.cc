#include "apps/thimble/bench/rotation.h"

#include <cmath>

#include "base/bytes.h"
#include "base/random.h"
#include "kernels/packed.h"
#include "kernels/roofs.h"

namespace thimble::app {
namespace {

// Any codes that are numbers, of either sign, and scales near one. Bfloat16 values are near one
// too: subnormal ones would cost some CPUs a hundred cycles a product.
std::byte random_code(kernels::WeightFormat format, uint64_t i, base::SplitMix64& random) {
  const auto sign = static_cast<uint32_t>(random.below(2) * 0x80);
  switch (format) {
    case kernels::WeightFormat::kFp8Block32:
      return static_cast<std::byte>(sign | random.below(0x78));
    case kernels::WeightFormat::kBF16:
      return static_cast<std::byte>(i % 2 == 1 ? sign | 0x3F : random.below(256));
    default:
      return static_cast<std::byte>(random.below(256));
  }
}

void fill(kernels::WeightFormat format, std::byte* at, uint64_t codes, uint64_t scales) {
  base::SplitMix64 random(1);
  for (uint64_t i = 0; i < codes; ++i) at[i] = random_code(format, i, random);
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
  out.plain_bytes_.resize(codes + scales);
  std::byte* const plain = out.plain_bytes_.data();
  fill(format, plain, codes, scales);
  out.plain_ = view;
  out.plain_.codes = plain;
  out.plain_.scales = scales == 0 ? nullptr : plain + codes;
  for (uint64_t i = 0; i < count; ++i) {
    std::byte* const mine = out.memory_.data() + i * each;
    kernels::WeightView one = view;
    if (packed) {
      kernels::pack_weight(out.plain_, 0, kernels::pack_blocks(outputs), mine);
      one.packed = mine;
    } else {
      std::ranges::copy(out.plain_bytes_, mine);
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
