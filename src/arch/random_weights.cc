#include "arch/random_weights.h"

#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/random.h"
#include "numeric/bf16.h"
#include "numeric/fp4_e2m1.h"
#include "numeric/fp8_e4m3.h"

namespace thimble::arch {
namespace {

// How the values of one kind of tensor are spread.
struct Spread {
  const char* suffix;
  double mean = 0;
  double deviation = 1;
  bool per_input = false;  // deviation is divided by the square root of the row length
};

// The first suffix that fits decides. Outputs of branches are small, so that a branch nudges the
// streams; queries, gates and index weights are large, so that scores differ.
constexpr std::array kSpreads = {
    Spread{"engram.q_weight", 1, 0.3},
    Spread{"engram.k_weight", 1, 0.3},
    Spread{"engram.embed.weight", 0, 1},
    Spread{"engram.wkv.weight", 0, 0.5, true},
    Spread{"norm.weight", 1, 0.15},
    Spread{"norm1.weight", 1, 0.15},
    Spread{"norm2.weight", 1, 0.15},
    Spread{"markov_head.embed.weight", 0, 1},
    Spread{"embed.weight", 0, 1},
    Spread{"markov_head.head.weight", 0, 0.5, true},
    Spread{"head.weight", 0, 2, true},
    Spread{"attn_sink", 0, 1},
    Spread{"gate.weight", 0, 1.5, true},
    Spread{"gate.bias", 0, 0.1},
    Spread{"gate.bias_vl", 0, 0.1},
    Spread{"_fn", 0, 1, true},
    Spread{"_base", 0, 0.5},
    Spread{"_scale", 0.8, 0.2},
    Spread{"attn.wq_b.weight", 0, 2, true},
    Spread{"attn.wo_b.weight", 0, 0.15, true},
    Spread{"indexer.wq_b.weight", 0, 1.6, true},
    Spread{".w2.weight", 0, 0.17, true},
    Spread{"image_start", 0, 1},
    Spread{"image_end", 0, 1},
    Spread{"image_newline", 0, 1},
    Spread{".bias", 0, 0.1},
    Spread{".weight", 0, 1.1, true},
};

Spread spread_of(std::string_view name) {
  for (const Spread& spread : kSpreads) {
    if (name.ends_with(spread.suffix)) return spread;
  }
  CHECK(false && "every tensor of the table has a spread");
  return kSpreads.back();
}

// FNV-1a.
uint64_t hash_name(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ULL;
  return hash;
}

// A stream of numbers, one for each index.
class Noise {
 public:
  Noise(uint64_t seed, std::string_view name)
      : key_(base::mix64(base::mix64(seed + 0x9E3779B97F4A7C15ULL) ^ hash_name(name))) {}

  // Nearly normal, deviation one, at most 3.47 away from zero: the sum of four 16-bit numbers.
  double at(uint64_t index) const {
    const uint64_t z = base::mix64(key_ + (index + 1) * 0x9E3779B97F4A7C15ULL);
    const uint64_t sum = (z & 0xFFFF) + ((z >> 16) & 0xFFFF) + ((z >> 32) & 0xFFFF) + (z >> 48);
    return (static_cast<double>(sum) - 2 * 65535.0) / kDeviation;
  }

