#include "server/metrics.h"

#include <prometheus/histogram.h>
#include <prometheus/text_serializer.h>

#include <map>
#include <vector>

#include "server/internal/json.h"
#include "text/utf8.h"

namespace thimble::server {
namespace {

using prometheus::ClientMetric;
using prometheus::Histogram;
using prometheus::MetricType;

constexpr uint64_t kBlockTokens = 128;

const std::vector<double> kLongSeconds = {0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300};
const std::vector<double> kShortSeconds = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                           0.05,  0.1,    0.25,  0.5,  1};

double seconds(int64_t microseconds) { return static_cast<double>(microseconds) * 1e-6; }

struct Name {
  const char* ours;
  const char* vllms;  // empty: it has none
};

using Labels = std::vector<ClientMetric::Label>;

// Families, each under all its names and with the labels of the whole page.
class Page {
 public:
  explicit Page(const std::string& model) : labels_({{"model_name", text::to_valid_utf8(model)}}) {}

  void gauge(const Name& name, const char* help, double value) {
    ClientMetric metric;
    metric.gauge.value = value;
    add(name, help, MetricType::Gauge, {metric});
  }
  void counter(const Name& name, const char* help, double value) {
    ClientMetric metric;
    metric.counter.value = value;
    add(name, help, MetricType::Counter, {metric});
  }
  void counters(const Name& name, const char* help, const char* label,
                const std::map<std::string, uint64_t>& values) {
    std::vector<ClientMetric> metrics;
    for (const auto& [key, count] : values) {
      metrics.emplace_back();
      metrics.back().label = {{label, text::to_valid_utf8(key)}};
      metrics.back().counter.value = static_cast<double>(count);
    }
    add(name, help, MetricType::Counter, std::move(metrics));
  }
  void histogram(const Name& name, const char* help, const Histogram& values) {
    add(name, help, MetricType::Histogram, {values.Collect()});
  }
  std::string text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  void add(const Name& name, const char* help, MetricType type, std::vector<ClientMetric> metrics) {
    for (ClientMetric& metric : metrics) {
      metric.label.insert(metric.label.begin(), labels_.begin(), labels_.end());
    }
    for (const char* one : {name.ours, name.vllms}) {
      if (*one != '\0') families_.push_back({one, help, type, metrics});
    }
  }

