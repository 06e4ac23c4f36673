#include "train/internal/state_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/safetensors.h"

namespace thimble::train::internal {
namespace {

constexpr size_t kNumbers = 5;
constexpr const char* kParts[] = {"weights/", "first/", "second/"};

std::array<const std::vector<Tensor>*, 3> parts_of(const LearnerState& state) {
  return {&state.masters, &state.first, &state.second};
}

Result<void> read_tensor(const arch::SafetensorsFile& file, const std::string& name,
                         const Tensor& to) {
  const arch::TensorView view = THIMBLE_TRY(file.get(name));
  const std::vector<uint64_t> shape(to.sizes().begin(), to.sizes().end());
  if (view.dtype != arch::DType::kF32 || view.shape != shape) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "{}: {} is {} {}; this run needs F32 {}: another configuration?",
                      file.path().string(), name, arch::to_string(view.dtype),
                      arch::to_string(view.shape), arch::to_string(shape));
  }
  std::memcpy(to.data_ptr<float>(), view.data.data(), view.data.size());
  return {};
}

}  // namespace

Result<void> write_state(const Path& file, const std::vector<Parameter>& parameters,
                         const LearnerState& state, const Counters& counters) {
  std::vector<arch::TensorToWrite> tensors;
  const std::array<int64_t, kNumbers> numbers = {state.step, counters.epoch, counters.row,
                                                 counters.tokens, counters.data};
  tensors.push_back(
      {"counters", arch::DType::kI64, {numbers.size()}, std::as_bytes(std::span(numbers))});
  const auto parts = parts_of(state);
  for (size_t part = 0; part < parts.size(); ++part) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& t = (*parts[part])[i];
      if (!t.defined()) continue;
      CHECK(t.is_contiguous());
      tensors.push_back(
          {kParts[part] + parameters[i].name,
           arch::DType::kF32,
           {t.sizes().begin(), t.sizes().end()},
           std::as_bytes(std::span(t.data_ptr<float>(), static_cast<size_t>(t.numel())))});
    }
  }
  return arch::write_safetensors(file, tensors);
}

Result<Counters> read_state(const Path& path, const std::vector<Parameter>& parameters,
                            LearnerState& state) {
  const auto file = THIMBLE_TRY(arch::SafetensorsFile::open(path));
  const arch::TensorView view = THIMBLE_TRY(file.get("counters"));
  if (view.dtype != arch::DType::kI64 || view.shape != std::vector<uint64_t>{kNumbers}) {
    return base::fail(ErrorCode::kCorrupt,
                      "{}: counters are {} {}; expected {} whole numbers: another version's state?",
                      path.string(), arch::to_string(view.dtype), arch::to_string(view.shape),
                      kNumbers);
  }
  const auto numbers = view.as<int64_t>();
  const auto counts = numbers.first(kNumbers - 1);
  if (*std::min_element(counts.begin(), counts.end()) < 0 || numbers[1] > UINT32_MAX) {
    return base::fail(ErrorCode::kCorrupt, "{}: step {}, epoch {}, row {}, tokens {} count nothing",
                      path.string(), numbers[0], numbers[1], numbers[2], numbers[3]);
  }
  const auto parts = parts_of(state);
  for (size_t part = 0; part < parts.size(); ++part) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Tensor& t = (*parts[part])[i];
      if (t.defined()) THIMBLE_TRY(read_tensor(file, kParts[part] + parameters[i].name, t));
    }
  }
  state.step = numbers[0];
  return Counters{numbers[1], numbers[2], numbers[3], numbers[4]};
}

}  // namespace thimble::train::internal
