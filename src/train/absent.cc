// The build without libtorch.
#include "train/trainer.h"

namespace thimble::train {
namespace {

tl::unexpected<Error> absent() {
  return base::fail(ErrorCode::kUnsupported,
                    "this build has no training: install libtorch-dev and build again "
                    "(scripts/deps.sh train)");
}

}  // namespace

bool can_train() { return false; }

Result<TrainSummary> train_model(const TrainOptions&, const TrainRun&) { return absent(); }

Result<std::vector<HeldOutScore>> score_held_out(const TrainOptions&, const TrainRun&) {
  return absent();
}

}  // namespace thimble::train
