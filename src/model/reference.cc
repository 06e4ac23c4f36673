#include "model/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "arch/layer_plan.h"
#include "base/check.h"
#include "model/engram.h"
#include "model/internal/reference_weights.h"
#include "model/rope.h"
#include "numeric/bf16.h"
#include "numeric/block_fp8.h"
#include "numeric/e8m0.h"
#include "numeric/fp8_e4m3.h"
#include "numeric/kv_fp4.h"
#include "numeric/mxfp4.h"

// Read from the bottom: forward() runs the layers, layer() the two sublayers of one, then
// attention, compressor, indexer and experts in the order a token meets them. `H` is the stream of
// hc_mult copies, `x` a collapsed row. B() and F() stand where the published reference rounds to
// BF16 and float32; in every mode but official they do nothing.

namespace thimble::model {
namespace {

using Row = std::vector<double>;

double sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }

template <class T>  // double or float
double dot(const double* a, const T* b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += a[i] * static_cast<double>(b[i]);
  return sum;
}

// What a KV owner stores for the whole system.
struct OwnerCache {
  std::vector<Row> main;      // entries, rotated and rounded as cached
  std::vector<Row> index;     // index keys, likewise
  Row open_value, open_gate;  // ratio 2: the token waiting for its partner
};

// The four streams and what rides along with one token of a call.
struct Token {
  uint64_t position = 0;
  Row h;                            // [copies * hidden]
  Row pre;                          // collapse mix of the previous sublayer
  Row cos[2], sin[2];               // rotary table: window layers, compressed layers
  std::vector<int32_t> selected;    // of the last index source
  std::vector<uint8_t> candidates;  // blocks kept by the candidate source
};

struct Mix {
  Row pre, post, comb;
};

}  // namespace

struct Reference::Impl {
  const arch::Checkpoint& checkpoint;
  const arch::Config& config;
  arch::LayerPlan plan;
  ReferenceOptions options;
  RopeFrequencies frequencies;
  std::optional<EngramHasher> hasher;
  ReferenceWeights weights;

  // the sequence
  std::vector<int32_t> compressed_ids;   // [positions], with Engram
  std::vector<std::vector<Row>> window;  // [layers][positions] as cached
  std::vector<uint64_t> floor;           // [layers]: no key below it is read
  std::vector<OwnerCache> owners;
  uint64_t position = 0;
  std::optional<uint32_t> published;  // owner whose index keys were published last
  Trace* trace = nullptr;

  explicit Impl(const arch::Checkpoint& c, const ReferenceOptions& o)
      : checkpoint(c), config(c.config()), plan(arch::make_layer_plan(c.config())), options(o) {
    weights = decode_reference_weights(c, plan);
    frequencies = make_rope_frequencies(config);
    window.resize(config.num_hidden_layers);
    floor.resize(window.size());
    owners.resize(plan.owners.size());
  }

  bool official() const { return options.mode == ReferenceMode::kOfficial; }
  bool rounds_caches() const { return options.mode != ReferenceMode::kNokvq; }
  bool rounds_activations() const { return official() || options.mode == ReferenceMode::kActq; }

  double F(double x) const { return official() ? static_cast<double>(static_cast<float>(x)) : x; }
  double B(double x) const {
    return official() ? static_cast<double>(numeric::round_bf16(static_cast<float>(x))) : x;
  }

  // --- tracing

  void tell(std::string_view what, uint32_t layer, uint64_t row, const Row& values) {
    if (trace == nullptr || !trace->wants(what)) return;
    trace->floats(what, layer, row, std::vector<float>(values.begin(), values.end()));
  }
  void tell(std::string_view what, uint32_t layer, uint64_t row, std::span<const int32_t> values) {
    if (trace != nullptr && trace->wants(what)) trace->ints(what, layer, row, values);
  }

  // --- small operators (backbone spec 3)

