// Aim: the operations that the model is made of mean what the specs say. Method: small numbers
// worked by hand for orientation (H1), contracts of the coefficients, straight-through gradients
// compared to the bit and roundings with the numeric module (Q1).
#include <gtest/gtest.h>

#include "numeric/kv_fp4.h"
#include "train/internal/ops.h"
#include "train/internal/stored_forms.h"
#include "train/internal/testing.h"

namespace thimble::train::internal {
namespace {

// Two copies of width one: the output copy is the second index of comb.
TEST(HyperConnections, SpreadIsOriented) {
  const Tensor h = at::tensor({10.0, 100.0}, at::kDouble).view({1, 2, 1});
  const Tensor y = at::tensor({1.0}, at::kDouble).view({1, 1});
  // pre (unused), post, comb rows.
  const Tensor mix = at::tensor({9.0, 9.0, 0.5, 2.0, 0.1, 0.9, 0.3, 0.7}, at::kDouble).view({1, 8});
  const Tensor out = spread(h, y, mix);
  EXPECT_NEAR(out[0][0][0].item<double>(), 0.5 + 0.1 * 10 + 0.3 * 100, 1e-12);
  EXPECT_NEAR(out[0][1][0].item<double>(), 2.0 + 0.9 * 10 + 0.7 * 100, 1e-12);
}

HyperWeights hyper_weights(double fn_size) {
  return {at::randn({24, 32}, at::kDouble) * fn_size, at::randn({24}, at::kDouble),
          at::ones({3}, at::kDouble)};
}

TEST(HyperConnections, MixesWithoutGain) {
  at::manual_seed(1);
  const Tensor h = at::randn({50, 4, 8}, at::kDouble);
  const Tensor mix = hyper_mix(h, hyper_weights(0.3), 1e-20, 1e-6, 20);
  const Tensor comb = mix.narrow(1, 8, 16).view({50, 4, 4});
  EXPECT_LT((comb.sum(1) - 1).abs().max().item<double>(), 1e-5);  // columns come last
  EXPECT_LT((comb.sum(2) - 1).abs().max().item<double>(), 2e-2);  // rows come near
  EXPECT_GT(comb.min().item<double>(), 0);
  // Forty sublayers one after another: a doubly stochastic product neither grows nor vanishes.
  Tensor product = at::eye(4, at::kDouble);
  for (int64_t i = 0; i < 40; ++i) product = at::mm(product, comb[i]);
  EXPECT_LE(product.sum(0).max().item<double>(), 2);
  EXPECT_LE(product.sum(1).max().item<double>(), 2);
}

// Coefficients forced to one-hot and identity give a plain residual network.
TEST(HyperConnections, ForcedToOneStreamArePlainResiduals) {
  HyperWeights w = hyper_weights(0);
  w.base.fill_(-40);
  w.base[0] = 40;  // pre: stream 0
  w.base[4] = 0;   // post: 2 sigmoid(0) into stream 0
  for (int64_t i = 0; i < 4; ++i) w.base[8 + 5 * i] = 40;
  const Tensor h = at::randn({3, 4, 8}, at::kDouble);
  const Tensor y = at::randn({3, 8}, at::kDouble);
  const Tensor mix = hyper_mix(h, w, 1e-20, 1e-6, 20);
  const Tensor out = spread(h, y, mix);
  EXPECT_TRUE(at::allclose(out.select(1, 0), h.select(1, 0) + y, 1e-4, 1e-4));
  EXPECT_TRUE(at::allclose(out.narrow(1, 1, 3), h.narrow(1, 1, 3), 1e-4, 1e-4));
  EXPECT_NEAR(mix[0][0].item<double>(), 1, 1e-5);
}

// H1: at the beginning the streams of a deep model are still apart.
TEST(HyperConnections, BeginningStreamsDoNotCollapse) {
  const TinyModel tiny(xs_config());
  const auto values = begin_values(tiny.parameters, 1);
  const ModelTensors w = bind_tensors(tiny.config, tiny.plan, values);
  Tensor h = at::randn({20, 4, 64});
  for (const LayerTensors& layer : w.layers) {
    for (const HyperTensors* t : {&layer.hyper_attn, &layer.hyper_ffn}) {
      const Tensor mix = hyper_mix(h, {t->fn, t->base, t->scale}, 1e-20, 1e-6, 20);
      h = spread(h, at::zeros({20, 64}), mix);
    }
  }
  const Tensor unit = h / h.norm(2, 2, true);
  const Tensor cosine = (unit.select(1, 0) * unit.select(1, 1)).sum(1).abs().mean();
  EXPECT_LT(cosine.item<double>(), 0.99);
}

TEST(Rounding, PassesGradientsUnchanged) {
  for (const Rounding rule : {Rounding::kFp8, Rounding::kMxfp4, Rounding::kKvFp4}) {
    const Tensor x = at::randn({5, 64}).set_requires_grad(true);
    const Tensor y = round_through(x, rule);
    EXPECT_FALSE(at::equal(x, y));
    const Tensor d = at::randn({5, 64}) * 1e-6;  // far below what FP8 could hold
    const auto grad = torch::autograd::grad({y}, {x}, {d});
    EXPECT_TRUE(at::equal(grad[0], d));
  }
}

TEST(Rounding, IsTheServedRule) {
  const Tensor x = at::randn({3, 32}, at::kDouble);
  Tensor expected = x.clone();
  numeric::round_kv_fp4(expected.data_ptr<double>(), 96);
  EXPECT_TRUE(at::equal(round_through(x, Rounding::kKvFp4), expected));
}

TEST(StoredForms, DecodeToWhatTheyAre) {
  for (const Stored form : {Stored::kFp8Tiles, Stored::kFp8Rows, Stored::kFp4Rows}) {
    Parameter p;
    p.stored = form;
    const Tensor x = at::randn({64, 96});
    const Tensor once = stored_value(p, x);
    EXPECT_TRUE(at::equal(stored_value(p, once), once));  // on the grid already
    const double error = ((once - x).norm() / x.norm()).item<double>();
    EXPECT_LT(error, form == Stored::kFp4Rows ? 0.13 : 0.04);
    EXPECT_GT(error, 1e-3);
  }
}

// Silu and clamps on both sides, and a weight of its own.
TEST(Experts, OneExpertIsItsFormula) {
  const Tensor x = at::randn({7, 8}, at::kDouble) * 3;
  const ExpertWeights w{at::randn({1, 6, 8}, at::kDouble), at::randn({1, 6, 8}, at::kDouble),
                        at::randn({1, 8, 6}, at::kDouble)};
  const auto ids = std::make_shared<const std::vector<int32_t>>(7, 0);
  const Tensor route = at::rand({7, 1}, at::kDouble);
  const Tensor got = experts(x, route, ids, w, 2.0, Products::kFull);
  const Tensor gate = at::mm(x, w.w1[0].t()).clamp_max(2.0);
  const Tensor up = at::mm(x, w.w3[0].t()).clamp(-2.0, 2.0);
  const Tensor expected = at::mm(at::silu(gate) * up * route, w.w2[0].t());
  EXPECT_TRUE(at::allclose(got, expected, 1e-10, 1e-10));
}

// BF16 products: near the full ones, gradients too, whatever the number of rows an expert gets.
TEST(Experts, Bf16ProductsAreNear) {
  const auto ids = std::make_shared<const std::vector<int32_t>>(
      std::vector<int32_t>{0, 2, 0, 2, 2, 0, 2, 2, 2, 0});
  const Tensor x = at::randn({5, 32}).set_requires_grad(true);
  const Tensor route = at::rand({5, 2}).set_requires_grad(true);
  const ExpertWeights w{at::randn({3, 32, 32}).set_requires_grad(true), at::randn({3, 32, 32}),
                        at::randn({3, 32, 32})};
  std::vector<std::vector<Tensor>> grads;
  for (const Products products : {Products::kFull, Products::kBf16}) {
    const Tensor y = experts(x, route, ids, w, 10.0, products);
    grads.push_back(torch::autograd::grad({(y * y).sum()}, {x, route, w.w1}));
    grads.back().push_back(y.detach());
  }
  for (size_t i = 0; i < grads[0].size(); ++i) {
    const double error = ((grads[0][i] - grads[1][i]).norm() / grads[0][i].norm()).item<double>();
    EXPECT_LT(error, 0.03) << i;
  }
}

}  // namespace
}  // namespace thimble::train::internal
