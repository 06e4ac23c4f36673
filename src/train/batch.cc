#include "train/batch.h"

#include <algorithm>

#include "base/random.h"

namespace thimble::train {
namespace {

// Each run of labelled tokens, begun anew a window before its first generated token: the decoder
// half of what lies before is not needed (training spec 8.3).
std::vector<Segment> turns(const Batch& batch, const Document& d, uint32_t window) {
  std::vector<Segment> out;
  const auto labelled = [&](int32_t t) { return batch.labels[static_cast<size_t>(t)] >= 0; };
  for (int32_t t = d.begin; t < d.end; ++t) {
    if (!labelled(t)) continue;
    Segment s{std::max(d.begin, t + 1 - static_cast<int32_t>(window)), t, t};
    while (s.end < d.end && labelled(s.end)) ++s.end;
    t = s.end;
    out.push_back(s);
  }
  return out;
}

std::vector<Segment> random_cut(const Document& d, const BatchOptions& options, uint64_t stream) {
  const int32_t length = d.end - d.begin;
  if (length < 2) return {};
  if (base::counter_uniform(options.seed, stream, 0) >= options.replay_share) return {};
  const double u = base::counter_uniform(options.seed, stream, 1);
  const int32_t at = d.begin + 1 + static_cast<int32_t>(u * (length - 1));
  return {{d.begin, at, d.begin}, {at, d.end, at}};
}

}  // namespace

Batch make_batch(std::span<const Row> rows, const Corpus& corpus, const BatchOptions& options) {
  Batch out;
  for (const Row& row : rows) {
    for (const Piece& piece : row) {
      Document d;
      d.begin = static_cast<int32_t>(out.tokens.size());
      d.end = d.begin + static_cast<int32_t>(piece.end - piece.begin);
      const auto tokens = corpus[piece.document].subspan(piece.begin, piece.end - piece.begin);
      for (const LabelledToken& t : tokens) {
        out.tokens.push_back(t.id);
        out.labels.push_back(t.label);
      }
      if (options.replay == DecoderReplay::kTurns) d.segments = turns(out, d, options.window);
      if (options.replay == DecoderReplay::kRandomCut) {
        d.segments = random_cut(d, options, out.documents.size());
      }
      out.documents.push_back(std::move(d));
    }
  }
  return out;
}

}  // namespace thimble::train