  const Labels labels_;
  std::vector<prometheus::MetricFamily> families_;
};

double share(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

void write_load(Page& page, const Generator::Load& load) {
  const auto gauge = [&](const Name& name, const char* help, uint64_t count) {
    page.gauge(name, help, static_cast<double>(count));
  };
  const auto counter = [&](const Name& name, const char* help, uint64_t count) {
    page.counter(name, help, static_cast<double>(count));
  };
  gauge({"thimble_requests_running", "vllm:num_requests_running"}, "Requests in work.",
        load.running);
  gauge({"thimble_requests_waiting", "vllm:num_requests_waiting"}, "Requests that wait.",
        load.waiting);
  counter({"thimble_steps_total", ""}, "Forward passes.", load.steps);
  counter({"thimble_prompt_rows_total", ""}, "Prompt rows that ran, replayed ones too.",
          load.prompt_rows);
  counter({"thimble_sampled_tokens_total", ""}, "Tokens sampled.", load.sampled_tokens);
  counter({"thimble_pauses_total", "vllm:num_preemptions_total"},
          "Times that a running request gave way for want of room.", load.pauses);
  counter({"thimble_cache_hits_total", ""}, "Requests that began with cached tokens.",
          load.cache_hits);
  counter({"thimble_cached_tokens_total", "vllm:prefix_cache_hits_total"},
          "Prompt tokens that came from the cache.", load.cached_tokens);
  counter({"thimble_replayed_tokens_total", ""}, "Cached tokens that ran again.",
          load.replayed_tokens);
  const engine::ReadAheadCounts& ahead = load.read_ahead;
  counter({"thimble_expert_pages_total", ""},
          "Pages of chosen experts, where memory does not hold the weights.", ahead.experts.pages);
  counter({"thimble_engram_pages_total", ""}, "Pages of Engram rows that were looked up, likewise.",
          ahead.engram.pages);
  if (ahead.residency_known) {
    counter({"thimble_expert_pages_resident_total", ""},
            "Of the chosen experts' pages, in memory already.", ahead.experts.resident);
    counter({"thimble_engram_pages_resident_total", ""},
            "Of the looked-up rows' pages, in memory already.", ahead.engram.resident);
  }
  gauge({"thimble_cache_blocks", ""}, "Blocks of the pool.", load.cache.blocks_total);
  gauge({"thimble_cache_blocks_used", ""}, "Blocks in use, or kept for later requests.",
        load.cache.blocks_used);
  gauge({"thimble_cache_block_bytes", ""}, "Bytes of a block.", load.cache.block_bytes);
  gauge({"thimble_snapshots", ""}, "Window snapshots.", load.cache.snapshots);
  gauge({"thimble_snapshot_bytes", ""}, "Their bytes.", load.cache.snapshot_bytes);
  page.gauge({"thimble_cache_usage_ratio", "vllm:kv_cache_usage_perc"},
             "Share of the pool's blocks that are in use or kept.",
             share(load.cache.blocks_used, load.cache.blocks_total));
}

}  // namespace

// Of requests that ended.
struct RequestMetrics::Series {
  std::map<std::string, uint64_t> by_outcome;
  std::map<std::string, uint64_t> rejections;  // by code
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t reasoning_tokens = 0;
  Histogram queue_s{kLongSeconds};
  Histogram prefill_s{kLongSeconds};
  Histogram decode_s{kLongSeconds};
  Histogram first_token_s{kLongSeconds};
  Histogram gap_s{std::vector<double>(TokenGaps::kSeconds.begin(), TokenGaps::kSeconds.end())};
  Histogram token_s{kShortSeconds};  // each after the first
  Histogram whole_s{kLongSeconds};
};

RequestMetrics::RequestMetrics() : series_(std::make_unique<Series>()) {}
RequestMetrics::~RequestMetrics() = default;

void RequestMetrics::add(const AnswerSummary& summary) {
  const engine::GenerationEnd& end = summary.end;
  const std::lock_guard lock(mutex_);
  Series& s = *series_;
  ++s.by_outcome[summary.outcome];
  if (summary.outcome == "refused") ++s.rejections[summary.reason];
  s.prompt_tokens += end.prompt_tokens;
  s.completion_tokens += end.completion_tokens;
  s.reasoning_tokens += summary.reasoning_tokens;
  if (end.completion_tokens == 0) return;
  s.queue_s.Observe(seconds(end.queue_us));
  s.prefill_s.Observe(seconds(end.prefill_us));
  s.decode_s.Observe(seconds(end.decode_us));
  s.gap_s.ObserveMultiple({summary.gaps.counts.begin(), summary.gaps.counts.end()},
                          summary.gaps.seconds);
  s.first_token_s.Observe(seconds(end.queue_us + end.prefill_us));
  s.whole_s.Observe(seconds(end.queue_us + end.prefill_us + end.decode_us));
  if (end.completion_tokens == 1) return;
  s.token_s.Observe(seconds(end.decode_us) / static_cast<double>(end.completion_tokens - 1));
}

std::string RequestMetrics::text(const ModelInfo& model, const Generator::Load& load) const {
  Page page(model.name);
  write_load(page, load);
  const std::lock_guard lock(mutex_);
  const Series& s = *series_;
  page.counters({"thimble_requests_total", ""}, "Requests that ended, by how.", "finished_reason",
                s.by_outcome);
  std::map<std::string, uint64_t> whole = s.by_outcome;
  for (const char* other : {"gone", "refused", "error"}) whole.erase(other);
  page.counters({"vllm:request_success_total", ""}, "Those with a whole answer.", "finished_reason",
                whole);
  page.counters({"thimble_rejections_total", "vllm:admission_rejections_total"},
                "Those that were not accepted.", "reason", s.rejections);
  page.counter({"thimble_prompt_tokens_total", "vllm:prompt_tokens_total"},
               "Prompt tokens of ended requests.", static_cast<double>(s.prompt_tokens));
  page.counter({"vllm:prefix_cache_queries_total", ""},
               "The same: each is looked for in the cache.", static_cast<double>(s.prompt_tokens));
  page.counter({"thimble_completion_tokens_total", "vllm:generation_tokens_total"},
               "Tokens of their answers.", static_cast<double>(s.completion_tokens));
  page.counter({"thimble_reasoning_tokens_total", ""}, "Of those, reasoning.",
               static_cast<double>(s.reasoning_tokens));
  page.histogram({"thimble_queue_seconds", "vllm:request_queue_time_seconds"},
                 "From a request's arrival to its first step.", s.queue_s);
  page.histogram({"thimble_first_token_seconds", "vllm:time_to_first_token_seconds"},
                 "From its arrival to its first token.", s.first_token_s);
  page.histogram({"thimble_prefill_seconds", "vllm:request_prefill_time_seconds"},
                 "From a request's first step to its first token.", s.prefill_s);
  page.histogram({"thimble_decode_seconds", "vllm:request_decode_time_seconds"},
                 "From its first token to its end.", s.decode_s);
  page.histogram({"thimble_token_gap_seconds", "vllm:inter_token_latency_seconds"},
                 "From each token to the next of its answer.", s.gap_s);
  page.histogram({"thimble_token_seconds", "vllm:request_time_per_output_token_seconds"},
                 "Mean time of a request's later tokens.", s.token_s);
  page.histogram({"thimble_request_seconds", "vllm:e2e_request_latency_seconds"},
                 "From its arrival to its end.", s.whole_s);
  return page.text();
}

std::string cache_json(const Generator::Load& load) {
  const engine::CacheUse& use = load.cache;
  return to_text(
      {{"blocks",
        {{"total", use.blocks_total},
         {"used", use.blocks_used},
         {"live", use.blocks_live},
         {"kept", use.blocks_used - use.blocks_live},
         {"free", use.blocks_total - use.blocks_used},
         {"indexed", use.blocks_indexed},
         {"evicted", use.blocks_evicted},
         {"tokens", kBlockTokens},
         {"bytes", use.block_bytes}}},
       {"bytes_per_token", static_cast<double>(use.block_bytes) / kBlockTokens},
       {"pool_bytes", use.blocks_total * use.block_bytes},
       {"snapshots",
        {{"count", use.snapshots},
         {"used", use.snapshots_used},
         {"bytes", use.snapshot_bytes},
         {"bytes_max", use.snapshot_bytes_max}}},
       {"window_bytes_per_sequence", use.ring_bytes},
       {"requests",
        {{"running", load.running}, {"waiting", load.waiting}, {"finished", load.finished}}},
       {"hits", load.cache_hits},
       {"cached_tokens", load.cached_tokens},
       {"replayed_tokens", load.replayed_tokens}});
}

}  // namespace thimble::server
