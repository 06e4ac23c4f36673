// Mixture of experts: router, routed experts on the rows that chose them, shared expert.
// Source: backbone spec section 8.
#include <algorithm>

#include "base/check.h"
#include "model/internal/step.h"

namespace thimble::model {
namespace {

// Rows sorted by the expert they chose: places [first[e], first[e + 1]) belong to expert e.
struct Dispatch {
  std::vector<uint64_t> first;                // [experts + 1]
  std::vector<uint64_t> row;                  // [n * active]: row of the step
  std::vector<float> weight;                  // [n * active]
  std::vector<std::vector<uint64_t>> places;  // [n]: the row's places, ascending expert
};

Dispatch dispatch_rows(uint32_t experts, Rows<const int32_t> ids, Rows<const float> weights) {
  Dispatch out;
  out.first.assign(experts + 1, 0);
  for (uint64_t i = 0; i < ids.rows; ++i) {
    for (uint64_t k = 0; k < ids.cols; ++k) ++out.first[ids.row(i)[k] + 1];
  }
  for (uint32_t e = 0; e < experts; ++e) out.first[e + 1] += out.first[e];
  out.row.resize(ids.rows * ids.cols);
  out.weight.resize(out.row.size());
  out.places.resize(ids.rows);
  std::vector<uint64_t> next(out.first.begin(), out.first.end() - 1);
  for (uint64_t i = 0; i < ids.rows; ++i) {
    for (uint64_t k = 0; k < ids.cols; ++k) {
      const uint64_t place = next[ids.row(i)[k]]++;
      out.row[place] = i;
      out.weight[place] = weights.row(i)[k];
      out.places[i].push_back(place);
    }
    std::sort(out.places[i].begin(), out.places[i].end());
  }
  return out;
}

// An expert, the rows that chose it, and where its results go.
struct ExpertRows {
  const ExpertWeights* weights = nullptr;
  Rows<const float> x;
  Rows<float> out;
};

// out = w2 (silu(w1 x) * (w3 x) * row weight), all experts side by side. row_weights: one for every
// row of x, in the order of `experts`.
void run_experts(const Step& step, const std::vector<ExpertRows>& experts,
                 const float* row_weights) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  uint64_t rows = 0;
  for (const ExpertRows& e : experts) rows += e.x.rows;
  const Rows<float> gate = step.take(rows, step.config.moe_intermediate_size);
  const Rows<float> up = step.take(rows, step.config.moe_intermediate_size);
  std::vector<kernels::LinearJob> jobs;
  uint64_t first = 0;
  for (const ExpertRows& e : experts) {
    jobs.push_back({e.weights->w1, e.x, gate.slice(first, e.x.rows)});
    jobs.push_back({e.weights->w3, e.x, up.slice(first, e.x.rows)});
    first += e.x.rows;
  }
  kernels::linear_batch(jobs, step.context);
  kernels::swiglu(gate, up, static_cast<float>(step.config.swiglu_limit), row_weights, gate,
                  step.context);
  jobs.clear();
  first = 0;
  for (const ExpertRows& e : experts) {
    jobs.push_back({e.weights->w2, gate.slice(first, e.x.rows), e.out});
    first += e.x.rows;
  }
  kernels::linear_batch(jobs, step.context);
}

Dispatch choose_experts(const Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                        Rows<const float> x) {
  const uint32_t experts = step.config.n_routed_experts;
  const uint32_t active = step.config.num_experts_per_tok;
  const Rows<float> logits = step.take(step.n(), experts);
  const Rows<float> scores = step.take(step.n(), experts);
  const Rows<float> chosen = step.take(step.n(), active);
  const Rows<int32_t> ids(step.context.workspace.take<int32_t>(step.n() * active).data(), step.n(),
                          active);
  kernels::linear(weights.gate, x, logits, step.context);
  kernels::route(logits, weights.gate_bias, static_cast<float>(step.config.routed_scaling_factor),
                 ids, chosen, scores);
  step.tell("expert_scores.layers", role.layer, scores);
  step.tell("expert_ids.layers", role.layer, Rows<const int32_t>(ids));
  step.tell("expert_w.layers", role.layer, chosen);
  return dispatch_rows(experts, ids, chosen);
}

}  // namespace

void mixture_of_experts(Step& step, const LayerWeights& weights, const arch::LayerRole& role,
                        Rows<const float> x, Rows<float> y) {
  const kernels::Workspace::Mark mark(step.context.workspace);
  Dispatch dispatch = choose_experts(step, weights, role, x);
  const Rows<float> gathered = step.take(dispatch.row.size(), x.cols);
  const Rows<float> routed = step.take(dispatch.row.size(), x.cols);
  step.context.pool.parallel_for(gathered.rows, [&](uint64_t place, uint32_t) {
    std::copy_n(x.row(dispatch.row[place]), x.cols, gathered.row(place));
  });
  std::vector<ExpertRows> experts;
  for (uint32_t e = 0; e < step.config.n_routed_experts; ++e) {
    const uint64_t count = dispatch.first[e + 1] - dispatch.first[e];
    const uint64_t first = dispatch.first[e];
    if (count == 0) continue;
    if (step.read_ahead != nullptr) step.read_ahead->ask(weights.experts[e]);
    experts.push_back(
        {&weights.experts[e], gathered.slice(first, count), routed.slice(first, count)});
  }
  // The shared expert goes along, its rows unweighted: times one.
  const Rows<float> shared = step.take(step.n(), x.cols);
  experts.push_back({&weights.shared, x, shared});
  dispatch.weight.resize(dispatch.row.size() + step.n(), 1.0F);
  run_experts(step, experts, dispatch.weight.data());
  // One canonical order: routed experts by ascending id, then the shared one.
  step.context.pool.parallel_for(step.n(), [&](uint64_t i, uint32_t) {
    float* out = y.row(i);
    std::fill_n(out, y.cols, 0.0F);
    for (const uint64_t place : dispatch.places[i]) {
      const float* from = routed.row(place);
      for (uint64_t c = 0; c < y.cols; ++c) out[c] += from[c];
    }
    for (uint64_t c = 0; c < y.cols; ++c) out[c] += shared.row(i)[c];
  });
  step.tell("ffn_out.layers", role.layer, Rows<const float>(y));
}

}  // namespace thimble::model
