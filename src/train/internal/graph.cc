#include "train/internal/graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

// Read from the bottom, as the reference: losses() runs the layers, layer() the two sublayers of
// one, then attention, compressor, indexer and experts.

namespace thimble::train::internal {
namespace {

// What a KV source hands down the stack.
struct OwnerRows {
  Tensor main;   // [entries, dims] rotated, rounded
  Tensor index;  // [entries, index dims], gradient to the indexer alone
};

// The best of each row, lower index first among equals; appended in ascending order.
void choose_experts(const Tensor& biased, int64_t count, std::vector<int32_t>& ids) {
  const int64_t experts = biased.size(1);
  const Tensor wide = biased.to(at::kDouble).contiguous();
  std::vector<int32_t> order(static_cast<size_t>(experts));
  for (int64_t row = 0; row < biased.size(0); ++row) {
    const double* s = wide.data_ptr<double>() + row * experts;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + count, order.end(),
                      [&](int32_t a, int32_t b) { return s[a] != s[b] ? s[a] > s[b] : a < b; });
    std::sort(order.begin(), order.begin() + count);
    ids.insert(ids.end(), order.begin(), order.begin() + count);
  }
}

// One pass over one layout.
class Pass {
 public:
  Pass(const arch::Config& config, const arch::LayerPlan& plan, const ModelTensors& weights,
       const Layout& layout, const ForwardOptions& options, const LossScales& scales)
      : c_(config), plan_(plan), w_(weights), in_(layout), o_(options), scales_(scales) {
    owners_.resize(plan.owners.size());
    result_.choices.selected.resize(plan.layers.size());
    result_.choices.experts.resize(plan.layers.size());
    result_.loads.resize(plan.layers.size());
    rows_ = &layout.encoder;
    row_document_ = layout.document;
    if (options.forced != nullptr) candidates_ = options.forced->candidates;
  }

  // The streams' last row, normalised: [decoder rows, hidden].
  Tensor run() {
    const int64_t copies = c_.hc_mult;
    h_ = w_.embed.index_select(0, in_.tokens).unsqueeze(1).repeat({1, copies, 1});
    pre_ = at::zeros({h_.size(0), copies}, h_.options());
    pre_.select(1, 0).fill_(1);
    for (const arch::LayerRole& role : plan_.layers) layer(role);
    for (const IndexGroup& group : groups_) {
      if (o_.index.freeze) break;
      add_to(result_.indexer, index_loss(group, o_.index, scales_.tokens, result_.index));
    }
    return collapse(h_, pre_, w_.norm, c_.rms_norm_eps);
  }

  ForwardResult take() { return std::move(result_); }

 private:
  static void add_to(Tensor& sum, const Tensor& term) { sum = sum.defined() ? sum + term : term; }

  Tensor product(const Tensor& x, const Tensor& w) const { return linear(x, w, o_.products); }

  Rounding rule(Rounding rounding) const { return o_.round_caches ? rounding : Rounding::kNone; }

  // --- Engram

  void engram(const arch::LayerRole& role, const LayerTensors& w) {
    const int64_t copies = c_.hc_mult;
    const int64_t width = c_.hidden_size;
    const Tensor found =
        w.engram_table.index_select(0, in_.engram_rows[*role.engram]).view({h_.size(0), -1});
    const Tensor kv = product(found, w.engram_wkv);
    const Tensor key = kv.narrow(1, 0, copies * width).view({-1, copies, width});
    const Tensor value = kv.narrow(1, copies * width, width).unsqueeze(1);
    const auto inverse_rms = [&](const Tensor& x) {
      return (x.square().mean(2) + c_.rms_norm_eps).rsqrt();
    };
    const Tensor product_sum = (h_ * (w.engram_q * w.engram_k) * key).sum(2);
    const Tensor score =
        product_sum * inverse_rms(h_) * inverse_rms(key) / std::sqrt(static_cast<double>(width));
    h_ = h_ + engram_gate(score).unsqueeze(2) * value;
  }

  // --- compressor and index keys of a KV source

  Tensor latent(const LayerTensors& w, const EntryRows& entries, const Tensor& x) const {
    const Tensor value = product(x, w.compress_wkv);
    if (entries.members.size() == 1) {
      return rms_norm(value.index_select(0, entries.members[0]), w.compress_norm, c_.rms_norm_eps);
    }
    const Tensor gate = product(x, w.compress_wgate);
    std::vector<Tensor> values, gates;
    for (const Tensor& members : entries.members) {
      values.push_back(value.index_select(0, members));
      gates.push_back(gate.index_select(0, members));
    }
    const Tensor share = at::softmax(at::stack(gates), 0);
    return rms_norm((share * at::stack(values)).sum(0), w.compress_norm, c_.rms_norm_eps);
  }

