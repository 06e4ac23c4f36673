#include "train/internal/layout.h"

#include <algorithm>

namespace thimble::train::internal {
namespace {

Indices share(std::vector<int32_t> values) {
  return std::make_shared<const std::vector<int32_t>>(std::move(values));
}

Tensor longs(const std::vector<int32_t>& values) {
  Tensor out = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), out.data_ptr<int64_t>());
  return out;
}

// Rotary tables of the given positions, as the served model rounds them.
void rotary(const LayoutTables& t, std::span<const int32_t> positions, bool compressed, Tensor& cos,
            Tensor& sin) {
  const model::RopeFrequencies all = model::make_rope_frequencies(*t.config);
  const std::vector<float>& frequencies = all.of(compressed);
  const auto pairs = static_cast<int64_t>(frequencies.size());
  const auto rows = static_cast<int64_t>(positions.size());
  cos = at::empty({rows, pairs}, at::kFloat);
  sin = at::empty({rows, pairs}, at::kFloat);
  for (int64_t i = 0; i < rows; ++i) {
    model::rope_row(frequencies, static_cast<uint64_t>(positions[static_cast<size_t>(i)]),
                    {cos.data_ptr<float>() + i * pairs, frequencies.size()},
                    {sin.data_ptr<float>() + i * pairs, frequencies.size()});
  }
  cos = cos.to(t.type);
  sin = sin.to(t.type);
}

// Rows of segments [begin, end), windows inside them.
struct RowList {
  std::vector<int32_t> tokens, window_first, positions, labels;

  void add(const Batch& batch, const Document& d, const Segment& s, uint32_t window) {
    const auto base = static_cast<int32_t>(tokens.size());
    for (int32_t t = s.begin; t < s.end; ++t) {
      const auto inside = static_cast<uint64_t>(t - s.begin);
      tokens.push_back(t);
      window_first.push_back(base + static_cast<int32_t>(arch::first_visible(inside, window)));
      positions.push_back(t - d.begin);
      labels.push_back(t < s.loss_from ? -1 : batch.labels[static_cast<size_t>(t)]);
    }
  }

  QueryRows finish(const LayoutTables& t, bool identity) {
    QueryRows out;
    if (!identity) out.source = longs(tokens);
    out.tokens = share(tokens);
    out.window_first = share(window_first);
    for (const bool compressed : {false, true}) {
      rotary(t, positions, compressed, out.cos[compressed], out.sin[compressed]);
    }
    return out;
  }
};

EntryRows make_entries(const LayoutTables& t, const Batch& batch, uint32_t ratio) {
  EntryRows out;
  std::vector<std::vector<int32_t>> members(ratio);
  std::vector<int32_t> positions;
  for (const Document& d : batch.documents) {
    const auto first = static_cast<int32_t>(positions.size());
    const auto length = static_cast<uint64_t>(d.end - d.begin);
    for (uint64_t j = 0; j < arch::entries_after(length, ratio); ++j) {
      const auto at = static_cast<int32_t>(arch::entry_position(j, ratio));
      positions.push_back(at);
      for (uint32_t k = 0; k < ratio; ++k) {
        members[k].push_back(d.begin + at + static_cast<int32_t>(k));
      }
    }
    for (uint64_t p = 0; p < length; ++p) {
      out.first.push_back(first);
      out.visible.push_back(static_cast<int32_t>(arch::visible_entries(p, ratio)));
    }
  }
  out.count = static_cast<int64_t>(positions.size());
  for (const auto& m : members) out.members.push_back(longs(m));
  rotary(t, positions, true, out.cos, out.sin);
  return out;
}

std::vector<Tensor> make_engram_rows(const LayoutTables& t, const Batch& batch) {
  std::vector<Tensor> out;
  const model::EngramHasher& hasher = *t.hasher;
  const int64_t lookups = t.config->engram.lookups();
  const auto tokens = static_cast<int64_t>(batch.tokens.size());
  std::vector<int32_t> recent(hasher.history_tokens() + 1);
  for (uint32_t e = 0; e < t.config->engram.layer_ids.size(); ++e) {
    Tensor rows = at::empty({tokens * lookups}, at::kLong);
    for (const Document& d : batch.documents) {
      for (int32_t i = d.begin; i < d.end; ++i) {
        for (size_t k = 0; k < recent.size(); ++k) {
          const int32_t at = i - static_cast<int32_t>(recent.size() - 1 - k);
          recent[k] =
              at < d.begin
                  ? model::kDeadToken
                  : static_cast<int32_t>(hasher.compressed(batch.tokens[static_cast<size_t>(at)]));
        }
        hasher.row_ids(e, recent,
                       {rows.data_ptr<int64_t>() + i * lookups, static_cast<size_t>(lookups)});
      }
    }
    out.push_back(rows);
  }
  return out;
}

}  // namespace

Layout make_layout(const LayoutTables& tables, const Batch& batch) {
  Layout out;
  RowList encoder, decoder;
  bool identity = true;
  for (const Document& d : batch.documents) {
    CHECK_EQ(static_cast<size_t>(d.begin), out.document.size());
    const Segment whole{d.begin, d.end, d.begin};
    encoder.add(batch, d, whole, tables.plan->window);
    identity = identity && d.segments.empty();
    if (d.segments.empty()) decoder.add(batch, d, whole, tables.plan->window);
    for (const Segment& s : d.segments) decoder.add(batch, d, s, tables.plan->window);
    const auto number = static_cast<int32_t>(out.document_tokens.size());
    out.document.resize(static_cast<size_t>(d.end), number);
    out.document_tokens.push_back(d.end - d.begin);
  }
  CHECK_EQ(out.document.size(), batch.tokens.size());
  out.tokens = longs(batch.tokens);
  out.labels = share(decoder.labels);
  out.encoder = encoder.finish(tables, true);
  out.decoder = identity ? out.encoder : decoder.finish(tables, false);
  for (const arch::Owner& owner : tables.plan->owners) {
    EntryRows& entries = out.entries[owner.ratio];
    if (entries.first.empty()) entries = make_entries(tables, batch, owner.ratio);
  }
  if (tables.hasher != nullptr) out.engram_rows = make_engram_rows(tables, batch);
  return out;
}

}  // namespace thimble::train::internal
