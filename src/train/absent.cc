// The build without libtorch.
#include "train/trainer.h"

namespace thimble::train {

bool can_train() { return false; }

Result<TrainSummary> train_model(const TrainOptions&, const TrainRun&) {
  return base::fail(ErrorCode::kUnsupported,
                    "this build has no training: install libtorch-dev and build again "
                    "(scripts/deps.sh train)");
}

}  // namespace thimble::train