  void compress(const arch::LayerRole& role, const LayerTensors& w, const Tensor& x) {
    const EntryRows& entries = in_.entries[role.ratio];
    const auto turned = [&](const Tensor& rows, Rounding rounding) {
      return round_through(rotate(rows.unsqueeze(1), entries.cos, entries.sin).squeeze(1),
                           rule(rounding));
    };
    const Tensor entry = latent(w, entries, x);
    OwnerRows& owner = owners_[*role.owner];
    const Tensor key = rms_norm(linear(entry.detach(), w.index_wk, Products::kFull), w.index_k_norm,
                                c_.rms_norm_eps);
    owner.index = turned(key, Rounding::kMxfp4);
    owner.main = turned(entry, Rounding::kKvFp4);
  }

  // --- indexer

  int64_t topk() const { return o_.topk > 0 ? o_.topk : c_.index_topk; }

  SelectRules select_rules(const arch::LayerRole& role) {
    SelectRules rules;
    rules.topk = topk();
    rules.block_entries = std::max<int64_t>(c_.candidate_block_size, 1);
    rules.blocks_max = c_.candidate_topk_blocks;
    rules.explore = o_.index.explore;
    rules.explore_seed = o_.explore_seed + role.layer;
    if (o_.candidates && role.makes_candidates) rules.makes = &candidates_;
    if (o_.candidates && role.uses_candidates) rules.within = &candidates_;
    return rules;
  }

  // Inputs are detached: this loss moves the indexer alone (training spec 5.4).
  void select(const arch::LayerRole& role, const LayerTensors& w, const Tensor& x,
              const Tensor& q_latent) {
    const OwnerRows& owner = owners_[*plan_.layers[*role.kv_source].owner];
    const EntryRows& entries = in_.entries[role.ratio];
    const int64_t heads = c_.index_n_heads;
    const int64_t dims = c_.index_head_dim;
    IndexGroup group;
    group.layer = role.layer;
    group.q = linear(q_latent.detach(), w.index_wq_b, Products::kFull).view({-1, heads, dims});
    group.q = round_through(rotate(group.q, rows_->cos[1], rows_->sin[1]), rule(Rounding::kMxfp4));
    group.weights = linear(x.detach(), w.index_weights, Products::kFull) *
                    (1.0 / std::sqrt(static_cast<double>(heads * dims)));
    group.keys = owner.index;
    const at::NoGradGuard no_grad;
    const SelectRules rules = select_rules(role);
    if (o_.forced != nullptr) {
      selected_ = o_.forced->selected[role.layer];
    } else {
      selected_ = select_entries({group.q, group.weights, group.keys}, *rows_, entries, rules);
    }
    count_bound(entries, rules.topk);
    group.support = selected_;
    if (o_.index.support == IndexSupport::kAllVisible) {
      group.support = all_visible(*rows_, entries, rules.within, rules.block_entries);
    }
    result_.choices.selected[role.layer] = selected_;
    if (role.makes_candidates) result_.choices.candidates = candidates_;
    groups_.push_back(std::move(group));
  }

  void count_bound(const EntryRows& entries, int64_t topk) {
    for (const int32_t token : *rows_->tokens) {
      result_.index.bound += entries.visible[static_cast<size_t>(token)] > topk;
    }
  }

  bool teaches(const arch::LayerRole& role) const {
    if (role.ratio == 0 || o_.index.freeze || groups_.empty()) return false;
    return o_.index.scope == TeacherScope::kServed || groups_.back().layer == role.layer;
  }

  // --- attention

  Tensor attend_layer(const arch::LayerRole& role, const LayerTensors& w, const Tensor& window,
                      const Tensor& q_latent) {
    AttendInputs in;
    in.q = product(q_latent, w.wq_b).view({-1, c_.num_attention_heads, c_.head_dim});
    in.window = window;
    in.sink = w.sink;
    in.cos = rows_->cos[role.compressed_rope];
    in.sin = rows_->sin[role.compressed_rope];
    in.window_first = rows_->window_first;
    if (role.ratio > 0) {
      in.main = owners_[*plan_.layers[*role.kv_source].owner].main;
      in.selected = selected_;
    }
    Tensor mass;
    const bool teacher = teaches(role);
    const bool same = teacher && groups_.back().support == selected_;
    const Tensor out = attend(in, same ? &mass : nullptr);
    if (teacher && !same) {
      const at::NoGradGuard no_grad;
      in.selected = groups_.back().support;
      attend(in, &mass);
    }
    if (teacher) groups_.back().teachers.push_back(mass);
    return out.reshape({out.size(0), -1});
  }

