// What a training run is told: one JSON file, every key with a default but the model, the data and
// the number of steps.
//
// Fractions are of the whole run. Relative paths start at the file's folder. Unknown keys are
// errors. Plain data.
#pragma once

#include <string>
#include <vector>

#include "arch/config.h"
#include "train/objective.h"
#include "train/sources.h"

namespace thimble::train {

enum class KSchedule {
  kConstant,  // the configuration's index_topk from the first step
  kAnneal,    // everything at first, shrinking linearly until `k_until`
  kDense,     // everything until `k_until`
};

enum class DecoderReplay {
  kNone,
  kRandomCut,  // some documents begin their decoder windows anew at a random place
  kTurns,      // each labelled run begins anew a window before it; what is far before is not run
};

struct OptimizerOptions {
  double rate = 3e-3;
  double warmup = 0.02;          // rise to `rate`,
  double hold = 0.62;            // stay until here,
  double decay = 0.89;           // fall along a cosine until here,
  double floor = 0.1;            // to this share of it
  double engram_table_rate = 5;  // times
  double indexer_rate = 1;
  double clip = 1;  // norm of all gradients but the indexer's and the tables'; 0: none
  double weight_decay = 0.1;
  double balance_speed = 0.005;
  double table_quiet = 0.05;   // training spec 11: few hits a row make the published 1e-3 run away
  uint32_t newton_schulz = 8;  // steep iterations; two exact ones follow
};

struct TrainOptions {
  arch::Config config;
  Path tokenizer;  // tokenizer.json; empty: synthetic tasks only
  std::vector<Source> data;
  std::vector<Source> held_out;
  Path start;  // a checkpoint directory to begin from; empty: from nothing

  uint64_t steps = 0;
  uint32_t row_tokens = 512;
  uint32_t rows_per_step = 32;
  uint32_t rows_per_piece = 2;  // one forward and backward pass
  uint32_t shards = 2;          // gradient sums that are added at the end, whatever the threads
  uint64_t seed = 1;
  bool bf16_products = false;

  bool quantise_weights = true;  // compute with stored values, gradients to the float32 master
  bool quantise_caches = true;
  double quantise_from = 0;
  bool candidates = true;
  DecoderReplay replay = DecoderReplay::kNone;
  double replay_share = 0.3;

  IndexObjective index;
  double all_visible_until = 0;
  KSchedule k_schedule = KSchedule::kConstant;
  double k_until = 0.45;
  double balance_weight = 1e-4;
  OptimizerOptions optimizer;

  uint64_t log_every = 10;
  uint64_t eval_every = 200;
  uint64_t save_every = 200;
};

// Errors name the key and what it held.
Result<TrainOptions> load_train_options(const Path& file);

// The dense twin of a run: every entry of a row is selected, nothing else differs.
TrainOptions dense_twin(TrainOptions options);

// Learning rate of step `step` (from 0) as a share of the peak: warm-up, plateau, cosine, plateau.
double rate_share(const OptimizerOptions& options, uint64_t step, uint64_t steps);

// Attention slots at this step; `row_tokens` of them are every entry.
int64_t slots_at(const TrainOptions& options, uint64_t step);

}  // namespace thimble::train
