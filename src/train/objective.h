// How the sparse indexer learns: the switches of training spec 5.4.
//
// The published model does not say; the default is the divergence between the indexer's scores and
// the attention that its selection got, over the selected entries. Plain data.
#pragma once

#include <cstdint>

namespace thimble::train {

enum class IndexSupport { kSelected, kAllVisible };
enum class TeacherScope { kOwn, kServed };  // the layer's own attention, or of all it selects for
enum class RowWeight { kMass, kNone };

struct IndexObjective {
  double weight = 1;  // not a learning rate: the optimisers ignore the scale of a gradient
  IndexSupport support = IndexSupport::kSelected;
  TeacherScope scope = TeacherScope::kServed;
  RowWeight row_weight = RowWeight::kMass;
  double explore = 0;   // share of slots replaced by random visible entries
  bool freeze = false;  // no objective at all
};

}  // namespace thimble::train
