#include "planner/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

// A graphics card works on what it holds, the CPUs on the rest, one after the other: operations are
// shared like bytes.
struct Work {
  double seconds = 0;
  double by_bytes = 0;  // of which bytes alone would take
};
Work work(const Machine& machine, const Ops& ops, double bytes, double gpu_bytes) {
  const double gpu_share = gpu_bytes / bytes;
  const double cpu_bytes = bytes - gpu_bytes;
  Work out{.seconds = machine.cpu.seconds(ops * (1 - gpu_share), cpu_bytes),
           .by_bytes = 1e-9 * cpu_bytes / machine.cpu.memory_gbps};
  if (machine.gpu_bytes == 0) return out;
  out.seconds += machine.gpu.seconds(ops * gpu_share, gpu_bytes);
  out.by_bytes += 1e-9 * gpu_bytes / machine.gpu.memory_gbps;
  return out;
}

// The slowest of bytes, operations and disk.
Speed speed_of(const ModelCosts& model, const Machine& machine, uint64_t position,
               const Shares& shares) {
  const Traffic traffic{model.weight_lines, cache_traffic(model.config, position)};
  const double routed = traffic.routed_bytes();
  const double dense = traffic.weight_bytes() - routed + traffic.cache_bytes();
  const double gpu_bytes = dense * shares.dense_on_gpu + routed * shares.experts_on_gpu;

  Speed speed;
  speed.memory_bytes = dense + routed;
  speed.ssd_bytes = routed * (1 - shares.experts_resident) + dense * (1 - shares.dense_resident);
  const Work computing =
      work(machine, sum(model.flops.decode(position)), speed.memory_bytes, gpu_bytes);
  const double reading = machine.ssd_gbps > 0 ? 1e-9 * speed.ssd_bytes / machine.ssd_gbps : 0;
  speed.seconds = std::max(computing.seconds, reading);
  if (reading > computing.seconds) {
    speed.bound = "disk";
  } else {
    speed.bound = computing.seconds > 1.001 * computing.by_bytes ? "operations" : "memory";
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

// How often a prompt's steps read each weight.
struct StepReads {
  double dense = 0;
  double experts = 0;  // of them all: a step reads those that one of its rows is sent to
};
StepReads step_reads(const arch::Config& config, uint64_t tokens) {
  const double missed =
      1 - static_cast<double>(config.num_experts_per_tok) / config.n_routed_experts;  // by one row
  const auto read = [missed](uint64_t rows) {
    return 1 - std::pow(missed, static_cast<double>(rows));
  };
  return {.dense = static_cast<double>(base::div_ceil(tokens, kPromptRows)),
          .experts = static_cast<double>(tokens / kPromptRows) * read(kPromptRows) +
                     read(tokens % kPromptRows)};
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
    const Machine card = find_machine("desktop-gpu").value();
    with(fmt::format("a graphics card of {}", base::human_bytes(card.gpu_bytes)),
         [&card](Machine& m) {
           m.gpu_bytes = card.gpu_bytes;
           m.gpu = card.gpu;
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

Speed resident_speed(const ModelCosts& model, const Machine& machine, const PlacementWish& wish) {
  Placement placed;
  Shares shares = lay_out(model, machine, wish, placed);
  shares.experts_resident = 1;
  shares.dense_resident = 1;
  return speed_of(model, machine, wish.position, shares);
}

double prefill_seconds(const ModelCosts& model, const Machine& machine, const PlacementWish& wish,
                       uint64_t tokens) {
  Placement placed;
  const Shares shares = lay_out(model, machine, wish, placed);
  const arch::LayerPlan& plan = model.flops.plan();
  const Traffic traffic{model.weight_lines, {}};
  const double encoder = static_cast<double>(plan.decoder_begin) / model.config.num_hidden_layers;
  const StepReads below = step_reads(model.config, tokens);
  const StepReads above = step_reads(model.config, std::min(tokens, arch::decoder_cone(plan)));
  const double dense = (traffic.weight_bytes() - traffic.routed_bytes()) *
                       (encoder * below.dense + (1 - encoder) * above.dense);
  const double experts = static_cast<double>(model.weights.experts) *
                         (encoder * below.experts + (1 - encoder) * above.experts);
  const Ops ops = sum(model.flops.prompt(0, false, tokens, arch::Replay::kAuto));
  return work(machine, ops, dense + experts,
              dense * shares.dense_on_gpu + experts * shares.experts_on_gpu)
      .seconds;
}

Transfer transfer(const ModelCosts& model, const Machine& machine, const PlacementWish& wish,
                  uint64_t tokens, double link_gbps, double link_latency_us) {
  const arch::Config& config = model.config;
  const auto layout = arch::make_cache_layout(config, arch::CacheFormat::kPacked);
  const arch::SequenceBytes sequence = arch::sequence_bytes(config, layout);
  const auto at = [&](uint64_t n) {
    Transfer out;
    out.tokens = n;
    out.entry_bytes = layout.rows_bytes(n);
    const uint64_t rows = std::min<uint64_t>(n, config.sliding_window);
    out.window_bytes = sequence.windows / config.sliding_window * rows + sequence.half_pairs;
    const auto bytes = static_cast<double>(out.entry_bytes + out.window_bytes);
    out.seconds = 1e-6 * link_latency_us + 1e-9 * bytes / link_gbps;
    out.recompute_seconds = prefill_seconds(model, machine, wish, n);
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
  while (high - low > 1) {  // one crossing, but for the steps of a prompt
    const uint64_t middle = low + (high - low) / 2;
    (faster(middle) ? high : low) = middle;
  }
  out.break_even_tokens = high;
  return out;
}

}  // namespace thimble::planner
