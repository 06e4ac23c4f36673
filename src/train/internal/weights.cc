#include "train/internal/weights.h"

#include <fmt/format.h>

#include <cmath>

#include "base/random.h"
#include "numeric/bf16.h"
#include "train/internal/stored_forms.h"

namespace thimble::train::internal {
namespace {

// Walks the tensors of one layer.
class LayerVisitor {
 public:
  LayerVisitor(const arch::Config& config, const arch::LayerRole& role, const VisitParameter& f)
      : c_(config), role_(role), f_(f), prefix_(fmt::format("layers.{}.", role.layer)) {}

  void visit(LayerTensors& t) {
    attention(t);
    if (role_.mode == arch::AttentionMode::kFull) compressor(t);
    if (role_.selects()) {
      matrix("attn.indexer.wq_b", {c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank},
             Stored::kFp8Tiles, Owner::kIndexer, t.index_wq_b, c_.index_n_heads);
      matrix("attn.indexer.weights_proj", {c_.index_n_heads, c_.hidden_size}, Stored::kBf16,
             Owner::kIndexer, t.index_weights);
    }
    norm("attn_norm.weight", c_.hidden_size, Owner::kNorm, t.attn_norm);
    norm("ffn_norm.weight", c_.hidden_size, Owner::kNorm, t.ffn_norm);
    hyper("hc_attn_", 2 * role_.layer, t.hyper_attn);
    hyper("hc_ffn_", 2 * role_.layer + 1, t.hyper_ffn);
    router_and_shared(t);
    if (role_.engram) engram(t);
    experts(t);
  }

 private:
  using Shape = std::vector<int64_t>;

  // Deviation 1 / sqrt(inputs), times `shrink`.
  void matrix(const std::string& name, Shape shape, Stored stored, Owner owner, Tensor& tensor,
              int64_t blocks = 1, double shrink = 1) {
    const double deviation = shrink / std::sqrt(static_cast<double>(shape.back()));
    f_({prefix_ + name + ".weight", std::move(shape), stored, Update::kMuon, owner, blocks,
        Begin::kNormal, deviation},
       tensor);
  }
  void norm(const std::string& name, int64_t width, Owner owner, Tensor& tensor) {
    f_({prefix_ + name,
        {width},
        Stored::kBf16,
        Update::kAdamDecayed,
        owner,
        1,
        Begin::kConstant,
        1},
       tensor);
  }
  void plain(const std::string& name, Shape shape, Update update, Owner owner, Begin begin,
             double value, Tensor& tensor) {
    f_({prefix_ + name, std::move(shape), Stored::kF32, update, owner, 1, begin, value}, tensor);
  }
  // Outputs that are added to the streams begin smaller, the deeper the model.
  double branch() const { return 1 / std::sqrt(2.0 * c_.num_hidden_layers); }

  void attention(LayerTensors& t) {
    const int64_t heads = int64_t{c_.num_attention_heads} * c_.head_dim;
    const int64_t output = int64_t{c_.o_groups} * c_.o_lora_rank;
    const auto add = [&](const char* name, Shape shape, Tensor& tensor, int64_t blocks = 1,
                         double shrink = 1) {
      matrix(name, std::move(shape), Stored::kFp8Tiles, Owner::kAttention, tensor, blocks, shrink);
    };
    add("attn.wq_a", {c_.q_lora_rank, c_.hidden_size}, t.wq_a);
    norm("attn.q_norm.weight", c_.q_lora_rank, Owner::kAttention, t.q_norm);
    add("attn.wq_b", {heads, c_.q_lora_rank}, t.wq_b, c_.num_attention_heads);
    add("attn.wkv", {c_.head_dim, c_.hidden_size}, t.wkv);
    norm("attn.kv_norm.weight", c_.head_dim, Owner::kAttention, t.kv_norm);
    plain("attn.attn_sink", {c_.num_attention_heads}, Update::kAdam, Owner::kAttention,
          Begin::kConstant, 0, t.sink);
    add("attn.wo_a", {output, heads / c_.o_groups}, t.wo_a, c_.o_groups);
    add("attn.wo_b", {c_.hidden_size, output}, t.wo_b, 1, branch());
  }

