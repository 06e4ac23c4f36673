// Writes the 'wide' checkpoint: 4 layers at the released model's true widths, weights from a
// counter.
//
// The files are too large to ship (1.6 GB), so they are made from integers alone: every value is a
// function of the tensor's name and the element's index, computed in exact integer and correctly
// rounded double arithmetic, so each machine writes the same bytes. Prints an FNV-1a hash of all
// tensor bytes; README.md states the expected one.
//
//   g++ -O2 -std=c++20 make_wide.cc -o make_wide && ./make_wide DIR
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace {

constexpr int kHidden = 5120, kExpert = 2304, kVocab = 2048, kHeads = 64, kHeadDim = 512,
              kQRank = 1280;
constexpr int kGroups = 8, kORank = 1024, kIndexHeads = 32, kIndexDim = 128, kExperts = 12;
constexpr int kRatios[4] = {0, 2, 1, 1};
constexpr bool kOwnsKv[4] = {false, true, true, false}, kIndexes[4] = {false, true, true, true};

uint64_t fnv(const void* data, size_t n, uint64_t h = 14695981039346656037ull) {
  const auto* p = static_cast<const unsigned char*>(data);
  for (size_t i = 0; i < n; ++i) h = (h ^ p[i]) * 1099511628211ull;
  return h;
}
uint64_t mix(uint64_t x) {  // splitmix64 finaliser
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
// Roughly normal with mean 0 and variance 1: the sum of four 16-bit lanes, recentred.
struct Noise {
  uint64_t base;
  explicit Noise(const std::string& name) : base(fnv(name.data(), name.size())) {}
  double operator()(uint64_t i) const {
    const uint64_t u = mix(base + i);
    const int64_t sum =
        int64_t(u & 65535) + int64_t(u >> 16 & 65535) + int64_t(u >> 32 & 65535) + int64_t(u >> 48);
    return double(2 * sum - 4 * 65535) / (2 * 65536.0) / std::sqrt(1.0 / 3.0);
  }
};
uint16_t bf16(double v) {
  const float f = float(v);
  uint32_t u;
  std::memcpy(&u, &f, 4);
  return uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
int pow2ceil(double v) {  // smallest e with 2^e >= v
  int e;
  const double m = std::frexp(v, &e);
  return m == 0.5 ? e - 1 : e;
}
uint8_t e4m3(double v) {  // |v| <= 448, ties to even
  const uint8_t sign = std::signbit(v) ? 0x80 : 0;
  double a = std::fabs(v);
  if (a == 0) return sign;
  int e;
  std::frexp(a, &e);
  const int ex = std::max(e - 1, -6);
  const double q = std::nearbyint(std::ldexp(a, 3 - ex));  // in units of 2^(ex-3)
  a = std::ldexp(q, ex - 3);
  if (a < std::ldexp(1.0, -6)) return uint8_t(sign | int(std::ldexp(a, 9)));
  std::frexp(a, &e);
  return uint8_t(sign | ((e - 1 + 7) << 3) | (int(std::ldexp(a, 3 - (e - 1))) - 8));
}
uint8_t e2m1(double v) {  // |v| <= 6, ties to even
  static constexpr double value[8] = {0, .5, 1, 1.5, 2, 3, 4, 6};
  const double a = std::fabs(v);
  int c = 0;
  while (c < 7 &&
         (a > (value[c] + value[c + 1]) / 2 || (a == (value[c] + value[c + 1]) / 2 && (c & 1))))
    ++c;
  return uint8_t(c | (std::signbit(v) ? 8 : 0));
}

struct Tensor {
  std::string name, dtype;
  std::vector<int> shape;
  size_t bytes;
  std::function<std::vector<uint8_t>()> make;
};
std::vector<Tensor> tensors;

void add_bf16(const std::string& n, std::vector<int> shape, double gain, double mean = 0) {
  size_t count = 1;
  for (int s : shape) count *= s;
  tensors.push_back({n, "BF16", shape, count * 2, [=] {
                       Noise z(n);
                       std::vector<uint8_t> b(count * 2);
                       for (size_t i = 0; i < count; ++i) {
                         const uint16_t v = bf16(mean + gain * z(i));
                         std::memcpy(&b[2 * i], &v, 2);
                       }
                       return b;
                     }});
}
void add_f32(const std::string& n, std::vector<int> shape,
             std::function<double(size_t, double)> value) {
  size_t count = 1;
  for (int s : shape) count *= s;
  tensors.push_back({n, "F32", shape, count * 4, [=] {
                       Noise z(n);
                       std::vector<uint8_t> b(count * 4);
                       for (size_t i = 0; i < count; ++i) {
                         const float v = float(value(i, z(i)));
                         std::memcpy(&b[4 * i], &v, 4);
                       }
                       return b;
                     }});
}
void add_norm(const std::string& n, int d) { add_bf16(n + ".weight", {d}, 0.15, 1.0); }

void add_fp8(const std::string& n, int out, int in, double gain) {
  const double scale = gain / std::sqrt(double(in));
  auto exponent = [=](int r, int c) {
    Noise z(n);
    double peak = 1e-4;
    for (int i = 0; i < 32; ++i)
      for (int k = 0; k < 32; ++k)
        peak = std::max(peak, std::fabs(scale * z(size_t(r * 32 + i) * in + c * 32 + k)));
    return pow2ceil(peak / 448.0);
  };
  tensors.push_back({n + ".weight", "F8_E4M3", {out, in}, size_t(out) * in, [=] {
                       Noise z(n);
                       std::vector<uint8_t> b(size_t(out) * in);
                       for (int r = 0; r < out / 32; ++r)
                         for (int c = 0; c < in / 32; ++c) {
                           const int e = exponent(r, c);
                           for (int i = r * 32; i < r * 32 + 32; ++i)
                             for (int k = c * 32; k < c * 32 + 32; ++k) {
                               const size_t at = size_t(i) * in + k;
                               b[at] = e4m3(std::ldexp(scale * z(at), -e));
                             }
                         }
                       return b;
                     }});
  tensors.push_back(
      {n + ".scale", "F8_E8M0", {out / 32, in / 32}, size_t(out / 32) * (in / 32), [=] {
         std::vector<uint8_t> b;
         for (int r = 0; r < out / 32; ++r)
           for (int c = 0; c < in / 32; ++c) b.push_back(uint8_t(exponent(r, c) + 127));
         return b;
       }});
}
void add_fp4(const std::string& n, int out, int in, double gain) {
  const double scale = gain / std::sqrt(double(in));
  auto exponent = [=](const Noise& z, size_t group) {
    double peak = 1e-30;
    for (int k = 0; k < 32; ++k) peak = std::max(peak, std::fabs(scale * z(group * 32 + k)));
    return pow2ceil(peak / 6.0);
  };
  const size_t groups = size_t(out) * in / 32;
  tensors.push_back({n + ".weight", "I8", {out, in / 2}, groups * 16, [=] {
                       Noise z(n);
                       std::vector<uint8_t> b(groups * 16);
                       for (size_t g = 0; g < groups; ++g) {
                         const int e = exponent(z, g);
                         for (int k = 0; k < 16; ++k)
                           b[g * 16 + k] =
                               uint8_t(e2m1(std::ldexp(scale * z(g * 32 + 2 * k), -e)) |
                                       e2m1(std::ldexp(scale * z(g * 32 + 2 * k + 1), -e)) << 4);
                       }
                       return b;
                     }});
  tensors.push_back({n + ".scale", "F8_E8M0", {out, in / 32}, groups, [=] {
                       Noise z(n);
                       std::vector<uint8_t> b(groups);
                       for (size_t g = 0; g < groups; ++g) b[g] = uint8_t(exponent(z, g) + 127);
                       return b;
                     }});
}

void add_layer(int l) {
  const std::string p = "layers." + std::to_string(l) + ".", a = p + "attn.";
  add_fp8(a + "wq_a", kQRank, kHidden, 1.0);
  add_norm(a + "q_norm", kQRank);
  add_fp8(a + "wq_b", kHeads * kHeadDim, kQRank, 1.6);
  add_fp8(a + "wkv", kHeadDim, kHidden, 1.0);
  add_norm(a + "kv_norm", kHeadDim);
  add_f32(a + "attn_sink", {kHeads}, [](size_t, double z) { return z; });
  add_fp8(a + "wo_a", kGroups * kORank, kHeads * kHeadDim / kGroups, 1.2);
  add_fp8(a + "wo_b", kHidden, kGroups * kORank, 0.5);
  if (kOwnsKv[l]) {
    add_bf16(a + "compressor.wkv.weight", {kHeadDim, kHidden}, 1.3 / std::sqrt(double(kHidden)));
    add_norm(a + "compressor.norm", kHeadDim);
    if (kRatios[l] > 1)
      add_bf16(a + "compressor.wgate.weight", {kHeadDim, kHidden},
               1.5 / std::sqrt(double(kHidden)));
    add_bf16(a + "indexer.wk.weight", {kIndexDim, kHeadDim}, 1.0 / std::sqrt(double(kHeadDim)));
    add_norm(a + "indexer.k_norm", kIndexDim);
  }
  if (kIndexes[l]) {
    add_fp8(a + "indexer.wq_b", kIndexHeads * kIndexDim, kQRank, 1.3);
    add_bf16(a + "indexer.weights_proj.weight", {kIndexHeads, kHidden},
             1.2 / std::sqrt(double(kHidden)));
  }
  add_norm(p + "attn_norm", kHidden);
  add_norm(p + "ffn_norm", kHidden);
  for (const char* s : {"attn", "ffn"}) {
    const std::string h = p + "hc_" + s;
    add_f32(h + "_fn", {24, 4 * kHidden},
            [](size_t, double z) { return z / std::sqrt(4.0 * kHidden); });
    add_f32(h + "_base", {24},
            [](size_t i, double z) { return 0.6 * z + (i >= 8 && (i - 8) % 5 == 0 ? 1.5 : 0.0); });
    add_f32(h + "_scale", {3}, [](size_t i, double z) {
      return (i == 0 ? 0.8 : i == 1 ? 0.6 : 1.1) * (1 + 0.3 * z);
    });
  }
  add_bf16(p + "ffn.gate.weight", {kExperts, kHidden}, 1.5 / std::sqrt(double(kHidden)));
  add_f32(p + "ffn.gate.bias", {kExperts}, [](size_t, double z) { return 0.15 * z; });
  for (int e = 0; e < kExperts; ++e) {
    const std::string x = p + "ffn.experts." + std::to_string(e) + ".";
    add_fp4(x + "w1", kExpert, kHidden, 1.0);
    add_fp4(x + "w2", kHidden, kExpert, 0.5);
    add_fp4(x + "w3", kExpert, kHidden, 1.0);
  }
  const std::string x = p + "ffn.shared_experts.";
  add_fp8(x + "w1", kExpert, kHidden, 1.0);
  add_fp8(x + "w2", kHidden, kExpert, 0.5);
  add_fp8(x + "w3", kExpert, kHidden, 1.0);
}

}  // namespace

int main(int argc, char** argv) {
  // style-ok: builds alone, without a library
  if (argc != 2) return std::fprintf(stderr, "usage: make_wide DIR\n"), 2;
  const std::filesystem::path dir = argv[1];
  std::filesystem::create_directories(dir);
  add_bf16("embed.weight", {kVocab, kHidden}, 1.0);
  add_norm("norm", kHidden);
  add_bf16("head.weight", {kVocab, kHidden}, 2.0 / std::sqrt(double(kHidden)));
  for (int l = 0; l < 4; ++l) add_layer(l);

  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  size_t at = 0;
  for (const Tensor& t : tensors) {
    header += ",\"" + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":[";
    for (size_t i = 0; i < t.shape.size(); ++i)
      header += (i ? "," : "") + std::to_string(t.shape[i]);
    header +=
        "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + t.bytes) + "]}";
    at += t.bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  std::FILE* f = std::fopen((dir / "model.safetensors").c_str(), "wb");
  if (!f) return std::perror("model.safetensors"), 1;
  const uint64_t n = header.size();
  bool ok = std::fwrite(&n, 8, 1, f) == 1 && std::fwrite(header.data(), 1, n, f) == n;
  uint64_t hash = fnv("", 0);
  for (const Tensor& t : tensors) {
    const std::vector<uint8_t> b = t.make();
    hash = fnv(b.data(), b.size(), hash);
    ok = ok && b.size() == t.bytes && std::fwrite(b.data(), 1, b.size(), f) == b.size();
  }
  ok = std::fclose(f) == 0 && ok;
  // style-ok: as above
  std::printf("%zu tensors, %zu bytes, hash %016llx\n", tensors.size(), at,
              (unsigned long long)hash);
  return ok ? 0 : 1;
}
