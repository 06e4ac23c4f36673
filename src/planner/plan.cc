#include "planner/plan.h"

#include <algorithm>

#include "base/bytes.h"
#include "base/check.h"

namespace thimble::planner {
namespace {

constexpr uint64_t kContextDefault = 1'000'000;
constexpr uint64_t kCurveTokens = 1 << 20;

// A value of one's own above 0 replaces the preset's.
template <class T>
void prefer(T& value, T own) {
  if (own > 0) value = own;
}

void prefer(Processor& processor, const Processor& own) {
  prefer(processor.memory_gbps, own.memory_gbps);
  prefer(processor.bf16_gflops, own.bf16_gflops);
  prefer(processor.fp8_gflops, own.fp8_gflops);
  prefer(processor.fp4_gflops, own.fp4_gflops);
}

Result<Machine> machine_of(const PlanRequest& request) {
  auto machine = THIMBLE_TRY(find_machine(request.machine));
  if (request.measured) machine = *request.measured;
  prefer(machine.ram_bytes, request.own.ram_bytes);
  prefer(machine.ssd_bytes, request.own.ssd_bytes);
  prefer(machine.ssd_gbps, request.own.ssd_gbps);
  prefer(machine.cpu, request.own.cpu);
  prefer(machine.gpu, request.own.gpu);
  if (request.gpu_bytes) machine.gpu_bytes = *request.gpu_bytes;
  THIMBLE_TRY(check(machine));
  return machine;
}

Result<arch::Config> changed(const arch::Config& config, const PlanRequest& request,
                             const std::vector<LayerMode>& modes) {
  arch::Config out = config;
  if (request.latent > 0) {
    out.head_dim = static_cast<uint32_t>(request.latent);
    THIMBLE_TRY(arch::validate(out));
  }
  if (!request.modes.empty()) out = THIMBLE_TRY(with_modes(out, modes));
  return out;
}

DecodePoint decode_point(const ModelCosts& costs, const Machine& machine, PlacementWish wish,
                         uint64_t context) {
  wish.position = context - 1;
  DecodePoint point{.context = context, .ops = costs.flops.decode(wish.position)};
  const Traffic traffic{costs.weight_lines, cache_traffic(costs.config, wish.position)};
  point.weight_bytes = traffic.weight_bytes();
  point.cache_bytes = traffic.cache_bytes();
  point.seconds = resident_speed(costs, machine, wish).seconds;
  return point;
}

// The last window of rows in every decoder layer, whatever the last row would need; the first of
// them keeps writing all entries.
arch::RowPlan bounded_tail(const arch::LayerPlan& plan, arch::RowPlan rows) {
  if (rows.end <= plan.window) return rows;
  const uint64_t begin = rows.end - plan.window;
  for (uint32_t l = plan.decoder_begin; l < rows.layers.size(); ++l) {
    arch::LayerRows& layer = rows.layers[l];
    layer.rows_begin = begin;
    const bool owner = l == plan.decoder_begin && !plan.owners.empty();
    layer.keys_begin = owner ? std::min(layer.keys_begin, begin) : begin;
  }
  return rows;
}

PrefillPoint prefill_point(const ModelCosts& costs, const Machine& machine,
                           const PlacementWish& wish, uint64_t tokens) {
  const arch::LayerPlan& plan = costs.flops.plan();
  const auto input = arch::row_plan_input(plan, 0, {}, true, tokens, arch::Replay::kExact);
  const arch::RowPlan rows = arch::make_row_plan(plan, input);
  return {.tokens = tokens,
          .exact = costs.flops.rows(rows),
          .bounded_tail = costs.flops.rows(bounded_tail(plan, rows)),
          .seconds = prefill_seconds(costs, machine, wish, tokens)};
}

ReplayPoint replay_point(const ModelCosts& costs, uint64_t hit, uint64_t new_tokens) {
  const auto ops = [&](uint64_t cached, bool snapshot, uint64_t more, arch::Replay replay) {
    return sum(costs.flops.prompt(cached, snapshot, more, replay)).total();
  };
  ReplayPoint point{.new_tokens = new_tokens,
                    .layer_tokens = replay_costs(costs.flops.plan(), hit, new_tokens)};
  point.snapshot = ops(hit, true, new_tokens, arch::Replay::kExact);
  point.exact = ops(hit, false, new_tokens, arch::Replay::kExact);
  point.automatic = ops(hit, false, new_tokens, arch::Replay::kAuto);
  point.bounded = ops(hit, false, new_tokens, arch::Replay::kBounded);
  point.cold = ops(0, false, hit + new_tokens, arch::Replay::kExact);
  return point;
}

void add_flops(const ModelCosts& costs, const Machine& machine, const PlacementWish& wish,
               ModelPlan& out) {
  const uint64_t most = std::min<uint64_t>(costs.config.max_position_embeddings, kCurveTokens);
  const uint64_t first = std::min<uint64_t>(4096, most);
  for (uint64_t context = first; context <= most; context *= 2) {
    out.decode.push_back(decode_point(costs, machine, wish, context));
    out.prefill.push_back(prefill_point(costs, machine, wish, context));
  }
  const Ops near = sum(out.decode.front().ops);
  const Ops far = sum(out.decode.back().ops);
  out.growth_weighted = far.weighted() / near.weighted();
  out.growth_unweighted = far.total() / near.total();
}

Result<uint64_t> whole_bytes(double bytes, const char* what) {
  if (bytes <= 1e18) return static_cast<uint64_t>(bytes);
  return base::fail(ErrorCode::kInvalidArgument, "{} take {:.3g} bytes, expected at most 1e18",
                    what, bytes);
}

Result<PlacementWish> wish_of(const arch::Config& config, const Ledger& ledger, const Plan& plan) {
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const uint64_t sequence = layout.reserved_bytes(plan.context_tokens) + ledger.sequence_bytes;
  const double pool = static_cast<double>(plan.request.contexts) * static_cast<double>(sequence);
  return PlacementWish{
      .pool_bytes = THIMBLE_TRY(whole_bytes(pool, "the contexts")),
      .snapshot_bytes = THIMBLE_TRY(whole_bytes(plan.snapshots.bytes, "the snapshots")),
      .step_bytes = step_bytes(config, kPromptRows, plan.context_tokens),
      .position = plan.context_tokens - 1};
}

// No longer than the model's sequences are.
void add_replay(const ModelCosts& costs, const PlanRequest& request, ModelPlan& out) {
  const uint64_t most = costs.config.max_position_embeddings;
  const uint64_t new_tokens = std::min(request.new_tokens, most);
  out.replay_hit = std::min(request.hit_tokens, most - new_tokens);
  for (uint64_t n = 1; n <= std::min<uint64_t>(16'384, most - out.replay_hit); n *= 4) {
    out.replay.push_back(replay_point(costs, out.replay_hit, n));
  }
  out.replay_asked = replay_point(costs, out.replay_hit, new_tokens);
}

Result<ModelPlan> plan_model(const arch::Config& config, Plan& plan) {
  const ModelCosts costs(config);
  const PlanRequest& request = plan.request;
  ModelPlan out;
  out.ledger = make_ledger(config, arch::CacheFormat::kPacked);
  plan.snapshots =
      snapshot_pool(request.snapshots_per_minute, request.ttl_minutes, out.ledger.snapshot_bytes);
  out.roles = costs.flops.roles();
  out.activated = activated_parameters(config);
  out.weight_lines = costs.weight_lines;
  out.cache_lines = cache_traffic(config, plan.context_tokens - 1);
  const PlacementWish wish = THIMBLE_TRY(wish_of(config, out.ledger, plan));
  add_flops(costs, plan.machine, wish, out);
  out.placement = place(costs, plan.machine, wish);
  out.transfer = transfer(costs, plan.machine, wish, plan.context_tokens, request.link_gbps,
                          request.link_latency_us);
  add_replay(costs, request, out);
  return out;
}

// Room for every product of counts and bytes.
Result<void> check_sizes(const PlanRequest& request) {
  constexpr uint64_t kTokensMax = 1ULL << 40;
  if (request.hit_tokens > kTokensMax - request.new_tokens) {
    return base::fail(ErrorCode::kInvalidArgument, "hit and new are {} tokens, expected up to 2^40",
                      request.hit_tokens + request.new_tokens);
  }
  if (request.latent > UINT16_MAX) {
    return base::fail(ErrorCode::kInvalidArgument, "latent is {}, expected at most {}",
                      request.latent, UINT16_MAX);
  }
  if (request.contexts > (1ULL << 20)) {
    return base::fail(ErrorCode::kInvalidArgument, "contexts is {}, expected 1 to 2^20",
                      request.contexts);
  }
  return {};
}

// Fills in what the subject decides: design, modes, attribution. Empty: it is no model that a
// checkpoint can state, `no_model` says why.
Result<std::optional<arch::Config>> planned_model(const PlanSubject& subject, Plan& plan) {
  const PlanRequest& request = plan.request;
  if (const auto* design = std::get_if<CacheDesign>(&subject)) {
    if (!request.modes.empty() || request.latent > 0) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "modes and latent change a model of this architecture, {} is none",
                        plan.source);
    }
    plan.design = *design;
    plan.no_model = "not this architecture: its cache is planned, the rest is not";
    return std::nullopt;
  }
  const arch::Config& config = std::get<arch::Config>(subject);
  auto modes = modes_of(config);
  if (!request.modes.empty()) {
    modes = THIMBLE_TRY(base::in(parse_modes(request.modes), "modes"));
  }
  const uint32_t latent =
      request.latent > 0 ? static_cast<uint32_t>(request.latent) : config.head_dim;
  const uint64_t most = config.max_position_embeddings;
  if (request.context_tokens == 0) plan.context_tokens = std::min(kContextDefault, most);
  if (plan.context_tokens > most) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "context is {} tokens, expected at most {}, the model's maximum",
                      plan.context_tokens, most);
  }
  plan.modes = to_string(modes);
  plan.attribution = attribute(modes, latent, config.index_head_dim);
  const auto model = changed(config, request, modes);
  if (model) {
    plan.design = design_of(*model, plan.source);
    return *model;
  }
  if (model.error().code != ErrorCode::kUnsupported) {
    Error wrong = model.error();
    wrong.code = ErrorCode::kInvalidArgument;  // a wish is at odds with the model, not a file
    return tl::unexpected(std::move(wrong));
  }
  plan.design = design_of(config, modes, latent, plan.source);
  plan.design.paged.reset();  // nothing that our allocator holds
  plan.no_model = model.error().describe();
  return std::nullopt;
}

}  // namespace

Result<Plan> make_plan(const PlanSubject& subject, std::string source, const PlanRequest& request) {
  THIMBLE_TRY(check_sizes(request));
  Plan plan;
  plan.source = std::move(source);
  plan.request = request;
  plan.machine = THIMBLE_TRY(machine_of(request));
  plan.generations = generations();
  plan.context_tokens = request.context_tokens > 0 ? request.context_tokens : kContextDefault;
  const auto model = THIMBLE_TRY(planned_model(subject, plan));
  plan.contexts = contexts_in(plan.design, request.memory_bytes, plan.context_tokens);
  const CacheDesign& before = plan.generations[plan.generations.size() - 2];
  plan.tier =
      persistent_tier(plan.design, before, request.tier_bytes, request.write_tokens_per_second);
  for (const CacheDesign& design : plan.generations) {
    plan.concurrency.push_back(concurrency_curve(design, request.memory_bytes, kCurveTokens));
  }
  plan.concurrency.push_back(concurrency_curve(plan.design, request.memory_bytes, kCurveTokens));
  if (model) plan.model = THIMBLE_TRY(plan_model(*model, plan));
  return plan;
}

}  // namespace thimble::planner
