#include <algorithm>

#include "base/check.h"
#include "model/internal/step.h"

namespace thimble::model {
namespace {

// Moves the rows listed (ascending) to the front.
template <class T>
void move_rows(Rows<T>& rows, const std::vector<uint64_t>& kept) {
  if (rows.data == nullptr) return;
  for (uint64_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != i) std::copy_n(rows.row(kept[i]), rows.cols, rows.row(i));
  }
  rows.rows = kept.size();
}

}  // namespace

void Step::keep_from(uint32_t layer, uint64_t arch::LayerRows::*first_kept) {
  std::vector<uint64_t> kept;
  for (size_t c = 0; c < chunks.size(); ++c) {
    ChunkProgress& chunk = progress[c];
    const arch::RowPlan* rows_of = chunks[c].plan;
    const uint64_t first = rows_of == nullptr ? 0 : rows_of->layers[layer].*first_kept;
    const uint64_t begin = std::clamp(first, chunk.first_position(), chunk.end);
    const uint64_t dropped = begin - chunk.first_position();
    for (uint64_t i = dropped; i < chunk.row_count; ++i) kept.push_back(chunk.first_row + i);
    chunk.row_count -= dropped;
    chunk.first_row = kept.size() - chunk.row_count;
  }
  if (kept.size() == n()) return;
  move_rows(stream, kept);
  for (Rows<float>* held : {&pre, &x, &mix.pre, &mix.post, &mix.comb}) move_rows(*held, kept);
  move_rows(selected, kept);
  for (RopeTable& table : rope) {
    move_rows(table.cos, kept);
    move_rows(table.sin, kept);
  }
  for (uint64_t i = 0; i < kept.size(); ++i) {
    rows[i] = rows[kept[i]];
    if (!candidate_blocks.empty()) candidate_blocks[i] = candidate_blocks[kept[i]];
  }
  rows.resize(kept.size());
  if (!candidate_blocks.empty()) candidate_blocks.resize(kept.size());
}

}  // namespace thimble::model
