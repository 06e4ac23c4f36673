#include "arch/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "arch/weight_table.h"

namespace thimble::arch {
namespace {

constexpr uint64_t kWholeBytesMax = 64 << 10;  // sampled tensors up to this size are read whole
constexpr uint64_t kSamples = 16;              // of a larger one
constexpr uint64_t kSampleBytes = 4096;

class Hash {
 public:
  Hash() : state_(XXH3_createState(), XXH3_freeState) { XXH3_128bits_reset(state_.get()); }
  void add(const void* data, uint64_t bytes) { XXH3_128bits_update(state_.get(), data, bytes); }
  void number(uint64_t value) { add(&value, sizeof(value)); }

  Fingerprint digest() const {
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state_.get()));
    Fingerprint out;
    static_assert(sizeof(canonical) == sizeof(out));
    std::memcpy(out.data(), &canonical, sizeof(out));
    return out;
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

bool is_sampled(const ExpectedTensor& tensor) {
  return tensor.part == WeightPart::kExperts ||
         tensor.name.find(".engram.embed.") != std::string::npos;
}

void add_samples(Hash& hash, const TensorView& view) {
  const uint64_t bytes = view.data.size();
  for (uint64_t i = 0; i < kSamples; ++i) {
    const uint64_t at = (bytes - kSampleBytes) / (kSamples - 1) * i;
    hash.add(view.data.data() + at, kSampleBytes);
  }
}

}  // namespace

Fingerprint fingerprint(const Checkpoint& checkpoint) {
  Hash hash;
  std::vector<ExpectedTensor> tensors = expected_tensors(checkpoint.config());
  std::ranges::sort(tensors, {}, &ExpectedTensor::name);
  for (const ExpectedTensor& tensor : tensors) {
    const TensorView* view = checkpoint.find(tensor.name);
    if (view == nullptr) continue;
    hash.add(tensor.name.data(), tensor.name.size() + 1);
    hash.number(static_cast<uint64_t>(tensor.dtype));
    for (const uint64_t dimension : tensor.shape) hash.number(dimension);
    if (is_sampled(tensor) && view->data.size() > kWholeBytesMax) {
      add_samples(hash, *view);
    } else {
      hash.add(view->data.data(), view->data.size());
    }
  }
  return hash.digest();
}

}  // namespace thimble::arch
