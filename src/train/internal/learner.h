// Weights that learn: the forward and backward passes of a batch, and the step that follows.
//
// The batch comes in pieces. Piece i belongs to shard i mod shards; a shard runs its pieces in
// order on one thread and has its own gradients, and shards are added in order: the sums do not
// depend on the number of threads. Sources: training spec 3, 7, 9, 12.
#pragma once

#include <functional>

#include "base/thread_pool.h"
#include "train/batch.h"
#include "train/internal/graph.h"
#include "train/options.h"

namespace thimble::train::internal {

// All that a run needs to go on.
struct LearnerState {
  std::vector<Tensor> masters;  // float32
  std::vector<Tensor> first;    // momenta; undefined for router biases
  std::vector<Tensor> second;   // Adam only
  int64_t step = 0;
};

struct StepFigures {
  double cross_entropy = 0;  // a label
  double indexer = 0;
  double balance = 0;
  double gradient_norm = 0;  // of what is clipped together
  double entropy_mean = 0;   // of expert loads, 1 is even
  double entropy_min = 0;
  IndexStatistics index;
  int64_t tokens = 0;
  int64_t rows = 0;  // that select, over all index sources
};

// How a model is computed when it is scored.
struct EvaluationForm {
  bool stored_weights = true;  // what the exported file holds; else the float32 masters
  bool round_caches = true;
  int64_t topk = 0;  // 0: the configuration's
};

struct Evaluation {
  double cross_entropy = 0;  // a label
  double accuracy = 0;       // share of labels that have the largest logit
  int64_t labels = 0;
};

class Learner {
 public:
  // Options, plan and pool must outlive it.
  Learner(const TrainOptions& options, const LayoutTables& tables, base::ThreadPool& pool);

  LearnerState& state() { return state_; }
  const LearnerState& state() const { return state_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // A fresh beginning, or the values of a checkpoint.
  void begin(std::vector<Tensor> masters);

  // kCancelled, and nothing has changed, where `stop` became true; asked before each piece.
  Result<StepFigures> step(const std::vector<Batch>& pieces,
                           const std::function<bool()>& stop = {});

  // As the model is computed at this step, or in another form.
  Result<Evaluation> evaluate(const std::vector<Batch>& pieces);
  Result<Evaluation> evaluate(const std::vector<Batch>& pieces, const EvaluationForm& form);

  // Products of forward and backward for one token, experts counted as far as they are active.
  double flops_a_token() const;

 private:
  struct Shard;

  bool quantises() const;
  bool stores_weights() const { return options_.quantise_weights && quantises(); }
  ForwardOptions forward_options() const;
  EvaluationForm form_now() const;
  std::vector<Tensor> compute_values(bool stored);
  Result<void> run_shards(const std::vector<Batch>& pieces, const std::function<bool()>& stop,
                          std::vector<Shard>& shards);
  std::vector<Tensor> add_gradients(std::vector<Shard>& shards);
  double clip(std::vector<Tensor>& gradients);
  void update(size_t i, const Tensor& gradient, double share);
  void update_all(std::vector<Tensor>& gradients);
  void update_biases(const std::vector<Shard>& shards, StepFigures& figures);

  const TrainOptions& options_;
  LayoutTables tables_;
  base::ThreadPool& pool_;
  Graph graph_;
  std::vector<Parameter> parameters_;
  LearnerState state_;
};

// One thread inside libtorch and its BLAS: shards are the parallelism. Call on each thread that
// computes.
void compute_alone();

// Returns free pages to the system. Pieces differ in size, so that without it the heap of a long
// run grows to several times what is in use.
void release_free_pages();

}  // namespace thimble::train::internal
