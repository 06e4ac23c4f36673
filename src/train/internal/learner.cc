#include "train/internal/learner.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <numeric>

#include "base/random.h"
#include "train/internal/optimizers.h"

namespace thimble::train::internal {
namespace {

MuonRule muon_rule(const TrainOptions& o) {
  MuonRule rule;
  rule.weight_decay = o.optimizer.weight_decay;
  rule.steep = o.optimizer.newton_schulz;
  rule.products = o.bf16_products ? Products::kBf16 : Products::kFull;
  return rule;
}

bool clipped(const Parameter& p) {
  return p.owner != Owner::kIndexer && p.owner != Owner::kEngramTable;
}

double rate_factor(const Parameter& p, const OptimizerOptions& o) {
  if (p.owner == Owner::kEngramTable) return o.engram_table_rate;
  return p.owner == Owner::kIndexer ? o.indexer_rate : 1;
}

// Normalised entropy of a load: 1 is even.
double evenness(const std::vector<int64_t>& load) {
  const auto total = static_cast<double>(std::accumulate(load.begin(), load.end(), int64_t{0}));
  if (total == 0 || load.size() < 2) return 1;
  double entropy = 0;
  for (const int64_t n : load) {
    if (n == 0) continue;
    const double p = static_cast<double>(n) / total;
    entropy -= p * std::log(p);
  }
  return entropy / std::log(static_cast<double>(load.size()));
}

// Runs f(index) for each index on the pool; what a library throws becomes the result.
template <class F>
Result<void> guarded(base::ThreadPool& pool, uint64_t count, F f) {
  std::mutex mutex;
  Result<void> result;
  pool.parallel_for(count, [&](uint64_t index, uint32_t) {
    compute_alone();
    try {
      f(index);
    } catch (const std::exception& e) {
      const std::lock_guard lock(mutex);
      result = base::fail(ErrorCode::kInternal, "training step: {}", e.what());
    }
  });
  return result;
}

}  // namespace

// Gradients and sums of the pieces that one shard runs.
struct Learner::Shard {
  std::vector<Tensor> leaves;
  double cross_entropy = 0;
  double indexer = 0;
  double balance = 0;
  IndexStatistics index;
  std::vector<std::vector<int64_t>> loads;

