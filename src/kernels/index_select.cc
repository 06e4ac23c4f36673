// The indexer: scores of all jobs tile by tile, then the selection of each job.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/tile_scorer.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

using internal::divide_up;
using internal::QueryCodes;
using internal::TileScorer;

constexpr uint64_t kTaskEntries = 256;  // at least
constexpr uint64_t kTilesAhead = 2;     // asked for
constexpr uint32_t kRunScores = 16;     // that share a maximum, where no candidate blocks are kept

// Whether scores decide anything: with few entries all are taken.
bool needs_scores(const SelectJob& job, const SelectShape& shape) {
  return job.visible > shape.topk || job.allowed_blocks != nullptr ||
         job.candidate_blocks != nullptr || job.scores != nullptr;
}

// The caller's buffer if it wants the scores, else scratch from the workspace.
std::span<float> score_buffer(const SelectJob& job, const SelectShape& shape,
                              Workspace& workspace) {
  if (!needs_scores(job, shape)) return {};
  if (job.scores != nullptr) return {job.scores, job.visible};
  return workspace.take<float>(job.visible);
}

// None where scores are not needed, or not of MXFP4 values.
QueryCodes query_codes(const SelectJob& job, const SelectShape& shape, const Table& table,
                       Workspace& workspace) {
  const bool mxfp4 = job.keys.format == TileFormat::kMxfp4 && shape.dims % 32 == 0;
  if (!mxfp4 || !needs_scores(job, shape) || job.visible == 0) return {};
  return internal::make_query_codes(job, shape, table, workspace);
}

// Whether a tile holds an entry that could be chosen; a caller who wants scores gets them all.
bool wanted(const SelectJob& job, const SelectShape& shape, uint64_t tile) {
  if (job.allowed_blocks == nullptr || job.scores != nullptr) return true;
  const uint64_t last = std::min(job.visible, (tile + 1) * kTileRows) - 1;
  for (uint64_t b = tile * kTileRows / shape.block_size; b <= last / shape.block_size; ++b) {
    if (job.allowed_blocks[b] != 0) return true;
  }
  return false;
}

// A query at work: its codes, and what is written of its scores.
struct Scoring {
  QueryCodes codes = {};
  std::span<float> scores = {};     // [visible], or none
  std::span<uint32_t> maxima = {};  // of runs of scores; none where blocks say what is looked at
  uint32_t run = 0;                 // scores in a run
  uint64_t task_entries = 0;        // whole tiles and whole runs

  uint64_t tasks() const { return divide_up(scores.size(), task_entries); }
};

Scoring prepare(const SelectJob& job, const SelectShape& shape, const Table& table,
                Workspace& workspace) {
  Scoring s;
  s.codes = query_codes(job, shape, table, workspace);
  s.scores = score_buffer(job, shape, workspace);
  s.run = job.candidate_blocks != nullptr ? shape.block_size : kRunScores;
  const uint64_t step = std::lcm(uint64_t{kTileRows}, uint64_t{s.run});
  s.task_entries = divide_up(kTaskEntries, step) * step;
  if (job.allowed_blocks == nullptr) {
    s.maxima = workspace.take<uint32_t>(divide_up(s.scores.size(), s.run));
  }
  return s;
}

// The scores of one task and their maxima.
void score_entries(const SelectJob& job, const Scoring& s, const SelectShape& shape, uint64_t task,
                   TileScorer& scorer) {
  const uint64_t begin = task * s.task_entries;
  const uint64_t end = std::min(begin + s.task_entries, job.visible);
  for (uint64_t tile = begin / kTileRows; tile * kTileRows < end; ++tile) {
    if (!wanted(job, shape, tile)) continue;
    const uint64_t count = std::min<uint64_t>(kTileRows, job.visible - tile * kTileRows);
    const uint64_t ahead = (tile + kTilesAhead) * kTileRows < end ? tile + kTilesAhead : tile;
    scorer.add(job.keys.tile(tile), job.keys.tile(ahead),
               s.scores.subspan(tile * kTileRows, count));
  }
  scorer.finish();
  if (s.maxima.empty()) return;
  score_maxima(s.scores.subspan(begin, end - begin), s.run, &s.maxima[begin / s.run]);
}

void choose(const SelectJob& job, const SelectShape& shape, const Scoring& s) {
  if (job.candidate_blocks != nullptr) {
    select_blocks(s.maxima, shape.candidate_blocks, job.candidate_blocks);
  }
  if (!needs_scores(job, shape)) {
    for (uint32_t i = 0; i < shape.topk; ++i) {
      job.selected[i] = i < job.visible ? static_cast<int32_t>(i) : -1;
    }
  } else if (job.allowed_blocks != nullptr) {
    select_allowed(s.scores, job.allowed_blocks, shape.block_size, shape.topk, job.selected);
  } else {
    select_topk(s.scores, s.maxima, s.run, shape.topk, job.selected);
  }
}

void select_batch(std::span<const SelectJob> jobs, const SelectShape& shape, Context context) {
  const Table& table = kernels();
  const Workspace::Mark mark(context.workspace);
  internal::TaskMap map(context.workspace, jobs.size());
  const std::span<Scoring> work = context.workspace.take<Scoring>(jobs.size());
  uint64_t entries = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].visible > 0 && needs_scores(jobs[i], shape)) {
      CHECK_EQ(jobs[i].keys.dims, shape.dims);
    }
    work[i] = prepare(jobs[i], shape, table, context.workspace);
    map.add(work[i].tasks());
    entries += work[i].scores.size();
  }
  const uint64_t floats = TileScorer::scratch_floats(shape.dims);
  const std::span<float> scratch = context.workspace.take<float>(context.pool.size() * floats);
  const uint64_t per_entry = uint64_t{shape.heads} * shape.dims;
  internal::run_tasks(context, map.count(), entries * per_entry,
                      [&](uint64_t index, uint32_t worker) {
                        const auto place = map.find(index);
                        const SelectJob& job = jobs[place.item];
                        const Scoring& scoring = work[place.item];
                        TileScorer scorer(job, shape, scoring.codes, table,
                                          scratch.subspan(worker * floats, floats));
                        score_entries(job, scoring, shape, place.task, scorer);
                      });
  internal::run_tasks(context, jobs.size(), entries,
                      [&](uint64_t index, uint32_t) { choose(jobs[index], shape, work[index]); });
}

}  // namespace

void index_select(std::span<const SelectJob> jobs, const SelectShape& shape, Context context) {
  for (const SelectJob& job : jobs) {
    const bool blocks = job.allowed_blocks != nullptr || job.candidate_blocks != nullptr;
    CHECK(!blocks || shape.block_size >= 1);
    CHECK(job.allowed_blocks == nullptr || job.candidate_blocks == nullptr);
  }
  for (size_t begin = 0; begin < jobs.size();) {
    size_t end = begin;
    uint64_t floats = 0;
    while (end < jobs.size() && (end == begin || floats + jobs[end].visible <= kScoreFloats)) {
      floats += jobs[end++].visible;
    }
    select_batch(jobs.subspan(begin, end - begin), shape, context);
    begin = end;
  }
}

}  // namespace thimble::kernels