  void compressor(LayerTensors& t) {
    const Shape shape = {c_.head_dim, c_.hidden_size};
    matrix("attn.compressor.wkv", shape, Stored::kBf16, Owner::kCompressor, t.compress_wkv);
    if (role_.ratio > 1) {  // begins as the mean of the group
      matrix("attn.compressor.wgate", shape, Stored::kBf16, Owner::kCompressor, t.compress_wgate, 1,
             0);
    }
    norm("attn.compressor.norm.weight", c_.head_dim, Owner::kCompressor, t.compress_norm);
    matrix("attn.indexer.wk", {c_.index_head_dim, c_.head_dim}, Stored::kBf16, Owner::kIndexer,
           t.index_wk);
    norm("attn.indexer.k_norm.weight", c_.index_head_dim, Owner::kIndexer, t.index_k_norm);
  }

  void hyper(const std::string& name, uint32_t sublayer, HyperTensors& t) {
    const int64_t copies = c_.hc_mult;
    const int64_t mixes = copies * (2 + copies);
    f_({prefix_ + name + "fn",
        {mixes, copies * c_.hidden_size},
        Stored::kF32,
        Update::kMuon,
        Owner::kHyper,
        1,
        Begin::kNormal,
        0.02},
       t.fn);
    plain(name + "base", {mixes}, Update::kAdam, Owner::kHyper, Begin::kHyperBase,
          static_cast<double>(sublayer), t.base);
    plain(name + "scale", {3}, Update::kAdam, Owner::kHyper, Begin::kConstant, 0.01, t.scale);
  }

  void router_and_shared(LayerTensors& t) {
    const int64_t inner = c_.moe_intermediate_size;
    const int64_t width = c_.hidden_size;
    matrix("ffn.gate", {c_.n_routed_experts, width}, Stored::kBf16, Owner::kRouter, t.gate);
    plain("ffn.gate.bias", {c_.n_routed_experts}, Update::kBalance, Owner::kRouter,
          Begin::kConstant, 0, t.gate_bias);
    const auto add = [&](const char* name, Shape shape, Tensor& tensor, double shrink) {
      matrix(name, std::move(shape), Stored::kFp8Tiles, Owner::kShared, tensor, 1, shrink);
    };
    add("ffn.shared_experts.w1", {inner, width}, t.shared_w1, 1);
    add("ffn.shared_experts.w3", {inner, width}, t.shared_w3, 1);
    add("ffn.shared_experts.w2", {width, inner}, t.shared_w2, branch());
  }

  void experts(LayerTensors& t) {
    const int64_t n = c_.n_routed_experts;
    const int64_t inner = c_.moe_intermediate_size;
    const int64_t width = c_.hidden_size;
    const auto add = [&](const char* name, Shape shape, Tensor& tensor, double shrink) {
      matrix(name, std::move(shape), Stored::kFp4Rows, Owner::kExperts, tensor, 1, shrink);
    };
    add("ffn.experts.{}.w1", {n, inner, width}, t.w1, 1);
    add("ffn.experts.{}.w3", {n, inner, width}, t.w3, 1);
    add("ffn.experts.{}.w2", {n, width, inner}, t.w2, branch());
  }

  void engram(LayerTensors& t) {
    const auto rows = static_cast<int64_t>(c_.engram.num_embeddings[*role_.engram]);
    const int64_t copies = c_.hc_mult;
    f_({prefix_ + "engram.embed.weight",
        {rows, c_.engram.head_dim},
        Stored::kFp8Rows,
        Update::kSinkhorn,
        Owner::kEngramTable,
        1,
        Begin::kNormal,
        0.02},
       t.engram_table);
    matrix("engram.wkv", {(copies + 1) * c_.hidden_size, c_.engram.width()}, Stored::kFp8Tiles,
           Owner::kEngram, t.engram_wkv, copies + 1);
    for (const auto& [name, tensor] : {std::pair{"q", &t.engram_q}, std::pair{"k", &t.engram_k}}) {
      f_({fmt::format("{}engram.{}_weight", prefix_, name),
          {copies, c_.hidden_size},
          Stored::kBf16,
          Update::kAdamDecayed,
          Owner::kEngram,
          1,
          Begin::kConstant,
          1},
         *tensor);
    }
  }

