// `--mode` of the commands that run a model.
#pragma once

#include <string>

#include "base/check.h"
#include "model/forward.h"

namespace thimble::app {

// REQUIRES: a name that Options::choice() let through: fast, exact or nokvq.
inline model::Mode mode_of(const std::string& name) {
  if (name == "fast") return model::Mode::kFast;
  if (name == "exact") return model::Mode::kExact;
  CHECK(name == "nokvq");
  return model::Mode::kNokvq;
}

}  // namespace thimble::app
