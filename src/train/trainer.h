// A training run from beginning to end: data, steps, curves, checkpoints, export.
//
// The run's folder holds state.safetensors (weights, momenta, place in the data: a run resumes from
// it to the bit), the curves as CSV and SVG. The result of a step depends on options and data
// alone: the batch is cut into fixed pieces and shards, whatever the number of threads. Needs
// libtorch; a build without it answers with kUnsupported.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "train/options.h"

namespace thimble::train {

// Figures of one logged step; `names` says what they are, in the order of the CSV's columns.
struct StepReport {
  uint64_t step = 0;  // done so far
  uint64_t steps = 0;
  uint64_t tokens = 0;  // so far, padding included
  std::vector<std::pair<std::string, double>> figures;

  double figure(std::string_view name) const;  // NaN where it was not measured
};

struct TrainRun {
  Path folder;                      // made if need be; resumed where it holds a state
  Path export_to;                   // empty: none; written after the last step
  uint32_t threads = 0;             // 0: one a CPU
  uint64_t stop_after = 0;          // steps of this call; 0: to the end
  std::function<bool()> stop = {};  // from any thread; true, for good, saves and returns
  std::function<void(uint64_t)> on_bytes = {};           // of the data, as it is read
  std::function<void(const StepReport&)> on_step = {};   // every step
  std::function<void(const std::string&)> on_note = {};  // facts worth a line
};

struct TrainSummary {
  bool interrupted = false;  // by `stop`, before its last step: nothing was exported
  uint64_t steps = 0;
  uint64_t tokens = 0;  // of this call
  double seconds = 0;
  double loss = 0;       // of the last logged step
  double held_out = 0;   // NaN: none
  double gigaflops = 0;  // forward and backward products a second
};

Result<TrainSummary> train_model(const TrainOptions& options, const TrainRun& run);

// The held-out data scored in one numeric form; "served" is the exported model's.
struct HeldOutScore {
  std::string form;
  double loss = 0;      // nats a label
  double accuracy = 0;  // share of labels that have the largest logit
  uint64_t labels = 0;
};

// Scores what the run's folder holds, or where it is empty the checkpoint that the run would begin
// from (kNotFound without one): as served; with one thing at a time left out (cache rounding, all
// rounding, selection); and with the decoder half begun anew a window before each run of labels, as
// a bounded replay does.
Result<std::vector<HeldOutScore>> score_held_out(const TrainOptions& options, const TrainRun& run);

// False where this build has no libtorch.
bool can_train();

}  // namespace thimble::train
