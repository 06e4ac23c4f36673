// Aim: the page of metrics is Prometheus' text format, counts what happened and has vLLM's names
// too; the cache's ledger adds up. Method: a few ends of requests, lines compared; every line read
// by the format's grammar.
#include "server/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <sstream>

#include "text/byte_tokenizer.h"

namespace thimble::server {
namespace {

using testing::HasSubstr;
using testing::Not;

bool is_name(std::string_view name) {
  return !name.empty() && name[0] > '9' && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
  });
}

// # HELP name text, # TYPE name type
bool is_comment(std::string_view line) {
  if (!line.starts_with("# HELP ") && !line.starts_with("# TYPE ")) return false;
  line.remove_prefix(7);
  const size_t end = line.find(' ');
  return end != line.npos && is_name(line.substr(0, end)) && end + 1 < line.size();
}

// name{label="value",...} number
bool is_sample(const std::string& line) {
  const size_t open = line.find('{');
  const size_t close = line.rfind("} ");
  if (open == line.npos || close == line.npos || !is_name(line.substr(0, open))) return false;
  double value = 0;
  const char* const end = line.data() + line.size();
  const bool number = std::from_chars(line.data() + close + 2, end, value).ptr == end;
  return number && line.substr(open, close - open).starts_with("{model_name=\"a\\\"b\"");
}

class MetricsTest : public testing::Test {
 protected:
  std::string text() const { return metrics_.text(model_, load_); }

  text::Tokenizer tokenizer_ = *text::Tokenizer::parse(text::make_byte_tokenizer_json());
  ModelInfo model_ = make_model_info("a\"b", 20, tokenizer_);
  RequestMetrics metrics_;
  Generator::Load load_;
};