  Row linear(const Matrix& w, Row x) {
    CHECK_EQ(x.size(), static_cast<size_t>(w.cols));
    if (w.kind == Matrix::Kind::kQuantised && rounds_activations()) {
      numeric::round_fp8(x.data(), x.size());
    }
    Row y(w.rows);
    for (uint64_t r = 0; r < w.rows; ++r) {
      const double sum = dot(x.data(), w.row(r), w.cols);
      y[r] = w.kind == Matrix::Kind::kF32 ? F(sum) : B(sum);
    }
    return y;
  }

  double inverse_rms(const double* x, size_t n) const {
    return F(1.0 / std::sqrt(F(dot(x, x, n) / static_cast<double>(n)) + config.rms_norm_eps));
  }

  Row rms_norm(const Row& x, const std::vector<float>& weight) const {
    const double r = inverse_rms(x.data(), x.size());
    Row y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = B(F(static_cast<double>(weight[i]) * F(x[i] * r)));
    return y;
  }

  // Rotates the last rope dims of one vector; `sign` -1 rotates back.
  void rotate(double* vector, size_t dims, const Row& cos, const Row& sin, double sign) const {
    double* tail = vector + dims - 2 * cos.size();
    for (size_t i = 0; i < cos.size(); ++i) {
      const double a = tail[2 * i];
      const double b = tail[2 * i + 1];
      tail[2 * i] = B(F(a * cos[i] - b * sign * sin[i]));
      tail[2 * i + 1] = B(F(a * sign * sin[i] + b * cos[i]));
    }
  }

  void rope_table(bool compressed, uint64_t at, Row& cos, Row& sin) const {
    const std::vector<float>& f = frequencies.of(compressed);
    std::vector<float> c(f.size()), s(f.size());
    rope_row(f, at, c, s);
    cos.assign(c.begin(), c.end());
    sin.assign(s.begin(), s.end());
    if (options.rope_in_double) unrounded_rope_row(config, compressed, at, cos, sin);
  }

  // --- hyper-connections (backbone spec 4.3, 4.4)

  // Alternating column and row normalisation of a softmax: columns end up summing to one.
  Row sinkhorn(Row z) const {
    const size_t n = config.hc_mult;
    const double eps = config.hc_eps;
    for (size_t i = 0; i < n; ++i) {
      double* row = &z[i * n];
      const double top = *std::max_element(row, row + n);
      double sum = 0;
      for (size_t j = 0; j < n; ++j) sum += row[j] = F(std::exp(row[j] - top));
      for (size_t j = 0; j < n; ++j) row[j] = F(F(row[j] / F(sum)) + eps);
    }
    const auto normalise = [&](size_t step, size_t stride) {
      for (size_t i = 0; i < n; ++i) {
        double sum = 0;
        for (size_t j = 0; j < n; ++j) sum += z[i * stride + j * step];
        const double divisor = F(F(sum) + eps);
        for (size_t j = 0; j < n; ++j) {
          z[i * stride + j * step] = F(z[i * stride + j * step] / divisor);
        }
      }
    };
    normalise(n, 1);  // columns
    for (uint32_t iteration = 1; iteration < config.hc_sinkhorn_iters; ++iteration) {
      normalise(1, n);  // rows
      normalise(n, 1);
    }
    return z;
  }

  Mix mix(const Row& h, const HcSublayer& hc) {
    const size_t n = config.hc_mult;
    const double r = inverse_rms(h.data(), h.size());
    const auto z = [&](size_t k, size_t part) {
      const double m = F(F(dot(h.data(), hc.fn.row(k), h.size())) * r);
      return F(m * static_cast<double>(hc.scale[part]) + static_cast<double>(hc.base[k]));
    };
    Mix out;
    for (size_t i = 0; i < n; ++i) out.pre.push_back(F(F(sigmoid(z(i, 0))) + config.hc_eps));
    for (size_t i = 0; i < n; ++i) out.post.push_back(F(2 * sigmoid(z(n + i, 1))));
    for (size_t i = 0; i < n * n; ++i) out.comb.push_back(z(2 * n + i, 2));
    out.comb = sinkhorn(std::move(out.comb));
    return out;
  }

