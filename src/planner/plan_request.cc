#include "planner/plan_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/parse_bytes.h"

namespace thimble::planner {
namespace {

constexpr uint64_t kCountMax = 1ULL << 40;
constexpr double kRealMin = 1e-9;  // of a rate: quotients stay finite
constexpr double kRealMax = 1e12;
constexpr uint64_t kBytesMax = 1ULL << 60;

tl::unexpected<Error> refuse(std::string_view text, std::string_view expected) {
  return base::fail(ErrorCode::kInvalidArgument, "\"{}\" is no use here, expected {}",
                    text.substr(0, 64), expected);
}

Result<uint64_t> parse_count(std::string_view text, uint64_t low) {
  uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < low || value > kCountMax) {
    return refuse(text, fmt::format("a whole number of {} to 2^40", low));
  }
  return value;
}

Result<double> parse_real(std::string_view text, bool zero) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool inside = zero ? value >= 0 : value >= kRealMin;
  if (error != std::errc() || stop != end || !inside || !(value <= kRealMax)) {
    return refuse(text, zero ? "a number of 0 to 1e12" : "a number above 0, of 1e-9 to 1e12");
  }
  return value;
}

Result<uint64_t> parse_size(std::string_view text) {
  const uint64_t bytes = THIMBLE_TRY(base::parse_bytes(text));
  if (bytes > kBytesMax) return refuse(text, "at most 2^60 bytes");
  return bytes;
}

std::string bytes_text(uint64_t bytes) {
  if (bytes > 0 && bytes % (1ULL << 30) == 0) return fmt::format("{}GiB", bytes >> 30);
  if (bytes > 0 && bytes % 1'000'000'000 == 0) return fmt::format("{}GB", bytes / 1'000'000'000);
  return fmt::format("{}", bytes);
}

// Setters and getters of a member, by kind.
template <uint64_t PlanRequest::*Member, uint64_t kLow>
Result<void> set_count(PlanRequest& request, std::string_view text) {
  request.*Member = THIMBLE_TRY(parse_count(text, kLow));
  return {};
}
template <uint64_t PlanRequest::*Member>
std::string get_count(const PlanRequest& request) {
  return fmt::format("{}", request.*Member);
}
template <uint64_t PlanRequest::*Member>
Result<void> set_bytes(PlanRequest& request, std::string_view text) {
  request.*Member = THIMBLE_TRY(parse_size(text));
  return {};
}
template <uint64_t PlanRequest::*Member>
std::string get_bytes(const PlanRequest& request) {
  return bytes_text(request.*Member);
}
template <double PlanRequest::*Member, bool kZero>
Result<void> set_real(PlanRequest& request, std::string_view text) {
  request.*Member = THIMBLE_TRY(parse_real(text, kZero));
  return {};
}
template <double PlanRequest::*Member>
std::string get_real(const PlanRequest& request) {
  return fmt::format("{:g}", request.*Member);
}
template <std::string PlanRequest::*Member>
Result<void> set_text(PlanRequest& request, std::string_view text) {
  request.*Member = std::string(text);
  return {};
}
template <std::string PlanRequest::*Member>
std::string get_text(const PlanRequest& request) {
  return request.*Member;
}
// Of one's own machine.
template <uint64_t Machine::*Member>
Result<void> set_own_bytes(PlanRequest& request, std::string_view text) {
  request.own.*Member = THIMBLE_TRY(parse_size(text));
  if (request.own.*Member == 0) return refuse(text, "some bytes");
  return {};
}
template <uint64_t Machine::*Member>
std::string get_own_bytes(const PlanRequest& request) {
  return request.own.*Member == 0 ? "" : bytes_text(request.own.*Member);
}
template <Processor Machine::*Which, double Processor::*Member>
Result<void> set_own_rate(PlanRequest& request, std::string_view text) {
  request.own.*Which.*Member = THIMBLE_TRY(parse_real(text, false));
  return {};
}
template <Processor Machine::*Which, double Processor::*Member>
std::string get_own_rate(const PlanRequest& request) {
  const double value = request.own.*Which.*Member;
  return value == 0 ? "" : fmt::format("{:g}", value);
}
Result<void> set_ssd_rate(PlanRequest& request, std::string_view text) {
  request.own.ssd_gbps = THIMBLE_TRY(parse_real(text, false));
  return {};
}
std::string get_ssd_rate(const PlanRequest& request) {
  return request.own.ssd_gbps == 0 ? "" : fmt::format("{:g}", request.own.ssd_gbps);
}
Result<void> set_gpu_bytes(PlanRequest& request, std::string_view text) {
  request.gpu_bytes = THIMBLE_TRY(parse_size(text));
  return {};
}
std::string get_gpu_bytes(const PlanRequest& request) {
  return request.gpu_bytes ? bytes_text(*request.gpu_bytes) : "";
}

using R = PlanRequest;
using M = Machine;
using P = Processor;
constexpr double kGB = 1e9;