TEST_F(MetricsTest, CountsEndsByHow) {
  AnswerSummary summary;
  summary.outcome = "stop";
  summary.reasoning_tokens = 2;
  summary.end.prompt_tokens = 10;
  summary.end.completion_tokens = 5;
  summary.end.queue_us = 20'000;
  summary.end.prefill_us = 30'000;
  summary.end.decode_us = 8'000;
  metrics_.add(summary);
  summary.outcome = "gone";
  summary.end.completion_tokens = 0;
  metrics_.add(summary);
  summary = {};
  summary.outcome = "refused";
  summary.reason = "queue_full";
  metrics_.add(summary);
  const std::string page = text();
  const std::string label = "model_name=\"a\\\"b\"";
  EXPECT_THAT(page,
              HasSubstr("thimble_requests_total{" + label + ",finished_reason=\"stop\"} 1\n"));
  EXPECT_THAT(page,
              HasSubstr("thimble_requests_total{" + label + ",finished_reason=\"gone\"} 1\n"));
  const std::string success = "vllm:request_success_total{" + label + ",finished_reason=";
  EXPECT_THAT(page, HasSubstr(success + "\"stop\"} 1\n"));
  for (const char* other : {"gone", "refused"}) {
    EXPECT_THAT(page, testing::Not(HasSubstr(success + '"' + other))) << "no success";
  }
  EXPECT_THAT(
      page, HasSubstr("vllm:admission_rejections_total{" + label + ",reason=\"queue_full\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("vllm:prefix_cache_queries_total{" + label + "} 20\n"));
  EXPECT_THAT(page, HasSubstr("vllm:request_prefill_time_seconds_sum{" + label + "} 0.03\n"));
  EXPECT_THAT(page, HasSubstr("vllm:request_decode_time_seconds_sum{" + label + "} 0.008\n"));
  EXPECT_THAT(page, HasSubstr("thimble_prompt_tokens_total{" + label + "} 20\n"));
  EXPECT_THAT(page, HasSubstr("thimble_reasoning_tokens_total{" + label + "} 4\n"));
  EXPECT_THAT(page,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{" + label + ",le=\"0.01\"} 0\n"));
  EXPECT_THAT(page,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{" + label + ",le=\"0.05\"} 1\n"));
  EXPECT_THAT(page,
              HasSubstr("vllm:time_to_first_token_seconds_bucket{" + label + ",le=\"+Inf\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("thimble_token_seconds_sum{" + label + "} 0.002\n"));
  EXPECT_THAT(page, HasSubstr("thimble_request_seconds_count{" + label + "} 1\n"));
}

// 1 ms, 2 ms and an hour: a count each in the place it belongs.
TEST_F(MetricsTest, CountsTheTimesBetweenTokens) {
  AnswerSummary summary;
  summary.outcome = "stop";
  summary.end.completion_tokens = 4;
  TokenGaps others;
  summary.gaps.add(1000);
  others.add(2000);
  others.add(3'600'000'000);
  summary.gaps.add(others);
  metrics_.add(summary);
  const std::string series = "vllm:inter_token_latency_seconds_";
  const std::string label = "{model_name=\"a\\\"b\"";
  EXPECT_THAT(text(), HasSubstr(series + "bucket" + label + ",le=\"0.001\"} 1\n"));
  EXPECT_THAT(text(), HasSubstr(series + "bucket" + label + ",le=\"0.0025\"} 2\n"));
  EXPECT_THAT(text(), HasSubstr(series + "bucket" + label + ",le=\"10\"} 2\n"));
  EXPECT_THAT(text(), HasSubstr(series + "bucket" + label + ",le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text(), HasSubstr(series + "sum" + label + "} 3600.003\n"));
}

TEST_F(MetricsTest, ShowsTheEnginesLoad) {
  load_.pauses = 9;
  EXPECT_THAT(text(), HasSubstr("vllm:num_preemptions_total{model_name=\"a\\\"b\"} 9\n"));
  load_.running = 3;
  load_.cached_tokens = 77;
  load_.cache.blocks_total = 8;
  load_.cache.blocks_used = 2;
  EXPECT_THAT(text(), HasSubstr("vllm:num_requests_running{model_name=\"a\\\"b\"} 3\n"));
  EXPECT_THAT(text(), HasSubstr("vllm:prefix_cache_hits_total{model_name=\"a\\\"b\"} 77\n"));
  EXPECT_THAT(text(), HasSubstr("vllm:kv_cache_usage_perc{model_name=\"a\\\"b\"} 0.25\n"));
}

TEST_F(MetricsTest, PagesInMemoryOnlyWhereTheSystemTells) {
  load_.read_ahead = {.experts = {.pages = 40, .resident = 30},
                      .engram = {.pages = 6, .resident = 5},
                      .residency_known = true};
  EXPECT_THAT(text(), HasSubstr("thimble_expert_pages_total{model_name=\"a\\\"b\"} 40\n"));
  EXPECT_THAT(text(), HasSubstr("thimble_engram_pages_total{model_name=\"a\\\"b\"} 6\n"));
  EXPECT_THAT(text(), HasSubstr("thimble_expert_pages_resident_total{model_name=\"a\\\"b\"} 30\n"));
  EXPECT_THAT(text(), HasSubstr("thimble_engram_pages_resident_total{model_name=\"a\\\"b\"} 5\n"));
  load_.read_ahead.residency_known = false;
  EXPECT_THAT(text(), HasSubstr("thimble_expert_pages_total"));
  EXPECT_THAT(text(), Not(HasSubstr("resident_total")));
}

TEST_F(MetricsTest, EveryLineIsOfTheFormat) {
  std::istringstream lines(text());
  int count = 0;
  for (std::string one; std::getline(lines, one); ++count) {
    EXPECT_TRUE(is_comment(one) || is_sample(one)) << one;
  }
  EXPECT_GT(count, 100);
}

TEST_F(MetricsTest, LedgerAddsUp) {
  load_.cache = {.blocks_total = 10, .blocks_used = 4, .blocks_live = 3, .block_bytes = 128 * 890};
  load_.replayed_tokens = 5;
  const auto json = nlohmann::json::parse(cache_json(load_));
  EXPECT_EQ(json["blocks"]["free"], 6);
  EXPECT_EQ(json["blocks"]["live"], 3);
  EXPECT_EQ(json["blocks"]["kept"], 1);
  EXPECT_EQ(json["bytes_per_token"], 890.0);
  EXPECT_EQ(json["pool_bytes"], 10 * 128 * 890);
  EXPECT_EQ(json["replayed_tokens"], 5);
  const auto empty = nlohmann::json::parse(cache_json({}));
  EXPECT_EQ(empty["blocks"]["total"], 0);
}

}  // namespace
}  // namespace thimble::server
