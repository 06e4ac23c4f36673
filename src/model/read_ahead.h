// What a model has asked the system to read ahead of its use. Plain data.
#pragma once

#include "base/read_ahead.h"

namespace thimble::model {

// Pages of mapped weights, and how many of them memory held already.
struct ReadAheadCounts {
  base::PageCount experts;
  base::PageCount engram;
  bool residency_known = false;  // else the system names every page resident
};

}  // namespace thimble::model
