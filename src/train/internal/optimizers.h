// The three update rules of training spec 12, each on one tensor in place.
//
// float32. The momentum tensors belong to the caller, start at zero, and are all the state there
// is. Pure functions; different tensors may be updated on different threads.
#pragma once

#include "train/internal/ops.h"
#include "train/internal/weights.h"

namespace thimble::train::internal {

struct MuonRule {
  double momentum = 0.95;
  double weight_decay = 0.1;
  double gamma = 0.18;  // size of the update, root mean square
  int64_t steep = 8;    // iterations that pull the singular values towards one
  int64_t exact = 2;    // and that leave them there
  Products products = Products::kFull;
};

// Nearest orthogonal matrix (rows or columns, whichever are fewer) of x [rows, cols].
Tensor orthogonal(const Tensor& x, const MuonRule& rule);

// weight, gradient, momentum [rows, cols] in `blocks` equal row blocks, or a stack of matrices.
void muon_step(const MuonRule& rule, double rate, int64_t blocks, const Tensor& gradient,
               Tensor& momentum, Tensor& weight);

struct SinkhornRule {
  double momentum = 0.95;
  double gamma = 0.18;
  double quiet = 1e-3;  // rows below this share of the mean row norm stay where they are
  int64_t iterations = 11;
};

// Rows and columns of x [rows, cols] brought to equal norm in turn, rows last.
Tensor balanced(const Tensor& x, const SinkhornRule& rule);

void sinkhorn_step(const SinkhornRule& rule, double rate, const Tensor& gradient, Tensor& momentum,
                   Tensor& weight);

struct AdamRule {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-20;
  double weight_decay = 0;
};

// `step` counts from 1.
void adam_step(const AdamRule& rule, double rate, int64_t step, const Tensor& gradient,
               Tensor& first, Tensor& second, Tensor& weight);

// Router biases: up where an expert had less than its share of `load`, down where more, then
// centred (training spec 9).
void balance_step(double speed, const std::vector<int64_t>& load, Tensor& bias);

}  // namespace thimble::train::internal