  const arch::Config& c_;
  const arch::LayerRole& role_;
  const VisitParameter& f_;
  std::string prefix_;
};

uint64_t hash_name(const std::string& name) {
  uint64_t hash = 0xCBF29CE484222325ULL;
  for (const char c : name) hash = base::mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// Streams that mostly keep themselves, each read by every fourth sublayer (training spec 4).
void begin_hyper_base(const Parameter& p, int64_t sublayers, float* out) {
  const int64_t size = p.shape[0];
  int64_t n = 1;
  while (n * (2 + n) < size) ++n;
  const auto keep = static_cast<float>(2 + std::log(static_cast<double>(sublayers)));
  for (int64_t i = 0; i < size; ++i) out[i] = 0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = i == static_cast<int64_t>(p.value) % n ? 3.0f : -3.0f;
    out[2 * n + i * n + i] = keep;
  }
}

}  // namespace

void visit(const arch::Config& config, const arch::LayerPlan& plan, ModelTensors& tensors,
           const VisitParameter& f) {
  const int64_t vocab = config.vocab_size;
  const int64_t width = config.hidden_size;
  tensors.layers.resize(plan.layers.size());
  f({"embed.weight",
     {vocab, width},
     Stored::kBf16,
     Update::kSinkhorn,
     Owner::kEmbedding,
     1,
     Begin::kNormal,
     0.5},
    tensors.embed);
  f({"norm.weight",
     {width},
     Stored::kBf16,
     Update::kAdamDecayed,
     Owner::kNorm,
     1,
     Begin::kConstant,
     1},
    tensors.norm);
  f({"head.weight",
     {vocab, width},
     Stored::kBf16,
     Update::kSinkhorn,
     Owner::kHead,
     1,
     Begin::kNormal,
     0.02},
    tensors.head);
  for (const arch::LayerRole& role : plan.layers) {
    LayerVisitor(config, role, f).visit(tensors.layers[role.layer]);
  }
}

std::vector<Parameter> parameters_of(const arch::Config& config, const arch::LayerPlan& plan) {
  std::vector<Parameter> out;
  ModelTensors unused;
  visit(config, plan, unused, [&](const Parameter& p, Tensor&) { out.push_back(p); });
  return out;
}

ModelTensors bind_tensors(const arch::Config& config, const arch::LayerPlan& plan,
                          const std::vector<Tensor>& values) {
  ModelTensors out;
  size_t next = 0;
  visit(config, plan, out, [&](const Parameter&, Tensor& tensor) { tensor = values[next++]; });
  CHECK_EQ(next, values.size());
  return out;
}

std::vector<Tensor> begin_values(const std::vector<Parameter>& parameters, uint64_t seed) {
  int64_t sublayers = 1;
  for (const Parameter& p : parameters) {
    if (p.begin == Begin::kHyperBase) sublayers = static_cast<int64_t>(p.value) + 1;
  }
  std::vector<Tensor> out;
  for (const Parameter& p : parameters) {
    Tensor tensor = at::empty(p.shape, at::kFloat);
    auto* values = tensor.data_ptr<float>();
    base::SplitMix64 random(base::mix64(seed + 1) ^ hash_name(p.name));
    if (p.begin == Begin::kConstant) {
      tensor.fill_(p.value);
    } else if (p.begin == Begin::kHyperBase) {
      begin_hyper_base(p, sublayers, values);
    } else {
      for (int64_t i = 0; i < tensor.numel(); ++i) {
        values[i] = static_cast<float>(p.value * random.normal());
      }
    }
    out.push_back(tensor);
  }
  return out;
}

Tensor stored_value(const Parameter& parameter, const Tensor& master) {
  if (parameter.stored == Stored::kF32) return master.clone();
  Tensor out = at::empty_like(master);
  const auto n = static_cast<size_t>(master.numel());
  const float* from = master.data_ptr<float>();
  float* to = out.data_ptr<float>();
  if (parameter.stored == Stored::kBf16) {
    for (size_t i = 0; i < n; ++i) to[i] = numeric::round_bf16(from[i]);
    return out;
  }
  const StoredMatrix stored = encode(parameter.stored, from, n, master.size(-1));
  decode(parameter.stored, stored, master.size(-1), {to, n});
  return out;
}

}  // namespace thimble::train::internal