constexpr PlanField kFields[] = {
    {"context", "tokens of one context; 0: 10^6, or the model's maximum", FieldKind::kCount, 1024,
     1 << 20, set_count<&R::context_tokens, 0>, get_count<&R::context_tokens>},
    {"memory", "for contexts, as 40GiB or 40GB", FieldKind::kBytes, 1.073741824 * kGB, 1100 * kGB,
     set_bytes<&R::memory_bytes>, get_bytes<&R::memory_bytes>},
    {"contexts", "that the machine holds at once", FieldKind::kCount, 1, 1024,
     set_count<&R::contexts, 1>, get_count<&R::contexts>},
    {"machine", "what runs it: a preset (--list-machines), changed by the sizes and rates below",
     FieldKind::kText, 0, 0, set_text<&R::machine>, get_text<&R::machine>},
    {"ram", "the machine's memory, as 128GiB", FieldKind::kBytes, 8.589934592 * kGB, 2200 * kGB,
     set_own_bytes<&M::ram_bytes>, get_own_bytes<&M::ram_bytes>},
    {"dram-gbps", "1e9 bytes a second out of memory", FieldKind::kReal, 10, 2000,
     set_own_rate<&M::cpu, &P::memory_gbps>, get_own_rate<&M::cpu, &P::memory_gbps>},
    {"gflops-bf16", "1e9 operations a second on BF16 (or float) operands", FieldKind::kReal, 100,
     1e5, set_own_rate<&M::cpu, &P::bf16_gflops>, get_own_rate<&M::cpu, &P::bf16_gflops>},
    {"gflops-fp8", "the same on FP8 (or int8)", FieldKind::kReal, 0, 0,
     set_own_rate<&M::cpu, &P::fp8_gflops>, get_own_rate<&M::cpu, &P::fp8_gflops>},
    {"gflops-fp4", "the same on FP4", FieldKind::kReal, 0, 0, set_own_rate<&M::cpu, &P::fp4_gflops>,
     get_own_rate<&M::cpu, &P::fp4_gflops>},
    {"ssd", "the disk the checkpoint lies on, as 4TB", FieldKind::kBytes, 0, 0,
     set_own_bytes<&M::ssd_bytes>, get_own_bytes<&M::ssd_bytes>},
    {"ssd-gbps", "1e9 bytes a second from it", FieldKind::kReal, 0.5, 50, set_ssd_rate,
     get_ssd_rate},
    {"gpu-memory", "of a graphics card; 0: none", FieldKind::kBytes, 0, 0, set_gpu_bytes,
     get_gpu_bytes},
    {"gpu-gbps", "1e9 bytes a second out of it", FieldKind::kReal, 0, 0,
     set_own_rate<&M::gpu, &P::memory_gbps>, get_own_rate<&M::gpu, &P::memory_gbps>},
    {"gpu-gflops-bf16", "1e9 BF16 operations a second on it", FieldKind::kReal, 0, 0,
     set_own_rate<&M::gpu, &P::bf16_gflops>, get_own_rate<&M::gpu, &P::bf16_gflops>},
    {"gpu-gflops-fp8", "the same on FP8", FieldKind::kReal, 0, 0,
     set_own_rate<&M::gpu, &P::fp8_gflops>, get_own_rate<&M::gpu, &P::fp8_gflops>},
    {"gpu-gflops-fp4", "the same on FP4", FieldKind::kReal, 0, 0,
     set_own_rate<&M::gpu, &P::fp4_gflops>, get_own_rate<&M::gpu, &P::fp4_gflops>},
    {"hit", "cached tokens, for replay", FieldKind::kCount, 128, 1 << 20,
     set_count<&R::hit_tokens, 0>, get_count<&R::hit_tokens>},
    {"new", "tokens after them", FieldKind::kCount, 1, 1 << 16, set_count<&R::new_tokens, 1>,
     get_count<&R::new_tokens>},
    {"tier", "disk of the tier that keeps entries, as 4TB", FieldKind::kBytes, 100 * kGB,
     100'000 * kGB, set_bytes<&R::tier_bytes>, get_bytes<&R::tier_bytes>},
    {"write-rate", "new tokens a second that are written to it", FieldKind::kReal, 10, 1e6,
     set_real<&R::write_tokens_per_second, false>, get_real<&R::write_tokens_per_second>},
    {"snapshot-rate", "window snapshots a minute", FieldKind::kReal, 1, 1e5,
     set_real<&R::snapshots_per_minute, true>, get_real<&R::snapshots_per_minute>},
    {"ttl", "minutes a snapshot is kept", FieldKind::kReal, 1, 1440,
     set_real<&R::ttl_minutes, true>, get_real<&R::ttl_minutes>},
    {"link-gbps", "1e9 bytes a second from prefill to decode", FieldKind::kReal, 0.1, 200,
     set_real<&R::link_gbps, false>, get_real<&R::link_gbps>},
    {"link-latency", "microseconds of that link", FieldKind::kReal, 1, 1e5,
     set_real<&R::link_latency_us, true>, get_real<&R::link_latency_us>},
    {"modes", "another mix of layers, as 2xS,F2,5xU,F1,3xU,R", FieldKind::kText, 0, 0,
     set_text<&R::modes>, get_text<&R::modes>},
    {"latent", "values of a main row; 0: the model's", FieldKind::kCount, 64, 4096,
     set_count<&R::latent, 0>, get_count<&R::latent>},
};

}  // namespace

std::span<const PlanField> plan_fields() { return kFields; }

Result<void> set_field(PlanRequest& request, std::string_view name, std::string_view text) {
  const auto found =
      std::ranges::find_if(kFields, [name](const PlanField& field) { return field.name == name; });
  if (found == std::end(kFields)) {
    return base::fail(ErrorCode::kNotFound, "a plan has no \"{}\"", name.substr(0, 64));
  }
  return base::in(found->set(request, text), name);
}

}  // namespace thimble::planner
