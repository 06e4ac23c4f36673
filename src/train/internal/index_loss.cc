#include "train/internal/index_loss.h"

#include <algorithm>

namespace thimble::train::internal {

void IndexStatistics::add(const IndexStatistics& other) {
  kl += other.kl;
  kl_uniform += other.kl_uniform;
  rows += other.rows;
  bound += other.bound;
  mass += other.mass;
}

Tensor index_loss(const IndexGroup& group, const IndexObjective& objective, double scale,
                  IndexStatistics& statistics) {
  CHECK(!group.teachers.empty());
  constexpr double kTiny = 1e-30;
  const int64_t rows = group.q.size(0);
  const auto slots = static_cast<int64_t>(group.support->size()) / rows;
  const Tensor filled =
      at::from_blob(const_cast<int32_t*>(group.support->data()), {rows, slots}, at::kInt).ge(0);
  Tensor mean = group.teachers[0];
  for (size_t i = 1; i < group.teachers.size(); ++i) mean = mean + group.teachers[i];
  mean = mean / static_cast<double>(group.teachers.size());
  const Tensor mass = mean.sum(1);
  const Tensor teacher = mean / mass.clamp_min(kTiny).unsqueeze(1);

  const Tensor scores = rescore(group.q, group.weights, group.keys, group.support);
  const Tensor log_student = at::log_softmax(scores.masked_fill(filled.logical_not(), -1e30), 1);
  const Tensor log_teacher = teacher.clamp_min(kTiny).log();
  const Tensor negative_entropy = (teacher * log_teacher).sum(1);
  const Tensor kl = negative_entropy - (teacher * log_student).sum(1);

  const Tensor some = filled.any(1).to(kl.scalar_type());
  const Tensor count = filled.sum(1).clamp_min(1).to(kl.scalar_type());
  statistics.rows += some.sum().item<double>();
  statistics.mass += mass.sum().item<double>();
  statistics.kl += (kl.detach() * mass).sum().item<double>();
  statistics.kl_uniform += ((count.log() + negative_entropy) * mass).sum().item<double>();
  const Tensor weight = objective.row_weight == RowWeight::kMass ? mass : some;
  return (kl * weight).sum() * (scale * objective.weight);
}

}  // namespace thimble::train::internal
