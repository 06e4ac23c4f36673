#include "apps/thimble/bench/rival.h"

#include <sys/mman.h>

#include <span>
#include <vector>

#include "apps/thimble/bench/rival_api.h"
#include "apps/thimble/bench/rotation.h"
#include "base/check.h"
#include "base/random.h"
#include "kernels/roofs.h"

namespace thimble::app {
namespace {

constexpr int kTypeF32 = 0;
constexpr int kTypeMxfp4 = 39;
constexpr int kBlockBytes = 17;  // a scale and 32 codes
constexpr int kDone = 0;

// Codes at random, scales near one.
std::vector<std::byte> random_blocks(size_t bytes) {
  std::vector<std::byte> out(bytes);
  base::SplitMix64 random(1);
  for (size_t i = 0; i < bytes; ++i) {
    out[i] = static_cast<std::byte>(i % kBlockBytes == 0 ? 118 + i % 4 : random.below(256));
  }
  return out;
}

// As our weights have them where the system gives some: of untouched memory, and best effort.
void ask_for_huge_pages(std::byte* begin, uint64_t bytes) {
  constexpr uintptr_t kPage = 4096;
  const uintptr_t first = base::div_ceil(reinterpret_cast<uintptr_t>(begin), kPage) * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(begin) + bytes) / kPage * kPage;
  if (first < end) ::madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
}

// Room for some tensors of one size.
struct Room {
  void* buffer = nullptr;
  std::byte* base = nullptr;
  size_t each = 0;
};

// A graph of one node for each copy of the weights; all write the same outputs.
class GgmlProduct : public RivalProduct {
 public:
  GgmlProduct(const RivalApi& api, void* backend, void* pool)
      : api_(api), backend_(backend), pool_(pool) {}
  ~GgmlProduct() override {
    for (const Room& room : rooms_) api_.buffer_free(room.buffer);
    if (context_ != nullptr) api_.free(context_);
  }

  Result<void> build(void* weight_type, uint32_t outputs, uint32_t inputs, uint64_t rows) {
    constexpr size_t kGraphBytes = 64 << 10;
    const uint64_t bytes = uint64_t{outputs} * inputs / 32 * kBlockBytes;
    const uint64_t copies = base::div_ceil(kernels::uncached_bytes(), bytes);
    context_ = api_.init({(copies + 1) * kGraphBytes, nullptr, true});
    void* const plain = api_.get_default_buffer_type(backend_);
    RivalTensor* const x = tensor(kTypeF32, inputs, rows);
    const Room x_room = THIMBLE_TRY(reserve(plain, x, 1));
    const std::vector<float> values = random_activations(rows * inputs);
    THIMBLE_TRY(fill(x_room, 0, x, std::as_bytes(std::span(values))));
    const std::vector<std::byte> blocks = random_blocks(bytes);
    Room w_room;
    Room y_room;
    for (uint64_t i = 0; i < copies; ++i) {
      RivalTensor* const w = tensor(kTypeMxfp4, inputs, outputs);
      RivalTensor* const y = api_.mul_mat(context_, w, x);
      if (i == 0) w_room = THIMBLE_TRY(reserve(weight_type, w, copies));
      if (i == 0) y_room = THIMBLE_TRY(reserve(plain, y, 1));
      THIMBLE_TRY(fill(w_room, i, w, blocks));
      THIMBLE_TRY(fill(y_room, 0, y, {}));
      graphs_.push_back(api_.new_graph_custom(context_, 8, false));
      api_.build_forward_expand(graphs_.back(), y);
    }
    return {};
  }

  void run(size_t turn) override {
    CHECK(api_.graph_compute(backend_, graphs_[turn % graphs_.size()]) == kDone);
  }
  void rest() override { api_.threadpool_pause(pool_); }

 private:
  RivalTensor* tensor(int type, uint64_t inputs, uint64_t rows) {
    return api_.new_tensor_2d(context_, type, static_cast<int64_t>(inputs),
                              static_cast<int64_t>(rows));
  }
  Result<Room> reserve(void* type, const RivalTensor* like, uint64_t count) {
    Room room;
    room.each = base::div_ceil(api_.buft_get_alloc_size(type, like), 4096) * 4096;
    room.buffer = api_.buft_alloc_buffer(type, count * room.each);
    if (room.buffer == nullptr) {
      return base::fail(ErrorCode::kResourceExhausted, "the rival has no memory for {} bytes",
                        base::with_commas(count * room.each));
    }
    rooms_.push_back(room);
    room.base = static_cast<std::byte*>(api_.buffer_get_base(room.buffer));
    ask_for_huge_pages(room.base, count * room.each);
    return room;
  }
  Result<void> fill(const Room& room, uint64_t index, RivalTensor* tensor, Bytes bytes) {
    if (api_.tensor_alloc(room.buffer, tensor, room.base + index * room.each) != kDone) {
      return base::fail(ErrorCode::kUnsupported, "the rival does not place a tensor");
    }
    if (!bytes.empty()) api_.tensor_set(tensor, bytes.data(), 0, bytes.size());
    return {};
  }