 private:
  static constexpr double kDeviation = 37837.2;  // sqrt(4 / 12) * 65536
  uint64_t key_;
};

// Values as codes times a power of two, chosen so that codes are spread over the format's range but
// nothing saturates: the largest value is about 3.5 deviations.
int scale_exponent(double deviation, double code_max) {
  int exponent = 0;
  std::frexp(3.5 * deviation / code_max, &exponent);
  return exponent;
}

double deviation_of(const ExpectedTensor& tensor, const Spread& spread) {
  if (!spread.per_input) return spread.deviation;
  const uint64_t codes_a_byte = tensor.dtype == DType::kI8 ? 2 : 1;
  return spread.deviation / std::sqrt(static_cast<double>(tensor.shape.back() * codes_a_byte));
}

// Dense FP8 keeps well inside the largest code; FP4 uses all of its few.
constexpr double kFp8CodeMax = 240;
constexpr double kFp4CodeMax = 6;

int scale_exponent_of(const ExpectedTensor& weight) {
  const double deviation = deviation_of(weight, spread_of(weight.name));
  return scale_exponent(deviation, weight.dtype == DType::kI8 ? kFp4CodeMax : kFp8CodeMax);
}

// The scales that go with the weight of the same name, half of them one smaller: equal scales would
// hide their order.
void fill_scale(const ExpectedTensor& scale, uint64_t seed, uint64_t offset,
                std::span<std::byte> out) {
  ExpectedTensor weight = scale;
  weight.name.replace(weight.name.size() - std::strlen("scale"), std::string::npos, "weight");
  // Which format the weight has, and how long its rows are, is told by its part: groups are of 32.
  const bool fp4 = scale.part == WeightPart::kExperts;
  weight.dtype = fp4 ? DType::kI8 : DType::kF8E4M3;
  weight.shape.back() *= fp4 ? 16 : 32;
  const int byte = 127 + scale_exponent_of(weight);
  const Noise noise(seed, scale.name);
  for (uint64_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::byte>(noise.at(offset + i) < 0 ? byte - 1 : byte);
  }
}

// The mix of streams starts near the identity: each stream mostly keeps itself.
double mhc_base_mean(const ExpectedTensor& tensor, uint64_t index) {
  constexpr double kKeep = 2;
  const uint64_t size = tensor.shape[0];  // (2 + n) * n
  uint64_t n = 1;
  while ((2 + n) * n < size) ++n;
  return index >= 2 * n && (index - 2 * n) % (n + 1) == 0 ? kKeep : 0;
}

template <class T>
void store(std::span<std::byte> out, uint64_t index, T value) {
  std::memcpy(out.data() + index * sizeof(T), &value, sizeof(T));
}

}  // namespace

void fill_random(const ExpectedTensor& tensor, uint64_t seed, uint64_t offset,
                 std::span<std::byte> out) {
  if (tensor.dtype == DType::kF8E8M0) return fill_scale(tensor, seed, offset, out);
  const Spread spread = spread_of(tensor.name);
  const double deviation = deviation_of(tensor, spread);
  const Noise noise(seed, tensor.name);
  const uint64_t width = element_bytes(tensor.dtype);
  CHECK_EQ(offset % width, 0u);
  const uint64_t first = offset / width;
  const uint64_t count = out.size() / width;
  const bool mhc_base = tensor.name.ends_with("_base");
  const auto value = [&](uint64_t i) {
    const double mean = mhc_base ? mhc_base_mean(tensor, i) : spread.mean;
    return static_cast<float>(mean + deviation * noise.at(i));
  };
  const auto quantised = tensor.dtype == DType::kF8E4M3 || tensor.dtype == DType::kI8;
  const float unit = quantised ? std::ldexp(1.0f, -scale_exponent_of(tensor)) : 1.0f;
  for (uint64_t i = 0; i < count; ++i) {
    switch (tensor.dtype) {
      case DType::kF32:
        store(out, i, value(first + i));
        break;
      case DType::kBF16:
        store(out, i, numeric::float_to_bf16(value(first + i)));
        break;
      case DType::kF8E4M3:
        store(out, i, numeric::float_to_e4m3(value(first + i) * unit));
        break;
      case DType::kI8: {
        const uint8_t low = numeric::float_to_e2m1(value(2 * (first + i)) * unit);
        const uint8_t high = numeric::float_to_e2m1(value(2 * (first + i) + 1) * unit);
        store(out, i, static_cast<uint8_t>(low | high << 4));
        break;
      }
      default:
        CHECK(false && "no checkpoint has this dtype");
    }
  }
}

namespace {

using Part = std::vector<const ExpectedTensor*>;

// Tensors in order, cut where a shard would grow beyond its size.
std::vector<Part> cut_into_shards(const std::vector<ExpectedTensor>& table, uint64_t shard_bytes) {
  std::vector<Part> shards(1);
  uint64_t bytes = 0;
  for (const ExpectedTensor& tensor : table) {
    if (tensor.optional) continue;
    if (!shards.back().empty() && bytes + tensor.bytes() > shard_bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(&tensor);
    bytes += tensor.bytes();
  }
  return shards;
}

Result<void> write_shard(const Path& path, const Part& part, uint64_t seed,
                         const std::function<void(uint64_t bytes)>& on_bytes) {
  std::vector<TensorSpec> specs;
  for (const ExpectedTensor* tensor : part) {
    specs.push_back({tensor->name, tensor->dtype, tensor->shape});
  }
  return write_safetensors(path, specs,
                           [&](size_t index, uint64_t offset, std::span<std::byte> out) {
                             fill_random(*part[index], seed, offset, out);
                             on_bytes(out.size());
                           });
}

Result<void> write_index(const Path& directory, const std::vector<Part>& shards,
                         const std::vector<std::string>& names, uint64_t bytes) {
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = bytes;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const ExpectedTensor* tensor : shards[i]) index["weight_map"][tensor->name] = names[i];
  }
  return base::write_file_atomic(directory / "model.safetensors.index.json", index.dump(1));
}

// Says so in the config itself, so that whatever serves the model can warn that its words are
// noise.
std::string marked_random(const std::string& config_json) {
  auto json = nlohmann::ordered_json::parse(config_json);
  json["thimble_random_weights"] = true;
  return json.dump(2) + "\n";
}

}  // namespace

Result<void> write_random_checkpoint(const Config& config, const Path& directory, uint64_t seed,
                                     const std::function<void(uint64_t bytes)>& on_bytes,
                                     uint64_t shard_bytes) {
  const std::vector<ExpectedTensor> table = expected_tensors(config);
  const std::vector<Part> shards = cut_into_shards(table, shard_bytes);
  std::vector<std::string> names = {"model.safetensors"};
  if (shards.size() > 1) {
    names.clear();
    for (size_t i = 1; i <= shards.size(); ++i) {
      names.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i, shards.size()));
    }
    THIMBLE_TRY(write_index(directory, shards, names, totals(table).bytes));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    THIMBLE_TRY(write_shard(directory / names[i], shards[i], seed, on_bytes));
  }
  return base::write_file_atomic(directory / "config.json", marked_random(to_json(config)));
}

}  // namespace thimble::arch
