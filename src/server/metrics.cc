#include "server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "server/internal/json.h"
#include "text/utf8.h"

namespace thimble::server {
namespace {

constexpr uint64_t kBlockTokens = 128;

constexpr std::array<double, 12> kLongSeconds = {0.01, 0.05, 0.1, 0.25, 0.5, 1,
                                                 2.5,  5,    10,  30,   60,  300};
constexpr std::array<double, 10> kShortSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                                  0.05,  0.1,    0.25,  0.5,  1};

struct Series {
  const char* name;
  const char* also;  // vLLM's name; empty: it has none
  const char* type;
  const char* help;
};

double seconds(int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

std::string escaped_label(std::string_view value) {
  std::string out;
  for (const char c : text::to_valid_utf8(value)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

// Appends series, each under all its names.
class Page {
 public:
  explicit Page(std::string labels) : labels_(std::move(labels)) {}

  void value(const Series& series, double value) {
    each_name(series, [&](std::string_view name) {
      out_ += fmt::format("{}{{{}}} {}\n", name, labels_, value);
    });
  }
  void by_label(const Series& series, std::string_view label,
                const std::map<std::string, uint64_t>& values) {
    each_name(series, [&](std::string_view name) {
      for (const auto& [key, count] : values) {
        out_ +=
            fmt::format("{}{{{},{}=\"{}\"}} {}\n", name, labels_, label, escaped_label(key), count);
      }
    });
  }
  void histogram(const Series& series, const Histogram& values) {
    each_name(series, [&](std::string_view name) { out_ += values.text(name, labels_); });
  }
  std::string take() { return std::move(out_); }

 private:
  template <class Write>
  void each_name(const Series& series, const Write& write) {
    for (const std::string_view name : {series.name, series.also}) {
      if (name.empty()) continue;
      out_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, series.help, name, series.type);
      write(name);
    }
  }

  const std::string labels_;
  std::string out_;
};

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void write_load(Page& page, const Generator::Load& load) {
  const auto value = [&](const Series& series, uint64_t count) {
    page.value(series, static_cast<double>(count));
  };
  value({"thimble_requests_running", "vllm:num_requests_running", "gauge", "Requests in work."},
        load.running);
  value({"thimble_requests_waiting", "vllm:num_requests_waiting", "gauge", "Requests that wait."},
        load.waiting);
  value({"thimble_steps_total", "", "counter", "Forward passes."}, load.steps);
  value({"thimble_prompt_rows_total", "", "counter", "Prompt rows that ran, replayed ones too."},
        load.prompt_rows);
  value({"thimble_sampled_tokens_total", "", "counter", "Tokens sampled."}, load.sampled_tokens);
  value({"thimble_cache_hits_total", "", "counter", "Requests that began with cached tokens."},
        load.cache_hits);
  value({"thimble_cached_tokens_total", "vllm:prefix_cache_hits_total", "counter",
         "Prompt tokens that came from the cache."},
        load.cached_tokens);
  value({"thimble_replayed_tokens_total", "", "counter", "Cached tokens that ran again."},
        load.replayed_tokens);
  value({"thimble_cache_blocks", "", "gauge", "Blocks of the pool."}, load.cache.blocks_total);
  value({"thimble_cache_blocks_used", "", "gauge", "Blocks in use, or kept for later requests."},
        load.cache.blocks_used);
  value({"thimble_cache_block_bytes", "", "gauge", "Bytes of a block."}, load.cache.block_bytes);
  value({"thimble_snapshots", "", "gauge", "Window snapshots."}, load.cache.snapshots);
  value({"thimble_snapshot_bytes", "", "gauge", "Their bytes."}, load.cache.snapshot_bytes);
  page.value({"thimble_cache_usage_ratio", "vllm:kv_cache_usage_perc", "gauge",
              "Share of the pool's blocks that are in use or kept."},
             share(load.cache.blocks_used, load.cache.blocks_total));
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  ++counts_[static_cast<size_t>(at)];
  sum_ += value;
}

std::string Histogram::text(std::string_view name, std::string_view labels) const {
  std::string out;
  uint64_t count = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    count += counts_[i];
    const std::string bound = i < bounds_.size() ? fmt::format("{}", bounds_[i]) : "+Inf";
    out += fmt::format("{}_bucket{{{},le=\"{}\"}} {}\n", name, labels, bound, count);
  }
  out +=
      fmt::format("{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_, name, labels, count);
  return out;
}

RequestMetrics::RequestMetrics()
    : queue_s_(kLongSeconds),
      first_token_s_(kLongSeconds),
      token_s_(kShortSeconds),
      whole_s_(kLongSeconds) {}

void RequestMetrics::add(const AnswerSummary& summary) {
  const engine::GenerationEnd& end = summary.end;
  const std::lock_guard lock(mutex_);
  ++by_outcome_[summary.outcome];
  prompt_tokens_ += end.prompt_tokens;
  completion_tokens_ += end.completion_tokens;
  reasoning_tokens_ += summary.reasoning_tokens;
  if (end.completion_tokens == 0) return;
  queue_s_.add(seconds(end.queue_us));
  first_token_s_.add(seconds(end.queue_us + end.prefill_us));
  whole_s_.add(seconds(end.queue_us + end.prefill_us + end.decode_us));
  if (end.completion_tokens == 1) return;
  token_s_.add(seconds(end.decode_us) / static_cast<double>(end.completion_tokens - 1));
}

std::string RequestMetrics::text(const ModelInfo& model, const Generator::Load& load) const {
  Page page(fmt::format("model_name=\"{}\"", escaped_label(model.name)));
  write_load(page, load);
  const std::lock_guard lock(mutex_);
  page.by_label({"thimble_requests_total", "vllm:request_success_total", "counter",
                 "Requests that ended, by how."},
                "finished_reason", by_outcome_);
  page.value({"thimble_prompt_tokens_total", "vllm:prompt_tokens_total", "counter",
              "Prompt tokens of ended requests."},
             static_cast<double>(prompt_tokens_));
  page.value({"thimble_completion_tokens_total", "vllm:generation_tokens_total", "counter",
              "Tokens of their answers."},
             static_cast<double>(completion_tokens_));
  page.value({"thimble_reasoning_tokens_total", "", "counter", "Of those, reasoning."},
             static_cast<double>(reasoning_tokens_));
  page.histogram({"thimble_queue_seconds", "vllm:request_queue_time_seconds", "histogram",
                  "From a request's arrival to its first step."},
                 queue_s_);
  page.histogram({"thimble_first_token_seconds", "vllm:time_to_first_token_seconds", "histogram",
                  "From its arrival to its first token."},
                 first_token_s_);
  page.histogram({"thimble_token_seconds", "vllm:request_time_per_output_token_seconds",
                  "histogram", "Mean time of a request's later tokens."},
                 token_s_);
  page.histogram({"thimble_request_seconds", "vllm:e2e_request_latency_seconds", "histogram",
                  "From its arrival to its end."},
                 whole_s_);
  return page.take();
}

std::string cache_json(const Generator::Load& load) {
  const engine::CacheUse& use = load.cache;
  return to_text({{"blocks",
                   {{"total", use.blocks_total},
                    {"used", use.blocks_used},
                    {"free", use.blocks_total - use.blocks_used},
                    {"tokens", kBlockTokens},
                    {"bytes", use.block_bytes}}},
                  {"bytes_per_token", static_cast<double>(use.block_bytes) / kBlockTokens},
                  {"pool_bytes", use.blocks_total * use.block_bytes},
                  {"snapshots", {{"count", use.snapshots}, {"bytes", use.snapshot_bytes}}},
                  {"window_bytes_per_sequence", use.ring_bytes},
                  {"requests", {{"running", load.running}, {"waiting", load.waiting}}},
                  {"hits", load.cache_hits},
                  {"cached_tokens", load.cached_tokens},
                  {"replayed_tokens", load.replayed_tokens}});
}

}  // namespace thimble::server
