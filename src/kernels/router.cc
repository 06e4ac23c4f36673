// Expert routing, backbone spec 8.
#include "base/check.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

// Whether biased score a is taken before b. A NaN comes after every number.
bool before(float a, float b) { return a > b || (b != b && a == a); }

// The best topk by score + bias, best first; equal ones in ascending order of expert.
void choose(const float* scores, const float* bias, uint32_t experts, uint32_t topk, int32_t* ids) {
  uint32_t kept = 0;
  for (uint32_t e = 0; e < experts; ++e) {
    const float biased = scores[e] + bias[e];
    uint32_t place = kept;
    while (place > 0) {
      const uint32_t other = static_cast<uint32_t>(ids[place - 1]);
      if (!before(biased, scores[other] + bias[other])) break;
      if (place < topk) ids[place] = ids[place - 1];
      --place;
    }
    if (place < topk) ids[place] = static_cast<int32_t>(e);
    if (kept < topk) ++kept;
  }
}

}  // namespace

void route(Rows<const float> logits, const float* bias, float route_scale, Rows<int32_t> ids,
           Rows<float> weights, Rows<float> scores) {
  const uint32_t experts = static_cast<uint32_t>(logits.cols);
  const uint32_t topk = static_cast<uint32_t>(ids.cols);
  CHECK_LE(topk, experts);
  CHECK_EQ(ids.rows, logits.rows);
  CHECK_EQ(weights.rows, logits.rows);
  CHECK_EQ(weights.cols, ids.cols);
  CHECK(scores.data == nullptr || (scores.rows == logits.rows && scores.cols == logits.cols));
  const Table& table = kernels();
  constexpr uint32_t kExpertsMax = 4096;
  CHECK_LE(experts, kExpertsMax);
  float own[kExpertsMax];
  for (uint64_t i = 0; i < logits.rows; ++i) {
    float* score = scores.data == nullptr ? own : scores.row(i);
    table.router_scores(logits.row(i), experts, score);
    choose(score, bias, experts, topk, ids.row(i));
    float total = 0;
    for (uint32_t k = 0; k < topk; ++k) total += score[ids.row(i)[k]];
    for (uint32_t k = 0; k < topk; ++k) {
      weights.row(i)[k] = score[ids.row(i)[k]] / (total + 1e-20f) * route_scale;
    }
  }
}

}  // namespace thimble::kernels