  Tensor grouped_output(const LayerTensors& w, const Tensor& heads) const {
    const int64_t width = heads.size(1) / c_.o_groups;
    std::vector<Tensor> parts;
    for (int64_t g = 0; g < c_.o_groups; ++g) {
      parts.push_back(product(heads.narrow(1, g * width, width),
                              w.wo_a.narrow(0, g * c_.o_lora_rank, c_.o_lora_rank)));
    }
    return product(at::cat(parts, 1), w.wo_b);
  }

  Tensor attention(const arch::LayerRole& role, const LayerTensors& w, const Tensor& x) {
    const Tensor key = rms_norm(product(x, w.wkv), w.kv_norm, c_.rms_norm_eps).unsqueeze(1);
    const Tensor window = round_through(
        rotate(key, rows_->cos[role.compressed_rope], rows_->sin[role.compressed_rope]).squeeze(1),
        rule(Rounding::kFp8));
    const Tensor q_latent = rms_norm(product(x, w.wq_a), w.q_norm, c_.rms_norm_eps);
    if (role.selects()) select(role, w, x, q_latent);
    return grouped_output(w, attend_layer(role, w, window, q_latent));
  }

  // --- experts

  // Mean over a document's tokens of share_i times how often i was chosen (training spec 7).
  void balance(uint32_t l, const Tensor& scores, const std::vector<int32_t>& ids) {
    const int64_t experts = c_.n_routed_experts;
    const auto per_row = static_cast<int64_t>(c_.num_experts_per_tok);
    auto& load = result_.loads[l];
    load.assign(static_cast<size_t>(experts), 0);
    std::vector<double> counts(in_.document_tokens.size() * static_cast<size_t>(experts));
    std::vector<double> lengths(in_.document_tokens.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t d = row_document_[i / static_cast<size_t>(per_row)];
      ++load[static_cast<size_t>(ids[i])];
      counts[static_cast<size_t>(d * experts + ids[i])] += 1;
      lengths[static_cast<size_t>(d)] += 1.0 / static_cast<double>(per_row);
    }
    if (o_.balance_weight == 0) return;
    Tensor often = at::zeros({scores.size(0), experts}, at::kDouble);
    for (int64_t row = 0; row < scores.size(0); ++row) {
      const int32_t d = row_document_[static_cast<size_t>(row)];
      for (int64_t e = 0; e < experts; ++e) {
        often.data_ptr<double>()[row * experts + e] =
            counts[static_cast<size_t>(d * experts + e)] * static_cast<double>(experts) /
            (static_cast<double>(per_row) * lengths[static_cast<size_t>(d)]);
      }
    }
    const Tensor share = scores / scores.sum(1, true);
    add_to(result_.balance,
           (share * often.to(scores.scalar_type())).sum() * (o_.balance_weight * scales_.tokens));
  }

  Tensor moe(uint32_t l, const LayerTensors& w, const Tensor& x) {
    const Tensor scores = at::softplus(linear(x, w.gate, Products::kFull), 1, 20).sqrt();
    Indices ids = o_.forced != nullptr ? o_.forced->experts[l] : nullptr;
    if (!ids) {
      const at::NoGradGuard no_grad;
      std::vector<int32_t> chosen;
      choose_experts(scores + w.gate_bias, c_.num_experts_per_tok, chosen);
      ids = std::make_shared<const std::vector<int32_t>>(std::move(chosen));
    }
    result_.choices.experts[l] = ids;
    balance(l, scores, *ids);
    const Tensor at_ids = at::from_blob(const_cast<int32_t*>(ids->data()),
                                        {x.size(0), c_.num_experts_per_tok}, at::kInt)
                              .to(at::kLong);
    const Tensor chosen = scores.gather(1, at_ids);
    const Tensor route = chosen / (chosen.sum(1, true) + 1e-20) * c_.routed_scaling_factor;
    const Tensor routed = experts(x, route, ids, {w.w1, w.w3, w.w2}, c_.swiglu_limit, o_.products);
    const Indices first = std::make_shared<const std::vector<int32_t>>(x.size(0), 0);
    const Tensor shared =
        experts(x, at::ones({x.size(0), 1}, x.options()), first,
                {w.shared_w1.unsqueeze(0), w.shared_w3.unsqueeze(0), w.shared_w2.unsqueeze(0)},
                c_.swiglu_limit, o_.products);
    return routed + shared;
  }

