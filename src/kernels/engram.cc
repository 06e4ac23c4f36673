// Engram: table rows to values, and the gated addition to the stream. Engram spec 2.7.
#include "base/check.h"
#include "kernels/internal/fetch.h"
#include "kernels/internal/parallel.h"
#include "kernels/internal/table_entries.h"
#include "kernels/ops.h"
#include "kernels/table.h"

namespace thimble::kernels {
namespace {

constexpr uint64_t kRowsAhead = 8;

// Asks for a row that is read soon: it may lie anywhere in the table. An id that is none is found
// out when its turn comes.
[[gnu::always_inline]] inline void ask_for(const EngramTable& table, uint64_t id) {
  if (id >= table.rows) return;
  internal::fetch(table.codes + id * table.head_dim, table.head_dim);
  internal::fetch(table.scales + id * (table.head_dim / 32), 1);
}

}  // namespace

void engram_gather(const EngramTable& table, Rows<const int64_t> ids, Rows<float> out,
                   Context context) {
  CHECK_EQ(ids.rows, out.rows);
  CHECK_EQ(ids.cols * table.head_dim, out.cols);
  CHECK_EQ(table.head_dim % 32, 0u);
  const Table& entries = kernels();
  const uint64_t lookups = ids.rows * ids.cols;
  // Reading the table costs more than decoding it.
  internal::for_rows(context, ids.rows, 4 * out.cols, [&](uint64_t i) {
    for (uint64_t f = 0; f < ids.cols; ++f) {
      const uint64_t ahead = i * ids.cols + f + kRowsAhead;
      if (ahead < lookups) {
        ask_for(table, static_cast<uint64_t>(ids.row(ahead / ids.cols)[ahead % ids.cols]));
      }
      const uint64_t id = static_cast<uint64_t>(ids.row(i)[f]);
      CHECK_LT(id, table.rows);
      entries.decode_fp8(table.codes + id * table.head_dim,
                         table.scales + id * (table.head_dim / 32), table.head_dim,
                         out.row(i) + f * table.head_dim);
    }
  });
}

void engram_apply(Rows<float> stream, Rows<const float> kv, const std::byte* q_weight_bf16,
                  const std::byte* k_weight_bf16, uint32_t copies, float eps, const uint8_t* alive,
                  Rows<float> gates, Context context) {
  CHECK_GE(copies, 1u);
  CHECK_EQ(stream.rows, kv.rows);
  CHECK_EQ(stream.cols % copies, 0u);
  const uint64_t hidden = stream.cols / copies;
  CHECK_EQ(kv.cols, (copies + 1) * hidden);
  const Table& table = kernels();
  internal::for_rows(context, stream.rows, 4 * stream.cols, [&](uint64_t i) {
    const float* value = kv.row(i) + copies * hidden;
    for (uint32_t c = 0; c < copies; ++c) {
      float* copy = stream.row(i) + c * hidden;
      float gate = 0;
      if (alive == nullptr || alive[i] != 0) {
        const uint64_t weight_bytes = 2 * c * hidden;
        gate = table.engram_gate(copy, kv.row(i) + c * hidden, q_weight_bf16 + weight_bytes,
                                 k_weight_bf16 + weight_bytes, hidden, eps);
        table.engram_add(value, gate, hidden, copy);
      }
      if (gates.data != nullptr) gates.row(i)[c] = gate;
    }
  });
}

}  // namespace thimble::kernels