  void add(const ForwardResult& r) {
    cross_entropy += r.cross_entropy.item<double>();
    if (r.indexer.defined()) indexer += r.indexer.item<double>();
    if (r.balance.defined()) balance += r.balance.item<double>();
    index.add(r.index);
    loads.resize(r.loads.size());
    for (size_t l = 0; l < loads.size(); ++l) {
      loads[l].resize(r.loads[l].size());
      for (size_t e = 0; e < loads[l].size(); ++e) loads[l][e] += r.loads[l][e];
    }
  }
};

void compute_alone() {
  at::set_num_threads(1);
  static std::once_flag once;
  std::call_once(once, [] {
    using SetThreads = void (*)(int);
    const auto set =
        reinterpret_cast<SetThreads>(::dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (set != nullptr) set(1);
    // Tensors of a step come and go by the megabyte: keep their pages.
    ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
    ::mallopt(M_TRIM_THRESHOLD, 2000 << 20);
  });
}

void release_free_pages() { ::malloc_trim(0); }

Learner::Learner(const TrainOptions& options, const LayoutTables& tables, base::ThreadPool& pool)
    : options_(options),
      tables_(tables),
      pool_(pool),
      graph_(*tables.config, *tables.plan),
      parameters_(parameters_of(*tables.config, *tables.plan)) {}

void Learner::begin(std::vector<Tensor> masters) {
  state_ = {};
  state_.masters = std::move(masters);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Update how = parameters_[i].update;
    const Tensor& master = state_.masters[i];
    const bool adam = how == Update::kAdam || how == Update::kAdamDecayed;
    state_.first.push_back(how == Update::kBalance ? Tensor() : at::zeros_like(master));
    state_.second.push_back(adam ? at::zeros_like(master) : Tensor());
  }
}

bool Learner::quantises() const {
  const double at = static_cast<double>(state_.step) / static_cast<double>(options_.steps);
  return at >= options_.quantise_from;
}

ForwardOptions Learner::forward_options() const {
  const double at = static_cast<double>(state_.step) / static_cast<double>(options_.steps);
  ForwardOptions o;
  o.round_caches = options_.quantise_caches && quantises();
  o.candidates = options_.candidates;
  o.topk = slots_at(options_, static_cast<uint64_t>(state_.step));
  o.products = options_.bf16_products ? Products::kBf16 : Products::kFull;
  o.index = options_.index;
  if (at < options_.all_visible_until) o.index.support = IndexSupport::kAllVisible;
  o.balance_weight = options_.balance_weight;
  o.explore_seed = base::mix64(options_.seed + static_cast<uint64_t>(state_.step));
  return o;
}

EvaluationForm Learner::form_now() const {
  const ForwardOptions o = forward_options();
  return {.stored_weights = stores_weights(), .round_caches = o.round_caches, .topk = o.topk};
}

std::vector<Tensor> Learner::compute_values(bool stored) {
  std::vector<Tensor> out(parameters_.size());
  pool_.parallel_for(out.size(), [&](uint64_t i, uint32_t) {
    compute_alone();
    out[i] = stored ? stored_value(parameters_[i], state_.masters[i]) : state_.masters[i].detach();
  });
  return out;
}

Result<void> Learner::run_shards(const std::vector<Batch>& pieces,
                                 const std::function<bool()>& stop, std::vector<Shard>& shards) {
  LossScales scales{0, 0};
  for (const Batch& batch : pieces) {
    scales.labels += static_cast<double>(
        std::count_if(batch.labels.begin(), batch.labels.end(), [](int32_t l) { return l >= 0; }));
    scales.tokens += static_cast<double>(batch.tokens.size());
  }
  scales.labels = 1 / std::max(scales.labels, 1.0);
  scales.tokens = 1 / std::max(scales.tokens, 1.0);
  const std::vector<Tensor> values = compute_values(stores_weights());
  const ForwardOptions options = forward_options();
  return guarded(pool_, shards.size(), [&](uint64_t s) {
    Shard& shard = shards[s];
    for (size_t i = 0; i < values.size(); ++i) {
      const bool learns = parameters_[i].update != Update::kBalance;
      shard.leaves.push_back(values[i].detach().set_requires_grad(learns));
    }
    const ModelTensors weights = bind_tensors(*tables_.config, *tables_.plan, shard.leaves);
    for (size_t p = s; p < pieces.size(); p += shards.size()) {
      if (stop && stop()) return;
      const Layout layout = make_layout(tables_, pieces[p]);
      const ForwardResult result = graph_.losses(weights, layout, options, scales);
      result.loss().backward();
      shard.add(result);
    }
  });
}

std::vector<Tensor> Learner::add_gradients(std::vector<Shard>& shards) {
  std::vector<Tensor> out(parameters_.size());
  pool_.parallel_for(out.size(), [&](uint64_t i, uint32_t) {
    compute_alone();
    for (Shard& shard : shards) {
      const Tensor grad = shard.leaves[i].grad();
      if (!grad.defined()) continue;
      if (out[i].defined()) {
        out[i].add_(grad);
      } else {
        out[i] = grad.contiguous();
      }
    }
  });
  return out;
}

double Learner::clip(std::vector<Tensor>& gradients) {
  double square = 0;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined() || !clipped(parameters_[i])) continue;
    const double norm = gradients[i].norm().item<double>();
    square += norm * norm;
  }
  const double norm = std::sqrt(square);
  const double limit = options_.optimizer.clip;
  if (limit <= 0 || norm <= limit) return norm;
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined() && clipped(parameters_[i])) gradients[i].mul_(limit / norm);
  }
  return norm;
}

void Learner::update(size_t i, const Tensor& gradient, double share) {
  const Parameter& p = parameters_[i];
  Tensor& master = state_.masters[i];
  const double rate = options_.optimizer.rate * share * rate_factor(p, options_.optimizer);
  switch (p.update) {
    case Update::kMuon:
      return muon_step(muon_rule(options_), rate, p.blocks, gradient, state_.first[i], master);
    case Update::kSinkhorn: {
      SinkhornRule rule;
      if (p.owner == Owner::kEngramTable) rule.quiet = options_.optimizer.table_quiet;
      return sinkhorn_step(rule, rate, gradient, state_.first[i], master);
    }
    case Update::kAdam:
    case Update::kAdamDecayed: {
      AdamRule rule;
      if (p.update == Update::kAdamDecayed) rule.weight_decay = options_.optimizer.weight_decay;
      return adam_step(rule, rate, state_.step + 1, gradient, state_.first[i], state_.second[i],
                       master);
    }
    case Update::kBalance:
      return;
  }
}

void Learner::update_all(std::vector<Tensor>& gradients) {
  const double share =
      rate_share(options_.optimizer, static_cast<uint64_t>(state_.step), options_.steps);
  // The longest first, so that threads finish together.
  std::vector<size_t> order;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const bool frozen = parameters_[i].owner == Owner::kIndexer && options_.index.freeze;
    if (gradients[i].defined() && !frozen) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return gradients[a].numel() > gradients[b].numel(); });
  pool_.parallel_for(order.size(), [&](uint64_t k, uint32_t) {
    compute_alone();
    const at::NoGradGuard no_grad;
    update(order[k], gradients[order[k]], share);
  });
}

