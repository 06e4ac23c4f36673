#include "model/internal/packed_weights.h"

#include <algorithm>
#include <vector>

#include "base/bytes.h"
#include "base/file.h"
#include "kernels/packed.h"

namespace thimble::model {
namespace {

// Every matrix that a product may read, experts apart.
template <class Visit>
void visit_dense(ModelWeights& weights, Visit&& visit) {
  for (LayerWeights& layer : weights.layers) {
    for (WeightView* view :
         {&layer.wq_a, &layer.wq_b, &layer.wkv, &layer.wo_a, &layer.wo_b, &layer.index_wq_b,
          &layer.shared.w1, &layer.shared.w3, &layer.shared.w2, &layer.engram.wkv}) {
      if (view->codes != nullptr) visit(*view);
    }
  }
}

template <class Visit>
void visit_experts(ModelWeights& weights, Visit&& visit) {
  for (LayerWeights& layer : weights.layers) {
    for (ExpertWeights& expert : layer.experts) {
      for (WeightView* view : {&expert.w1, &expert.w3, &expert.w2}) visit(*view);
    }
  }
}

// Blocks a task: enough to be worth a thread's while.
constexpr uint64_t kBlocksPerTask = 4;

void pack(WeightView& view, std::byte* out, base::ThreadPool& pool) {
  const uint64_t blocks = kernels::pack_blocks(view.rows);
  const uint64_t block_bytes = kernels::pack_block_bytes(view.format, view.cols);
  pool.parallel_for(base::div_ceil(blocks, kBlocksPerTask), [&](uint64_t task, uint32_t) {
    const uint64_t begin = task * kBlocksPerTask;
    const uint64_t end = std::min(blocks, begin + kBlocksPerTask);
    kernels::pack_weight(view, begin, end, out + begin * block_bytes);
  });
  view.packed = out;
  base::forget_mapped({view.codes, view.code_bytes()});
}

}  // namespace

Result<PackedWeights> PackedWeights::create(ModelWeights& weights, Packing packing,
                                            base::ThreadPool& pool) {
  std::vector<WeightView*> packed;
  PackedWeights out;
  const auto list = [&](bool wanted) {
    return [&, wanted](WeightView& view) {
      view.arithmetic = kernels::Arithmetic::kFast;
      if (!wanted || !kernels::packable(view)) return;
      packed.push_back(&view);
      out.bytes_ += kernels::packed_bytes(view);
    };
  };
  visit_dense(weights, list(packing != Packing::kNone));
  visit_experts(weights, list(packing == Packing::kAll));
  if (out.bytes_ == 0) return out;
  out.memory_ = THIMBLE_TRY(base::HugeMemory::create(out.bytes_, "packed weights"));
  std::byte* to = out.memory_.data();
  for (WeightView* view : packed) {
    pack(*view, to, pool);
    to += kernels::packed_bytes(*view);
  }
  return out;
}

}  // namespace thimble::model
