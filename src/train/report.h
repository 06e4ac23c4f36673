// The curves of a run: kept as CSV, drawn as SVG, both written anew at every log so that a reader
// always finds whole files.
#pragma once

#include "train/trainer.h"

namespace thimble::train {

// What curves.csv holds; rows beyond `step` are dropped, so that a resumed run goes on where its
// state does. Empty where there is no file.
Result<std::vector<StepReport>> read_curves(const Path& csv, uint64_t step);

// The drawn curves of the run in `folder`.
Path curves_picture(const Path& folder);

Result<void> write_curves(const Path& folder, const std::vector<StepReport>& reports);

}  // namespace thimble::train