  // --- one layer

  Tensor mix(const HyperTensors& t) const {
    return hyper_mix(h_, {t.fn, t.base, t.scale}, c_.rms_norm_eps, c_.hc_eps, c_.hc_sinkhorn_iters);
  }

  // The decoder half goes on with the rows that its segments name.
  void enter_decoder(Tensor& x) {
    rows_ = &in_.decoder;
    if (!rows_->source.defined()) return;
    h_ = h_.index_select(0, rows_->source);
    pre_ = pre_.index_select(0, rows_->source);
    x = x.index_select(0, rows_->source);
    std::vector<int32_t> documents;
    for (const int32_t token : *rows_->tokens) {
      documents.push_back(in_.document[static_cast<size_t>(token)]);
    }
    row_document_ = std::move(documents);
  }

  void layer(const arch::LayerRole& role) {
    const LayerTensors& w = w_.layers[role.layer];
    const int64_t copies = c_.hc_mult;
    if (role.engram) engram(role, w);
    // Collapsed with the mix of the previous sublayer.
    Tensor x = collapse(h_, pre_, w.attn_norm, c_.rms_norm_eps);
    if (role.mode == arch::AttentionMode::kFull) compress(role, w, x);
    if (role.layer == plan_.decoder_begin) enter_decoder(x);
    const Tensor attention_mix = mix(w.hyper_attn);
    h_ = spread(h_, attention(role, w, x), attention_mix);
    const Tensor ffn_mix = mix(w.hyper_ffn);
    x = collapse(h_, attention_mix.narrow(1, 0, copies), w.ffn_norm, c_.rms_norm_eps);
    h_ = spread(h_, moe(role.layer, w, x), ffn_mix);
    pre_ = ffn_mix.narrow(1, 0, copies);
  }

  const arch::Config& c_;
  const arch::LayerPlan& plan_;
  const ModelTensors& w_;
  const Layout& in_;
  const ForwardOptions& o_;
  const LossScales& scales_;
  ForwardResult result_;
  const QueryRows* rows_ = nullptr;
  std::vector<int32_t> row_document_;  // [rows]
  Tensor h_;                           // [rows, copies, hidden]
  Tensor pre_;                         // [rows, copies]
  std::vector<OwnerRows> owners_;
  std::vector<IndexGroup> groups_;
  Indices selected_;       // of the last index source
  Candidates candidates_;  // of the candidate source
};

}  // namespace

Tensor ForwardResult::loss() const {
  Tensor sum = cross_entropy;
  if (balance.defined()) sum = sum + balance;
  if (indexer.defined()) sum = sum + indexer;
  return sum;
}

ForwardResult Graph::losses(const ModelTensors& weights, const Layout& layout,
                            const ForwardOptions& options, const LossScales& scales) const {
  Pass pass(config_, plan_, weights, layout, options, scales);
  Tensor x = pass.run();
  ForwardResult result = pass.take();
  std::vector<int64_t> rows;
  std::vector<int32_t> labels;
  for (size_t i = 0; i < layout.labels->size(); ++i) {
    if ((*layout.labels)[i] < 0) continue;
    rows.push_back(static_cast<int64_t>(i));
    labels.push_back((*layout.labels)[i]);
  }
  const Tensor wanted = at::tensor(rows, at::kLong);
  result.logits = linear(x.index_select(0, wanted), weights.head, options.products);
  result.cross_entropy = cross_entropy(
      result.logits, std::make_shared<const std::vector<int32_t>>(labels), scales.labels);
  return result;
}

ForwardResult Graph::logits(const ModelTensors& weights, const Layout& layout,
                            const ForwardOptions& options) const {
  const LossScales scales;
  Pass pass(config_, plan_, weights, layout, options, scales);
  const Tensor x = pass.run();
  ForwardResult result = pass.take();
  result.logits = linear(x, weights.head, Products::kFull);
  return result;
}

}  // namespace thimble::train::internal