void Learner::update_biases(const std::vector<Shard>& shards, StepFigures& figures) {
  // At first fast, then as published (training spec 9).
  const double at = static_cast<double>(state_.step) / static_cast<double>(options_.steps);
  const double speed =
      options_.optimizer.balance_speed +
      at * (std::min(0.001, options_.optimizer.balance_speed) - options_.optimizer.balance_speed);
  size_t layer = 0;
  figures.entropy_min = 1;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].update != Update::kBalance) continue;
    std::vector<int64_t> load(static_cast<size_t>(state_.masters[i].numel()));
    for (const Shard& shard : shards) {
      if (shard.loads.empty()) continue;
      for (size_t e = 0; e < load.size(); ++e) load[e] += shard.loads[layer][e];
    }
    balance_step(speed, load, state_.masters[i]);
    const double even = evenness(load);
    figures.entropy_min = std::min(figures.entropy_min, even);
    figures.entropy_mean += even;
    ++layer;
  }
  figures.entropy_mean /= static_cast<double>(std::max<size_t>(layer, 1));
}

Result<StepFigures> Learner::step(const std::vector<Batch>& pieces,
                                  const std::function<bool()>& stop) {
  std::vector<Shard> shards(options_.shards);
  THIMBLE_TRY(run_shards(pieces, stop, shards));
  if (stop && stop()) return base::fail(ErrorCode::kCancelled, "a step was left");
  StepFigures figures;
  for (const Shard& shard : shards) {
    figures.cross_entropy += shard.cross_entropy;
    figures.indexer += shard.indexer;
    figures.balance += shard.balance;
    figures.index.add(shard.index);
  }
  if (!std::isfinite(figures.cross_entropy)) {
    return base::fail(ErrorCode::kInternal,
                      "the loss of step {} is not finite; a lower "
                      "optimizer.rate or a lower optimizer.clip may help",
                      state_.step + 1);
  }
  for (const Batch& batch : pieces) figures.tokens += static_cast<int64_t>(batch.tokens.size());
  std::vector<Tensor> gradients = add_gradients(shards);
  figures.gradient_norm = clip(gradients);
  update_all(gradients);
  update_biases(shards, figures);
  ++state_.step;
  return figures;
}

Result<Evaluation> Learner::evaluate(const std::vector<Batch>& pieces) {
  return evaluate(pieces, form_now());
}

Result<Evaluation> Learner::evaluate(const std::vector<Batch>& pieces, const EvaluationForm& form) {
  const std::vector<Tensor> values = compute_values(form.stored_weights);
  const ModelTensors weights = bind_tensors(*tables_.config, *tables_.plan, values);
  ForwardOptions options = forward_options();
  options.round_caches = form.round_caches;
  options.topk = form.topk;
  options.index.explore = 0;
  options.index.freeze = true;
  std::vector<Evaluation> parts(pieces.size());
  THIMBLE_TRY(guarded(pool_, pieces.size(), [&](uint64_t p) {
    const at::NoGradGuard no_grad;
    const Layout layout = make_layout(tables_, pieces[p]);
    const ForwardResult result = graph_.losses(weights, layout, options, LossScales{});
    parts[p].cross_entropy = result.cross_entropy.item<double>();
    std::vector<int64_t> labels;
    for (const int32_t label : *layout.labels) {
      if (label >= 0) labels.push_back(label);
    }
    const Tensor right = result.logits.argmax(1).eq(at::tensor(labels, at::kLong));
    parts[p].accuracy = static_cast<double>(right.sum().item<int64_t>());
    parts[p].labels = static_cast<int64_t>(labels.size());
  }));
  Evaluation sum;
  for (const Evaluation& part : parts) {
    sum.cross_entropy += part.cross_entropy;
    sum.accuracy += part.accuracy;
    sum.labels += part.labels;
  }
  const double count = std::max(static_cast<double>(sum.labels), 1.0);
  sum.cross_entropy /= count;
  sum.accuracy /= count;
  return sum;
}

double Learner::flops_a_token() const {
  double active = 0;
  for (const Parameter& p : parameters_) {
    double size = 1;
    for (const int64_t n : p.shape) size *= static_cast<double>(n);
    if (p.stacked()) {
      active += size / static_cast<double>(p.shape[0]) * tables_.config->num_experts_per_tok;
    } else if (p.update == Update::kMuon || p.owner == Owner::kHead) {
      active += size;
    }
  }
  return 6 * active;
}

}  // namespace thimble::train::internal
