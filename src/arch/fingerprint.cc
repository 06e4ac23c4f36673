#include "arch/fingerprint.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "arch/weight_table.h"
#include "base/file.h"

namespace thimble::arch {
namespace {

constexpr uint64_t kWholeExpertMax = 64 << 10;   // experts up to this size are read whole,
constexpr uint64_t kWholeTableMax = 1ULL << 30;  // Engram tables up to this
constexpr uint64_t kSamples = 16;                // of a larger one
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

uint64_t whole_bytes_max(const ExpectedTensor& tensor) {
  if (tensor.part == WeightPart::kExperts) return kWholeExpertMax;
  const bool table = tensor.name.find(".engram.embed.") != std::string::npos;
  return table ? kWholeTableMax : UINT64_MAX;
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
  // What is no tensor counts too: rotary bases, top-k, limits.
  if (const auto config = base::read_file(checkpoint.directory() / "config.json")) {
    hash.add(config->data(), config->size());
  }
  std::vector<ExpectedTensor> tensors = expected_tensors(checkpoint.config());
  std::ranges::sort(tensors, {}, &ExpectedTensor::name);
  for (const ExpectedTensor& tensor : tensors) {
    const TensorView* view = checkpoint.find(tensor.name);
    if (view == nullptr) continue;
    hash.add(tensor.name.data(), tensor.name.size() + 1);
    hash.number(static_cast<uint64_t>(tensor.dtype));
    for (const uint64_t dimension : tensor.shape) hash.number(dimension);
    if (view->data.size() > whole_bytes_max(tensor)) {
      add_samples(hash, *view);
    } else {
      hash.add(view->data.data(), view->data.size());
    }
  }
  return hash.digest();
}

}  // namespace thimble::arch