  Row collapse(const Row& h, const Row& pre) const {
    const size_t d = config.hidden_size;
    Row x(d);
    for (size_t c = 0; c < d; ++c) {
      double sum = 0;
      for (size_t i = 0; i < pre.size(); ++i) sum += pre[i] * h[i * d + c];
      x[c] = B(F(sum));
    }
    return x;
  }

  // New copy j = post_j * y + sum_i comb[i][j] * copy_i: the output copy is the second index.
  Row spread(const Row& h, const Row& y, const Mix& m) const {
    const size_t n = config.hc_mult;
    const size_t d = config.hidden_size;
    Row out(h.size());
    for (size_t j = 0; j < n; ++j) {
      for (size_t c = 0; c < d; ++c) {
        double sum = m.post[j] * y[c];
        for (size_t i = 0; i < n; ++i) sum += m.comb[i * n + j] * h[i * d + c];
        out[j * d + c] = B(F(sum));
      }
    }
    return out;
  }

  // --- Engram (engram spec 2.6, 2.7)

  std::vector<int32_t> recent_ids(uint64_t at) const {
    std::vector<int32_t> recent;
    for (uint64_t back = hasher->history_tokens() + 1; back-- > 0;) {
      recent.push_back(at >= back ? compressed_ids[at - back] : kDeadToken);
    }
    return recent;
  }

  Row engram_lookup(uint32_t l, uint64_t at) {
    const std::string table = fmt::format("layers.{}.engram.embed", l);
    const arch::TensorView& codes = checkpoint.tensor(table + ".weight");
    const arch::TensorView& scales = checkpoint.tensor(table + ".scale");
    const uint64_t dims = config.engram.head_dim;
    std::vector<int64_t> rows(config.engram.lookups());
    hasher->row_ids(*plan.layers[l].engram, recent_ids(at), rows);
    tell("engram_ids", l, at, std::vector<int32_t>(rows.begin(), rows.end()));
    Row x;
    for (const int64_t row : rows) {
      for (uint64_t c = 0; c < dims; ++c) {
        const uint64_t element = static_cast<uint64_t>(row) * dims + c;
        x.push_back(static_cast<double>(numeric::e4m3_to_float(byte_at(codes, element)) *
                                        numeric::e8m0_to_float(byte_at(scales, element / 32))));
      }
    }
    return x;
  }

  void engram(uint32_t l, Token& token) {
    const ReferenceLayer& w = weights.layers[l];
    const size_t d = config.hidden_size;
    const Row kv = linear(w.engram_wkv, engram_lookup(l, token.position));
    const double* value = &kv[config.hc_mult * d];
    Row gates;
    for (size_t i = 0; i < config.hc_mult; ++i) {
      double* h = &token.h[i * d];
      const double* key = &kv[i * d];
      double sum = 0;
      for (size_t c = 0; c < d; ++c) {
        const double weight = F(static_cast<double>(w.engram_q[i * d + c]) *
                                static_cast<double>(w.engram_k[i * d + c]));
        sum += h[c] * weight * key[c];
      }
      const double a =
          F(F(sum) * inverse_rms(h, d) * inverse_rms(key, d) / std::sqrt(static_cast<double>(d)));
      const double g = F(sigmoid(std::copysign(std::sqrt(std::max(std::abs(a), 1e-6)), a)));
      for (size_t c = 0; c < d; ++c) h[c] = B(F(h[c] + g * value[c]));
      gates.push_back(g);
    }
    tell("engram_gate", l, token.position, gates);
    tell("engram_out", l, token.position, token.h);
  }

  // --- compressor and index keys of an owner (backbone spec 6.1, 6.2)

  // Per-channel softmax over the two tokens of a group.
  Row pool_pair(const OwnerCache& owner, const Row& value, const Row& gate) const {
    Row out(value.size());
    for (size_t c = 0; c < value.size(); ++c) {
      const double top = std::max(owner.open_gate[c], gate[c]);
      const double e0 = F(std::exp(owner.open_gate[c] - top));
      const double e1 = F(std::exp(gate[c] - top));
      const double sum = F(e0 + e1);
      out[c] = B(F(F(owner.open_value[c] * F(e0 / sum)) + F(value[c] * F(e1 / sum))));
    }
    return out;
  }