  const RivalApi& api_;
  void* backend_;
  void* pool_;
  void* context_ = nullptr;
  std::vector<Room> rooms_;
  std::vector<void*> graphs_;
};

class Ggml : public Rival {
 public:
  Ggml(const RivalApi& api, std::string_view variant, uint32_t threads)
      : api_(api), variant_(variant), backend_(api.cpu_init()) {
    const auto count = static_cast<int>(threads);
    alignas(64) std::byte params[4096] = {};  // larger than its structure
    api_.threadpool_params_init(params, count);
    pool_ = api_.threadpool_new(params);
    api_.cpu_set_n_threads(backend_, count);
    api_.cpu_set_threadpool(backend_, pool_);
  }
  ~Ggml() override {
    api_.backend_free(backend_);
    api_.threadpool_free(pool_);
  }

  std::string_view variant() const override { return variant_; }

  Result<std::unique_ptr<RivalProduct>> product(uint32_t outputs, uint32_t inputs,
                                                uint64_t rows) override {
    auto out = std::make_unique<GgmlProduct>(api_, backend_, pool_);
    THIMBLE_TRY(out->build(weight_type(), outputs, inputs, rows));
    return out;
  }

 private:
  // As llama.cpp chooses: the first special layout that its backend multiplies, else the plain one.
  void* weight_type() const {
    using Extra = void** (*)(void*);
    void* const registry = api_.cpu_reg();
    void* const device = api_.reg_dev_get(registry, 0);
    const auto extra = reinterpret_cast<Extra>(
        api_.reg_get_proc_address(registry, "ggml_backend_dev_get_extra_bufts"));
    for (void** type = extra == nullptr ? nullptr : extra(device); type != nullptr && *type;
         ++type) {
      if (multiplies(device, *type)) return *type;
    }
    return api_.get_default_buffer_type(backend_);
  }
  bool multiplies(void* device, void* type) const {
    void* const context = api_.init({64 << 10, nullptr, true});
    RivalTensor* const w = api_.new_tensor_2d(context, kTypeMxfp4, 2304, 5120);
    RivalTensor* const x = api_.new_tensor_2d(context, kTypeF32, 2304, 512);
    RivalTensor* const y = api_.mul_mat(context, w, x);
    w->buffer = api_.buft_alloc_buffer(type, 0);
    const bool out = api_.dev_supports_op(device, y);
    api_.buffer_free(w->buffer);
    api_.free(context);
    return out;
  }

  RivalApi api_;
  std::string_view variant_;
  void* backend_;
  void* pool_ = nullptr;
};

// What each of our instruction sets is compared with, best first.
std::span<const std::string_view> variants_for(std::string_view isa) {
  static constexpr std::string_view kScalar[] = {"x64"};
  static constexpr std::string_view kAvx2[] = {"haswell"};
  static constexpr std::string_view kAvx512[] = {"skylakex"};
  static constexpr std::string_view kWidest[] = {"sapphirerapids", "zen4", "cooperlake", "icelake",
                                                 "cascadelake"};
  if (isa == "scalar") return kScalar;
  if (isa == "avx2") return kAvx2;
  return isa == "avx512" ? std::span(kAvx512) : std::span<const std::string_view>(kWidest);
}

}  // namespace

Result<std::unique_ptr<Rival>> Rival::open(const Path& folder, std::string_view isa,
                                           uint32_t threads) {
  for (const std::string_view variant : variants_for(isa)) {
    const bool runs = THIMBLE_TRY(runs_here(folder, variant));
    if (!runs) continue;
    const RivalApi api = THIMBLE_TRY(load_rival(folder, variant));
    return std::make_unique<Ggml>(api, variant, threads);
  }
  return base::fail(ErrorCode::kUnsupported, "{}: no variant of the rival for {} runs here",
                    folder.string(), isa);
}

}  // namespace thimble::app
