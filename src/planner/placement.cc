#include "planner/placement.h"

#include <fmt/format.h>

#include <algorithm>

#include "arch/cache_layout.h"
#include "base/bytes.h"

namespace thimble::planner {
namespace {

// Hands out one memory.
struct Room {
  uint64_t left = 0;

  uint64_t take(uint64_t bytes) {
    const uint64_t taken = std::min(bytes, left);
    left -= taken;
    return taken;
  }
};

// GPU first where `on_gpu`, then memory; the rest stays on the disk.
PlacementLine lay(const char* what, uint64_t bytes, bool on_gpu, Room& gpu, Room& ram) {
  PlacementLine line{.what = what, .bytes = bytes};
  if (on_gpu) line.gpu = gpu.take(bytes);
  line.ram = ram.take(bytes - line.gpu);
  line.ssd = bytes - line.gpu - line.ram;
  return line;
}

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
}

struct Shares {
  double dense_on_gpu = 0;
  double experts_on_gpu = 0;
  double experts_resident = 1;  // in either memory
  double dense_resident = 1;
};

// The slowest of bytes, operations and disk; a graphics card works on what it holds, the CPUs on
// the rest, one after the other.
Speed speed_of(const ModelCosts& model, const Machine& machine, uint64_t position,
               const Shares& shares) {
  const Traffic traffic{model.weight_lines, cache_traffic(model.config, position)};
  const double routed = traffic.routed_bytes();
  const double dense = traffic.weight_bytes() - routed + traffic.cache_bytes();
  const double gpu_bytes = dense * shares.dense_on_gpu + routed * shares.experts_on_gpu;
  const double cpu_bytes = dense + routed - gpu_bytes;
  const Ops ops = sum(model.flops.decode(position));
  const double gpu_share = gpu_bytes / (dense + routed);

  Speed speed;
  speed.memory_bytes = dense + routed;
  speed.ssd_bytes = routed * (1 - shares.experts_resident) + dense * (1 - shares.dense_resident);
  const Ops cpu_ops = ops * (1 - gpu_share);
  const double cpu = machine.cpu.seconds(cpu_ops, cpu_bytes);
  const double gpu = machine.gpu_bytes > 0 ? machine.gpu.seconds(ops * gpu_share, gpu_bytes) : 0;
  const double computing = cpu + gpu;
  const double reading = machine.ssd_gbps > 0 ? 1e-9 * speed.ssd_bytes / machine.ssd_gbps : 0;
  speed.seconds = std::max(computing, reading);
  if (reading > computing) {
    speed.bound = "disk";
  } else {
    const double by_bytes = 1e-9 * cpu_bytes / machine.cpu.memory_gbps;
    speed.bound = cpu > 1.001 * by_bytes ? "operations" : "memory";
  }
  if (speed.ssd_bytes > 0 && machine.ssd_gbps <= 0) speed.seconds = 0;
  return speed;
}

// The lines, and the shares that speed depends on.
Shares lay_out(const ModelCosts& model, const Machine& machine, const PlacementWish& wish,
               Placement& out) {
  const WeightGroups& weights = model.weights;
  const bool has_gpu = machine.gpu_bytes > 0;
  Room gpu{machine.gpu_bytes};
  Room ram{machine.ram_bytes};
  const auto add = [&](const char* what, uint64_t bytes, bool on_gpu) -> const PlacementLine& {
    out.lines.push_back(lay(what, bytes, on_gpu && has_gpu, gpu, ram));
    return out.lines.back();
  };
  Shares shares;
  const PlacementLine dense = add("dense weights", weights.dense, true);
  shares.dense_on_gpu = share(dense.gpu, dense.bytes);
  shares.dense_resident = share(dense.gpu + dense.ram, dense.bytes);
  out.missing_bytes = dense.ssd;
  out.missing_bytes += add("step activations", wish.step_bytes, true).ssd;
  out.missing_bytes += add("pool", wish.pool_bytes, true).ssd;
  out.missing_bytes += add("snapshots", wish.snapshot_bytes, false).ssd;
  const PlacementLine experts = add("routed experts", weights.experts, true);
  shares.experts_on_gpu = share(experts.gpu, experts.bytes);
  shares.experts_resident = share(experts.gpu + experts.ram, experts.bytes);
  const PlacementLine engram = add("Engram rows", weights.engram, false);
  add("vision and drafts", weights.others, false);
  out.fits = out.missing_bytes == 0;
  out.experts_resident = shares.experts_resident;
  out.engram_resident = share(engram.ram, engram.bytes);
  out.disk_fits = machine.ssd_bytes >= weights.total();
  return shares;
}

Speed speed_on(const ModelCosts& model, const Machine& machine, const PlacementWish& wish) {
  Placement placed;
  const Shares shares = lay_out(model, machine, wish, placed);
  return speed_of(model, machine, wish.position, shares);
}

void advise(const ModelCosts& model, const Machine& machine, const PlacementWish& wish,
            Placement& out) {
  const auto with = [&](std::string change, auto&& alter) {
    Machine other = machine;
    alter(other);
    out.advice.push_back({std::move(change), speed_on(model, other, wish).tokens_per_second()});
  };
  with(fmt::format("twice the memory ({})", base::human_bytes(2 * machine.ram_bytes)),
       [](Machine& m) { m.ram_bytes *= 2; });
  with("memory twice as fast", [](Machine& m) { m.cpu.memory_gbps *= 2; });
  with("processors twice as fast", [](Machine& m) {
    m.cpu.bf16_gflops *= 2;
    m.cpu.fp8_gflops *= 2;
    m.cpu.fp4_gflops *= 2;
  });
  if (machine.ssd_gbps > 0) {
    with(fmt::format("a disk twice as fast ({:.3g} GB/s)", 2 * machine.ssd_gbps),
         [](Machine& m) { m.ssd_gbps *= 2; });
  }
  if (machine.gpu_bytes == 0) {
    with("a graphics card of 24 GiB", [](Machine& m) {
      m.gpu_bytes = 24ULL << 30;
      m.gpu = {900, 80'000, 300'000, 300'000};
    });
  }
  std::ranges::stable_sort(out.advice, std::greater(), &Advice::tokens_per_second);
}

}  // namespace

ModelCosts::ModelCosts(const arch::Config& of)
    : config(of), flops(of), weights(group_weights(of)), weight_lines(weight_traffic(of)) {}

Placement place(const ModelCosts& model, const Machine& machine, const PlacementWish& wish) {
  Placement out;
  Shares shares = lay_out(model, machine, wish, out);
  out.speed = speed_of(model, machine, wish.position, shares);
  Shares all = shares;
  all.experts_resident = 1;
  out.all_resident = speed_of(model, machine, wish.position, all);
  shares.experts_resident = 0;
  shares.experts_on_gpu = 0;
  out.none_resident = speed_of(model, machine, wish.position, shares);
  advise(model, machine, wish, out);
  return out;
}

double prefill_seconds(const ModelCosts& model, const Machine& machine, uint64_t tokens) {
  const WeightGroups& weights = model.weights;
  // The encoder's half of the weights for every step, the decoder's once at the end.
  const double half = static_cast<double>(weights.dense + weights.experts) *
                      model.flops.plan().decoder_begin / model.config.num_hidden_layers;
  const double steps = static_cast<double>(base::div_ceil(tokens, kPromptRows));
  const double bytes = half * steps + static_cast<double>(weights.dense + weights.experts) - half;
  const Ops ops = sum(model.flops.prompt(0, false, tokens, arch::Replay::kAuto));
  const Processor& processor = machine.gpu_bytes > 0 ? machine.gpu : machine.cpu;
  return processor.seconds(ops, bytes);
}

Transfer transfer(const ModelCosts& model, const Machine& machine, uint64_t tokens,
                  double link_gbps, double link_latency_us) {
  const arch::Config& config = model.config;
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const arch::SequenceBytes sequence = arch::sequence_bytes(config, layout);
  const auto at = [&](uint64_t n) {
    Transfer out;
    out.tokens = n;
    out.entry_bytes = layout.rows_bytes(n);
    out.window_bytes = sequence.windows + sequence.half_pairs;
    const auto bytes = static_cast<double>(out.entry_bytes + out.window_bytes);
    out.seconds = 1e-6 * link_latency_us + 1e-9 * bytes / link_gbps;
    out.recompute_seconds = prefill_seconds(model, machine, n);
    return out;
  };
  Transfer out = at(tokens);
  const auto faster = [&](uint64_t n) {
    const Transfer t = at(n);
    return t.seconds < t.recompute_seconds;
  };
  uint64_t low = 0;
  uint64_t high = config.max_position_embeddings;
  if (!faster(high)) return out;
  while (high - low > 1) {  // recomputing grows faster than moving: one crossing
    const uint64_t middle = low + (high - low) / 2;
    (faster(middle) ? high : low) = middle;
  }
  out.break_even_tokens = high;
  return out;
}

}  // namespace thimble::planner