  // The latent that `x` completes, if it completes one.
  std::optional<Row> latent(const ReferenceLayer& w, uint32_t ratio, OwnerCache& owner,
                            const Row& x, uint64_t at) {
    if (ratio == 1) return rms_norm(linear(w.compress_wkv, x), w.compress_norm);
    Row value = linear(w.compress_wkv, x);
    Row gate = linear(w.compress_wgate, x);
    if (at % 2 == 0) {
      owner.open_value = std::move(value);
      owner.open_gate = std::move(gate);
      return std::nullopt;
    }
    return rms_norm(pool_pair(owner, value, gate), w.compress_norm);
  }

  void compress(uint32_t l, const Row& x, uint64_t at) {
    const ReferenceLayer& w = weights.layers[l];
    const arch::LayerRole& role = plan.layers[l];
    OwnerCache& owner = owners[*role.owner];
    if (at / role.ratio < owner.main.size()) return;  // replay: the entry exists
    std::optional<Row> entry = latent(w, role.ratio, owner, x, at);
    if (!entry) return;
    const uint64_t j = owner.main.size();
    tell("latent", l, j, *entry);
    Row cos, sin;
    rope_table(true, arch::entry_position(j, role.ratio), cos, sin);
    Row key = rms_norm(linear(w.index_wk, *entry), w.index_k_norm);  // from the unrotated latent
    rotate(key.data(), key.size(), cos, sin, 1);
    tell("index_k_pre", l, j, key);
    if (rounds_caches()) numeric::round_mxfp4(key.data(), key.size());
    tell("index_k", l, j, key);
    owner.index.push_back(std::move(key));
    rotate(entry->data(), entry->size(), cos, sin, 1);
    tell("compress_kv_pre", l, j, *entry);
    if (rounds_caches()) numeric::round_kv_fp4(entry->data(), entry->size());
    tell("compress_kv", l, j, *entry);
    owner.main.push_back(std::move(*entry));
  }

  // --- indexer (backbone spec 6.3 to 6.5)

  Row index_scores(uint32_t l, const Token& token, const Row& x, const Row& q_latent,
                   const std::vector<Row>& keys, uint64_t visible) {
    const ReferenceLayer& w = weights.layers[l];
    const size_t heads = config.index_n_heads;
    const size_t dims = config.index_head_dim;
    Row q = linear(w.index_wq_b, q_latent);
    for (size_t h = 0; h < heads; ++h) {
      rotate(&q[h * dims], dims, token.cos[1], token.sin[1], 1);
    }
    if (rounds_caches()) numeric::round_mxfp4(q.data(), q.size());
    tell("index_q", l, token.position, q);
    Row head_weights = linear(w.index_weights, x);
    const double scale = F(1.0 / std::sqrt(static_cast<double>(dims * heads)));
    for (double& weight : head_weights) weight = B(weight * scale);
    tell("index_w", l, token.position, head_weights);
    Row scores(visible);
    for (uint64_t j = 0; j < visible; ++j) {
      double sum = 0;
      for (size_t h = 0; h < heads; ++h) {
        sum += B(std::max(0.0, B(dot(&q[h * dims], keys[j].data(), dims))) * head_weights[h]);
      }
      scores[j] = B(sum);
    }
    return scores;
  }

  // Blocks of entries ranked by their best score; the newest is always kept and uses a place.
  std::vector<uint8_t> best_blocks(const Row& scores) const {
    const size_t size = config.candidate_block_size;
    const size_t blocks = (scores.size() + size - 1) / size;
    std::vector<uint8_t> kept(blocks, 0);
    Row best(blocks, -std::numeric_limits<double>::infinity());
    for (size_t j = 0; j < scores.size(); ++j) best[j / size] = std::max(best[j / size], scores[j]);
    if (blocks > 0) best.back() = std::numeric_limits<double>::infinity();
    for (const int32_t b : largest(best, config.candidate_topk_blocks)) kept[b] = 1;
    return kept;
  }

