#include "train/internal/checkpoint_files.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>

#include "base/bytes.h"
#include "numeric/bf16.h"
#include "train/internal/stored_forms.h"

namespace thimble::train::internal {
namespace {

// Name without ".weight", for tensors that have a scale beside it.
std::string stem(const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  CHECK(name.ends_with(kWeight));
  return name.substr(0, name.size() - kWeight.size());
}

// Calls f(name, matrix) for each checkpoint tensor of a parameter: the parts of a stack one by one.
template <class F>
void for_parts(const Parameter& p, const Tensor& values, F f) {
  if (!p.stacked()) return f(p.name, values);
  for (int64_t e = 0; e < p.shape[0]; ++e) f(fmt::format(fmt::runtime(p.name), e), values[e]);
}

std::vector<uint8_t> bytes_of(const arch::TensorView& view) {
  const auto* from = reinterpret_cast<const uint8_t*>(view.data.data());
  return {from, from + view.data.size()};
}

void read_part(const arch::Checkpoint& checkpoint, const Parameter& p, const std::string& name,
               const Tensor& out) {
  const arch::TensorView& view = checkpoint.tensor(name);
  auto* to = out.data_ptr<float>();
  const auto n = static_cast<size_t>(out.numel());
  if (p.stored == Stored::kF32) {
    CHECK_EQ(view.data.size(), n * sizeof(float));
    std::memcpy(to, view.data.data(), view.data.size());
  } else if (p.stored == Stored::kBf16) {
    const auto codes = view.as<uint16_t>();
    for (size_t i = 0; i < n; ++i) to[i] = numeric::bf16_to_float(codes[i]);
  } else {
    const StoredMatrix matrix{bytes_of(view), bytes_of(checkpoint.tensor(stem(name) + ".scale"))};
    decode(p.stored, matrix, out.size(-1), {to, n});
  }
}

// Bytes of tensors that live until they are written.
class Writer {
 public:
  void add(const Parameter& p, const std::string& name, const Tensor& values) {
    const auto* from = values.data_ptr<float>();
    const auto n = static_cast<size_t>(values.numel());
    std::vector<uint64_t> shape(values.sizes().begin(), values.sizes().end());
    if (p.stored == Stored::kF32) {
      std::vector<uint8_t> bytes(n * sizeof(float));
      std::memcpy(bytes.data(), from, bytes.size());
      return push(name, arch::DType::kF32, shape, std::move(bytes));
    }
    if (p.stored == Stored::kBf16) {
      std::vector<uint8_t> bytes(2 * n);
      for (size_t i = 0; i < n; ++i) {
        const uint16_t code = numeric::float_to_bf16(from[i]);
        std::memcpy(&bytes[2 * i], &code, sizeof(code));
      }
      return push(name, arch::DType::kBF16, shape, std::move(bytes));
    }
    StoredMatrix matrix = encode(p.stored, from, n, values.size(-1));
    std::vector<uint64_t> scale_shape = {shape[0], shape[1] / 32};
    if (p.stored == Stored::kFp8Tiles) scale_shape[0] = base::div_ceil(shape[0], uint64_t{32});
    const bool fp4 = p.stored == Stored::kFp4Rows;
    if (fp4) shape[1] /= 2;
    push(name, fp4 ? arch::DType::kI8 : arch::DType::kF8E4M3, shape, std::move(matrix.codes));
    push(stem(name) + ".scale", arch::DType::kF8E8M0, scale_shape, std::move(matrix.scales));
  }

  Result<void> write(const Path& path) { return arch::write_safetensors(path, tensors_); }

 private:
  void push(const std::string& name, arch::DType dtype, std::vector<uint64_t> shape,
            std::vector<uint8_t> bytes) {
    bytes_.push_back(std::move(bytes));
    const auto* data = reinterpret_cast<const std::byte*>(bytes_.back().data());
    tensors_.push_back({name, dtype, std::move(shape), {data, bytes_.back().size()}});
  }
  std::deque<std::vector<uint8_t>> bytes_;
  std::vector<arch::TensorToWrite> tensors_;
};

}  // namespace

std::vector<Tensor> import_values(const arch::Checkpoint& checkpoint,
                                  const std::vector<Parameter>& parameters) {
  std::vector<Tensor> out;
  for (const Parameter& p : parameters) {
    out.push_back(at::empty(p.shape, at::kFloat));
    for_parts(p, out.back(), [&](const std::string& name, const Tensor& part) {
      read_part(checkpoint, p, name, part);
    });
  }
  return out;
}

Result<void> export_values(const arch::Config& config, const std::vector<Parameter>& parameters,
                           const std::vector<Tensor>& values, const Path& directory) {
  Writer writer;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for_parts(parameters[i], values[i], [&](const std::string& name, const Tensor& part) {
      writer.add(parameters[i], name, part);
    });
  }
  THIMBLE_TRY(writer.write(directory / "model.safetensors"));
  return base::write_file_atomic(directory / "config.json", arch::to_json(config) + "\n");
}

}  // namespace thimble::train::internal