  // Indices of the `count` largest, ascending; the lower index wins ties; -infinity never does.
  static std::vector<int32_t> largest(const Row& scores, size_t count) {
    std::vector<int32_t> order;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i] > -std::numeric_limits<double>::infinity()) {
        order.push_back(static_cast<int32_t>(i));
      }
    }
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
    order.resize(std::min(order.size(), count));
    std::sort(order.begin(), order.end());
    return order;
  }

  void select(uint32_t l, Token& token, const Row& x, const Row& q_latent, uint32_t keys_of) {
    const arch::LayerRole& role = plan.layers[l];
    const uint64_t visible = arch::visible_entries(token.position, role.ratio);
    Row scores = index_scores(l, token, x, q_latent, owners[keys_of].index, visible);
    if (role.makes_candidates) {
      token.candidates = best_blocks(scores);
      if (trace != nullptr && trace->wants("candidates")) tell_candidates(l, token);
    }
    if (role.uses_candidates) {
      for (size_t j = 0; j < scores.size(); ++j) {
        if (token.candidates[j / config.candidate_block_size] == 0) {
          scores[j] = -std::numeric_limits<double>::infinity();
        }
      }
    }
    tell("index_score", l, token.position, scores);
    token.selected = largest(scores, config.index_topk);
    std::vector<int32_t> padded = token.selected;
    padded.resize(config.index_topk, -1);
    tell("topk", l, token.position, padded);
  }

  void tell_candidates(uint32_t l, const Token& token) {
    std::vector<int32_t> entries;
    for (const uint8_t kept : token.candidates) {
      entries.insert(entries.end(), config.candidate_block_size, kept);
    }
    tell("candidates", l, token.position, entries);
  }

  // --- attention (backbone spec 5)

  // One head over a list of rows. Official mode walks slots of 64 with a running maximum, as the
  // published kernel does: `slots` are the rows' places in its padded list.
  Row attend_head(const double* q, const std::vector<const Row*>& rows,
                  const std::vector<size_t>& slots, double sink) const {
    const size_t dims = config.head_dim;
    const double scale = F(1.0 / std::sqrt(static_cast<double>(dims)));
    Row logits;
    for (const Row* row : rows) logits.push_back(F(F(dot(q, row->data(), dims)) * scale));
    double top = -1e30;
    double sum = 0;
    Row out(dims, 0.0);
    const size_t step = official() ? 64 : std::numeric_limits<size_t>::max();
    for (size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
      double next = top;
      for (end = begin; end < rows.size() && slots[end] / step == slots[begin] / step; ++end) {
        next = std::max(next, logits[end]);
      }
      const double fade = F(std::exp(top - next));
      top = next;
      sum = F(sum * fade);
      for (double& value : out) value = F(value * fade);
      for (size_t i = begin; i < end; ++i) {
        const double p = F(std::exp(logits[i] - top));
        sum += p;
        for (size_t c = 0; c < dims; ++c) out[c] += B(p) * (*rows[i])[c];
      }
    }
    const double divisor = F(F(sum) + F(std::exp(sink - top)));
    for (double& value : out) value = B(F(F(value) / divisor));
    return out;
  }

  // The rows a token sees in layer l, window first, and their slots in the published padded list.
  void visible_rows(uint32_t l, const Token& token, size_t call_tokens,
                    std::vector<const Row*>& rows, std::vector<size_t>& slots) const {
    const arch::LayerRole& role = plan.layers[l];
    const uint64_t first = std::max(arch::first_visible(token.position, plan.window), floor[l]);
    const bool decode = call_tokens == 1 && token.position > 0;
    const size_t width = decode ? plan.window : std::min<size_t>(call_tokens, plan.window);
    const size_t count = token.position + 1 - first;
    for (uint64_t p = first; p <= token.position; ++p) {
      rows.push_back(&window[l][p]);
      slots.push_back((p - first) + (decode ? width - count : 0));
    }
    if (role.ratio == 0) return;
    const uint32_t owner = *plan.layers[*role.kv_source].owner;
    for (size_t j = 0; j < token.selected.size(); ++j) {
      rows.push_back(&owners[owner].main[token.selected[j]]);
      slots.push_back(width + j);
    }
  }

  Row attend(uint32_t l, const Token& token, const Row& q_latent, size_t call_tokens) {
    const ReferenceLayer& w = weights.layers[l];
    const bool compressed = plan.layers[l].compressed_rope;
    const Row& cos = token.cos[compressed];
    const Row& sin = token.sin[compressed];
    const size_t dims = config.head_dim;
    std::vector<const Row*> rows;
    std::vector<size_t> slots;
    visible_rows(l, token, call_tokens, rows, slots);
    Row q = linear(w.wq_b, q_latent);
    Row heads;
    for (size_t h = 0; h < config.num_attention_heads; ++h) {
      rotate(&q[h * dims], dims, cos, sin, 1);
      Row o = attend_head(&q[h * dims], rows, slots, static_cast<double>(w.sink[h]));
      rotate(o.data(), dims, cos, sin, -1);  // keys are values: undo the rotation they carry
      heads.insert(heads.end(), o.begin(), o.end());
    }
    tell("attn_o.layers", l, token.position, heads);
    return linear(w.wo_b, grouped_output(w.wo_a, heads));
  }

  // wo_a is block-diagonal: each group of consecutive heads has its own slice of rows.
  Row grouped_output(const Matrix& wo_a, const Row& heads) const {
    const size_t width = heads.size() / config.o_groups;
    Row out(wo_a.rows);
    for (uint64_t r = 0; r < wo_a.rows; ++r) {
      const size_t group = r / config.o_lora_rank;
      out[r] = B(dot(&heads[group * width], wo_a.row(r), width));
    }
    return out;
  }

  void push_window(uint32_t l, const Token& token, const Row& x) {
    const ReferenceLayer& w = weights.layers[l];
    const bool compressed = plan.layers[l].compressed_rope;
    Row k = rms_norm(linear(w.wkv, x), w.kv_norm);
    rotate(k.data(), k.size(), token.cos[compressed], token.sin[compressed], 1);
    tell("window_kv_pre.layers", l, token.position, k);
    if (rounds_caches()) numeric::round_fp8(k.data(), k.size());
    tell("window_kv.layers", l, token.position, k);
    window[l].push_back(std::move(k));
  }

  // Which owner's index keys layer l scores in this call: its own, unless the published slip is
  // asked for and its group stayed open (backbone spec 6.7).
  uint32_t index_keys_owner(uint32_t l, bool completed) {
    const arch::LayerRole& role = plan.layers[l];
    const uint32_t own = *plan.layers[*role.kv_source].owner;
    if (options.index_keys == IndexKeys::kOwn) return own;
    if (role.mode == arch::AttentionMode::kFull && completed) published = own;
    return published.value_or(own);
  }

  std::vector<Row> attention(uint32_t l, std::vector<Token>& tokens, const std::vector<Row>& xs) {
    const ReferenceLayer& w = weights.layers[l];
    const arch::LayerRole& role = plan.layers[l];
    for (size_t t = 0; t < tokens.size(); ++t) push_window(l, tokens[t], xs[t]);
    uint32_t keys_of = 0;
    if (role.mode == arch::AttentionMode::kFull) {
      const size_t before = owners[*role.owner].main.size();
      for (size_t t = 0; t < tokens.size(); ++t) compress(l, xs[t], tokens[t].position);
      keys_of = index_keys_owner(l, owners[*role.owner].main.size() > before);
    } else if (role.mode == arch::AttentionMode::kReindex) {
      keys_of = index_keys_owner(l, true);
    }
    std::vector<Row> out;
    for (size_t t = 0; t < tokens.size(); ++t) {
      if (tokens[t].position < floor[l]) continue;  // replay: only its key is wanted
      const Row q_latent = rms_norm(linear(w.wq_a, xs[t]), w.q_norm);
      if (role.selects()) select(l, tokens[t], xs[t], q_latent, keys_of);
      out.push_back(attend(l, tokens[t], q_latent, tokens.size()));
      tell("attn_out.layers", l, tokens[t].position, out.back());
    }
    return out;
  }

  // --- experts (backbone spec 8)

  // `weight` multiplies the activation before the down projection.
  Row expert(const ReferenceExpert& e, const Row& x, double weight) {
    const Row gate = linear(e.w1, x);
    const Row up = linear(e.w3, x);
    Row h(gate.size());
    for (size_t i = 0; i < h.size(); ++i) {
      const double g = std::min(gate[i], config.swiglu_limit);
      const double u = std::clamp(up[i], -config.swiglu_limit, config.swiglu_limit);
      h[i] = B(F(F(F(g * sigmoid(g)) * u) * weight));
    }
    return linear(e.w2, std::move(h));
  }

  Row moe(uint32_t l, const Row& x, uint64_t at) {
    const ReferenceLayer& w = weights.layers[l];
    Row scores = linear(w.gate, x);
    for (double& s : scores) s = F(std::sqrt(F(s > 20 ? s : std::log1p(std::exp(s)))));
    tell("expert_scores.layers", l, at, scores);
    Row biased = scores;
    for (size_t e = 0; e < biased.size(); ++e) {
      biased[e] = F(biased[e] + static_cast<double>(w.gate_bias[e]));
    }
    std::vector<int32_t> chosen = largest(biased, config.num_experts_per_tok);
    double sum = 0;
    for (const int32_t e : chosen) sum += scores[e];
    const double divisor = F(F(sum) + 1e-20);
    Row out(config.hidden_size, 0.0);
    std::vector<double> weight(scores.size());
    for (const int32_t e : chosen) {  // ascending
      weight[e] = F(F(scores[e] / divisor) * config.routed_scaling_factor);
      const Row y = expert(w.experts[e], x, weight[e]);
      for (size_t c = 0; c < out.size(); ++c) out[c] = F(out[c] + y[c]);
    }
    const Row y = expert(w.shared, x, 1.0);
    for (size_t c = 0; c < out.size(); ++c) out[c] = B(F(out[c] + y[c]));
    std::stable_sort(chosen.begin(), chosen.end(),
                     [&](int32_t a, int32_t b) { return biased[a] > biased[b]; });
    tell("expert_ids.layers", l, at, chosen);
    Row chosen_weights;
    for (const int32_t e : chosen) chosen_weights.push_back(weight[e]);
    tell("expert_w.layers", l, at, chosen_weights);
    return out;
  }

  // --- one layer, and the whole pass (backbone spec 4.2)

  void tell_mix(const std::string& sublayer, uint32_t l, uint64_t at, const Mix& m) {
    tell(sublayer + "_pre.layers", l, at, m.pre);
    tell(sublayer + "_post.layers", l, at, m.post);
    tell(sublayer + "_comb.layers", l, at, m.comb);
  }

  void layer(uint32_t l, std::vector<Token>& tokens) {
    const ReferenceLayer& w = weights.layers[l];
    std::vector<Mix> mixes;
    std::vector<Row> xs;
    for (Token& token : tokens) {
      if (plan.layers[l].engram) engram(l, token);
      mixes.push_back(mix(token.h, w.hc_attn));
      // Collapsed with the mix of the PREVIOUS sublayer.
      xs.push_back(rms_norm(collapse(token.h, token.pre), w.attn_norm));
      tell("attn_in.layers", l, token.position, xs.back());
    }
    const std::vector<Row> ys = attention(l, tokens, xs);
    const size_t dropped = tokens.size() - ys.size();
    for (size_t t = dropped; t < tokens.size(); ++t) {
      Token& token = tokens[t];
      token.h = spread(token.h, ys[t - dropped], mixes[t]);
      tell_mix("attn", l, token.position, mixes[t]);
      tell("mid.layers", l, token.position, token.h);
      const Mix ffn = mix(token.h, w.hc_ffn);
      const Row x = rms_norm(collapse(token.h, mixes[t].pre), w.ffn_norm);
      tell("ffn_in.layers", l, token.position, x);
      const Row y = moe(l, x, token.position);
      tell("ffn_out.layers", l, token.position, y);
      token.h = spread(token.h, y, ffn);
      token.pre = ffn.pre;
      tell_mix("ffn", l, token.position, ffn);
      tell("hidden.layers", l, token.position, token.h);
      tell("pre_mix.layers", l, token.position, token.pre);
    }
    tokens.erase(tokens.begin(), tokens.end() - static_cast<std::ptrdiff_t>(ys.size()));
  }

  Token embed_token(int32_t id, uint64_t at) {
    Token token;
    token.position = at;
    const float* e = weights.embed.row(static_cast<uint64_t>(id));
    for (uint32_t i = 0; i < config.hc_mult; ++i) {
      token.h.insert(token.h.end(), e, e + config.hidden_size);
    }
    tell("embed", 0, at, Row(e, e + config.hidden_size));
    token.pre.assign(config.hc_mult, 0.0);
    token.pre[0] = 1.0;
    for (const bool compressed : {false, true}) {
      rope_table(compressed, at, token.cos[compressed], token.sin[compressed]);
    }
    if (hasher) compressed_ids.push_back(static_cast<int32_t>(hasher->compressed(id)));
    return token;
  }

  // Bounded replay (serving spec 5, 6): of the first `hit` tokens the entries stay. Rows from
  // `begin` on run again; the decoder half runs those from `kept` on; no window key below either is
  // read.
  void resume(uint64_t hit, uint64_t begin, uint64_t kept) {
    for (size_t o = 0; o < owners.size(); ++o) {
      owners[o].main.resize(arch::entries_after(hit, plan.owners[o].ratio));
      owners[o].index.resize(owners[o].main.size());
    }
    for (uint32_t l = 0; l < config.num_hidden_layers; ++l) {
      floor[l] = l < plan.decoder_begin ? begin : kept;
      window[l].assign(l <= plan.decoder_begin ? begin : kept, Row());
    }
    compressed_ids.resize(hasher ? begin : 0);
    position = begin;
  }

  std::vector<float> forward(std::span<const int32_t> ids) {
    std::vector<Token> tokens;
    for (const int32_t id : ids) tokens.push_back(embed_token(id, position + tokens.size()));
    for (uint32_t l = 0; l < config.num_hidden_layers; ++l) layer(l, tokens);
    std::vector<float> logits;
    for (const Token& token : tokens) {
      const Row x = rms_norm(collapse(token.h, token.pre), weights.norm);
      tell("final_norm", 0, token.position, x);
      const Row row = linear(weights.head, x);
      logits.insert(logits.end(), row.begin(), row.end());
    }
    position += ids.size();
    return logits;
  }
};

Reference::Reference(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Reference::~Reference() = default;

Result<std::unique_ptr<Reference>> Reference::create(const arch::Checkpoint& checkpoint,
                                                     const ReferenceOptions& options) {
  auto impl = std::make_unique<Impl>(checkpoint, options);
  if (!checkpoint.config().engram.layer_ids.empty()) {
    impl->hasher = THIMBLE_TRY(EngramHasher::create(checkpoint.config(), options.token_map));
  }
  return std::unique_ptr<Reference>(new Reference(std::move(impl)));
}

Result<std::vector<float>> Reference::forward(std::span<const int32_t> ids, Trace* trace) {
  for (const int32_t id : ids) {
    if (id < 0 || static_cast<uint32_t>(id) >= impl_->config.vocab_size) {
      return base::fail(ErrorCode::kInvalidArgument, "token id {} is outside [0, {})", id,
                        impl_->config.vocab_size);
    }
  }
  impl_->trace = trace;
  return impl_->forward(ids);
}

void Reference::resume(uint64_t hit, uint64_t begin, uint64_t kept) {
  CHECK(begin <= hit && hit <= impl_->position);
  impl_->resume(hit, begin, kept);
}

}  // namespace thimble::model
