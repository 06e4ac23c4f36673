#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/thimble/bench/commands.h"
#include "apps/thimble/bench/percentile.h"
#include "apps/thimble/bench/waiter.h"
#include "apps/thimble/mode_flag.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"
#include "engine/engine.h"
#include "net/http_client.h"
#include "server/api_server.h"

namespace thimble::app {
namespace {

struct ServeFlags {
  Path model;
  uint64_t prompt_tokens = 32;
  uint32_t tokens = 256;
  uint32_t rounds = 9;
  uint32_t threads = 0;
  uint64_t long_prompt = 0;
  uint32_t open = 0;
  std::string mode = "fast";
  bool json = false;
};

using Prompts = std::vector<std::vector<int32_t>>;

constexpr uint32_t kBatches[] = {1, 8, 32};
// Of both sides: choosing a token is a good part of a small model's step.
constexpr float kTemperature = 1.0F;
constexpr float kTopP = 0.95F;
constexpr uint32_t kBesideTokens = 16;  // times --tokens: of the stream beside a long prompt

// Both sides sample the same tokens: how long that takes depends on them.
uint64_t seed_of(const std::vector<int32_t>& prompt) { return static_cast<uint64_t>(prompt[0]); }

// Ids of random words, so that none is a control token.
std::vector<int32_t> random_prompt(const text::Tokenizer& tokenizer, uint64_t length,
                                   uint64_t seed) {
  constexpr uint64_t kCharsPerToken = 8;  // more than any tokenizer makes of random letters
  base::SplitMix64 random(seed);
  std::string text;
  for (uint64_t i = 0; i < kCharsPerToken * length; ++i) {
    text += i % 5 == 4 ? ' ' : static_cast<char>('a' + random.below(26));
  }
  std::vector<int32_t> ids = tokenizer.encode(text, text::AddedTokens::kPlain);
  CHECK(ids.size() >= length);
  ids.resize(length);
  return ids;
}

// An engine, and a server around it in the same process.
class Stand {
 public:
  static Result<std::unique_ptr<Stand>> open(const ServeFlags& flags) {
    engine::EngineOptions options;
    options.model_dir = flags.model;
    options.threads = flags.threads;
    options.mode = mode_of(flags.mode);
    options.context_tokens =
        std::max(flags.prompt_tokens + kBesideTokens * flags.tokens, flags.long_prompt) + 1024;
    options.queue_requests_max = std::max<uint32_t>(flags.open + 64, options.queue_requests_max);
    auto engine = THIMBLE_TRY(engine::Engine::open(options));
    if (engine->tokenizer() == nullptr) {
      return base::fail(ErrorCode::kNotFound, "{} has no tokenizer.json", flags.model.string());
    }
    server::ApiServerOptions serving;
    serving.http.port = 0;
    serving.http.limits.connections = flags.open + 64;
    auto server = THIMBLE_TRY(server::ApiServer::listen(std::move(serving)));
    return std::make_unique<Stand>(std::move(engine), std::move(server));
  }
  Stand(std::unique_ptr<engine::Engine> engine, std::unique_ptr<server::ApiServer> server)
      : engine_(std::move(engine)), server_(std::move(server)) {
    server::ModelInfo info = server::make_model_info(
        engine_->model_name(), engine_->context_tokens(), *engine_->tokenizer());
    info.vocab_size = engine_->config().vocab_size;
    server::RouteOptions routes;
    routes.planned = {engine_->model_name(), planner::PlanSubject(engine_->config())};
    generator_ = server::make_engine_generator(*engine_, std::move(info));
    server_->start(*generator_, std::move(routes));
    url_ = *net::parse_http_url(server_->url());
  }
  ~Stand() { server_->stop(1000); }

  engine::Engine& engine() { return *engine_; }

  // Streamed completions, all on this thread; `on_event`, which may be empty, at every event that
  // comes. The first that was not answered in full is the result.
  Result<void> stream(const Prompts& prompts, uint32_t tokens,
                      const std::function<void()>& on_event = {}) const {
    std::vector<net::HttpCall> calls;
    std::vector<std::string> tails(prompts.size());
    for (size_t i = 0; i < prompts.size(); ++i) {
      calls.push_back(call(prompts[i], tokens));
      calls.back().on_body = [&on_event, &tail = tails[i]](std::string_view part) {
        note(part, tail, on_event);
      };
    }
    const auto answers = net::http_calls(url_, calls);
    for (size_t i = 0; i < prompts.size(); ++i) {
      const auto answer = THIMBLE_TRY(Result<net::HttpResponse>(answers[i]));
      if (answer.status == 200 && tails[i].ends_with("data: [DONE]\n\n")) continue;
      return base::fail(ErrorCode::kInternal, "status {}: {}{}", answer.status,
                        answer.body.substr(0, 300), tails[i]);
    }
    return {};
  }

 private:
  // A part of a stream: its events are told, its end is kept.
  static void note(std::string_view part, std::string& tail,
                   const std::function<void()>& on_event) {
    constexpr std::string_view kEvent = "data: {";
    constexpr size_t kTailBytes = 300;
    tail += part.substr(part.size() - std::min(part.size(), kTailBytes));
    if (tail.size() > kTailBytes) tail.erase(0, tail.size() - kTailBytes);
    if (!on_event) return;
    size_t at = part.find(kEvent);
    for (; at != std::string_view::npos; at = part.find(kEvent, at + 1)) on_event();
  }

  static net::HttpCall call(const std::vector<int32_t>& prompt, uint32_t tokens) {
    net::HttpCall out;
    out.method = "POST";
    out.target = "/v1/completions";
    out.headers = {{"Content-Type", "application/json"}};
    out.body = nlohmann::json({{"prompt", prompt},
                               {"max_tokens", tokens},
                               {"seed", seed_of(prompt)},
                               {"temperature", kTemperature},
                               {"top_p", kTopP},
                               {"stream", true},
                               {"ignore_eos", true},
                               {"cache_prompt", false}})
                   .dump();
    out.answer_bytes = 1 << 30;
    return out;
  }

  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<server::ApiServer> server_;
  std::unique_ptr<server::Generator> generator_;
  net::HttpUrl url_;
};

double rate(uint64_t tokens, int64_t begun) {
  return 1e6 * static_cast<double>(tokens) / static_cast<double>(base::monotonic_us() - begun);
}

// Tokens a second of so many requests at once, straight to the engine.
Result<double> run_engine(Stand& stand, const Prompts& prompts, uint32_t tokens) {
  const int64_t begun = base::monotonic_us();
  std::vector<std::shared_ptr<Waiter>> waiters;
  for (const auto& prompt : prompts) {
    engine::GenerationRequest request;
    request.prompt = prompt;
    request.max_tokens = tokens;
    request.sampling.seed = seed_of(prompt);
    request.sampling.temperature = kTemperature;
    request.sampling.top_p = kTopP;
    request.reuse = false;
    waiters.push_back(std::make_shared<Waiter>());
    THIMBLE_TRY(stand.engine().submit(std::move(request), waiters.back()));
  }
  for (const auto& waiter : waiters) {
    const engine::GenerationEnd end = waiter->wait();
    if (end.error) return tl::unexpected(*end.error);
  }
  return rate(prompts.size() * tokens, begun);
}

// The same as streams.
Result<double> run_clients(Stand& stand, const Prompts& prompts, uint32_t tokens) {
  const int64_t begun = base::monotonic_us();
  THIMBLE_TRY(stand.stream(prompts, tokens));
  return rate(prompts.size() * tokens, begun);
}

Prompts make_prompts(Stand& stand, uint64_t count, uint64_t length) {
  Prompts out;
  for (uint64_t i = 0; i < count; ++i) {
    out.push_back(random_prompt(*stand.engine().tokenizer(), length, i));
  }
  return out;
}

void print(const ServeFlags& flags, const nlohmann::ordered_json& line, const std::string& text) {
  print_out(flags.json ? line.dump() + "\n" : text);
}

// Engine and clients by turns, now the one first and now the other. Each has its best round; the
// ratio is the middle one of the rounds', whose sides the same moment holds.
Result<void> measure_batch(Stand& stand, const ServeFlags& flags, uint32_t batch) {
  const Prompts prompts = make_prompts(stand, batch, flags.prompt_tokens);
  double engine = 0;
  double clients = 0;
  std::vector<double> ratios;
  for (uint32_t round = 0; round < flags.rounds; ++round) {
    double rates[2] = {};
    for (uint32_t turn = 0; turn < 2; ++turn) {
      const bool served = (round + turn) % 2 == 1;
      const auto run = served ? run_clients : run_engine;
      rates[served] = THIMBLE_TRY(run(stand, prompts, flags.tokens));
    }
    engine = std::max(engine, rates[0]);
    clients = std::max(clients, rates[1]);
    ratios.push_back(rates[1] / rates[0]);
  }
  const double ratio = median(std::move(ratios));
  print(flags,
        {{"measure", "throughput"},
         {"batch", batch},
         {"engine_tokens_per_second", engine},
         {"server_tokens_per_second", clients},
         {"ratio", ratio}},
        fmt::format("batch {:<4} engine {:>9.1f} tokens/s, server {:>9.1f}: {:.3f}\n", batch,
                    engine, clients, ratio));
  return {};
}

// Gaps between the events of one stream, until `over`, in milliseconds.
Result<std::vector<double>> gaps_of(const Stand& stand, const Prompts& prompt, uint32_t tokens,
                                    const std::atomic<bool>& over) {
  std::vector<double> gaps;
  int64_t last = 0;
  THIMBLE_TRY(stand.stream(prompt, tokens, [&] {
    const int64_t now = base::monotonic_us();
    if (last != 0 && !over) gaps.push_back(1e-3 * static_cast<double>(now - last));
    last = now;
  }));
  return gaps;
}

Result<void> measure_latency(Stand& stand, const ServeFlags& flags) {
  const Prompts prompts = make_prompts(stand, 1, flags.prompt_tokens);
  const auto large = random_prompt(*stand.engine().tokenizer(), flags.long_prompt, 99);
  std::atomic<bool> over = false;
  const auto alone = THIMBLE_TRY(gaps_of(stand, prompts, flags.tokens, over));
  // The stream outlives the reading: what it says afterwards does not count.
  Result<void> read;
  std::jthread reader([&] {
    read = stand.stream({large}, 1);
    over = true;
  });
  const uint32_t enough = flags.tokens * kBesideTokens;
  const auto beside = THIMBLE_TRY(gaps_of(stand, prompts, enough, over));
  reader.join();
  THIMBLE_TRY(Result<void>(read));
  const double p99 = percentile(alone, 0.99);
  const double p99_beside = percentile(beside, 0.99);
  print(flags,
        {{"measure", "latency"},
         {"long_prompt", large.size()},
         {"p50_ms", percentile(alone, 0.5)},
         {"p99_ms", p99},
         {"p50_beside_ms", percentile(beside, 0.5)},
         {"p99_beside_ms", p99_beside},
         {"gaps_beside", beside.size()},
         {"ratio", p99_beside / p99}},
        fmt::format("between tokens: p50 {:.2f} ms, p99 {:.2f} ms; while a prompt of {} is read: "
                    "{:.2f} and {:.2f} ({} gaps): {:.2f} times\n",
                    percentile(alone, 0.5), p99, large.size(), percentile(beside, 0.5), p99_beside,
                    beside.size(), p99_beside / p99));
  return {};
}

// All streams open before any ends: as many clients as `open`, each answered in full.
Result<void> measure_open(Stand& stand, const ServeFlags& flags) {
  constexpr uint32_t kTokens = 8;
  const Prompts prompts = make_prompts(stand, flags.open, 8);
  const double tokens = THIMBLE_TRY(run_clients(stand, prompts, kTokens));
  const double seconds = static_cast<double>(flags.open) * kTokens / tokens;
  print(flags, {{"measure", "open"}, {"streams", flags.open}, {"seconds", seconds}},
        fmt::format("{} streams at once, {} tokens each: all answered in {:.1f} s\n", flags.open,
                    kTokens, seconds));
  return {};
}

Result<int> run_serve(const ServeFlags& flags) {
  const auto stand = THIMBLE_TRY(Stand::open(flags));
  for (const uint32_t batch : kBatches) THIMBLE_TRY(measure_batch(*stand, flags, batch));
  if (flags.long_prompt > 0) THIMBLE_TRY(measure_latency(*stand, flags));
  if (flags.open > 0) THIMBLE_TRY(measure_open(*stand, flags));
  return kExitDone;
}

Result<void> check(const ServeFlags& flags) {
  THIMBLE_TRY(check_range("--tokens", flags.tokens, 2, 1U << 16));
  THIMBLE_TRY(check_range("--prompt-tokens", flags.prompt_tokens, 1, 1U << 20));
  THIMBLE_TRY(check_range("--long-prompt", flags.long_prompt, 0, 1U << 20));
  THIMBLE_TRY(check_range("--open", flags.open, 0, 10'000));
  THIMBLE_TRY(check_range("--rounds", flags.rounds, 1, 1000));
  return check_range("--threads", flags.threads, 0, engine::kThreadsMax);
}

}  // namespace

Command bench_serve_command() {
  auto flags = std::make_shared<ServeFlags>();
  return {
      .name = "serve",
      .summary = "What the server costs beside its engine, and how it holds under load",
      .details =
          "One process holds the engine, a server around it and the clients. The same requests, "
          "1, 8 and 32 at once, go straight to the engine and as streams over HTTP, by turns, "
          "several rounds; the ratio is the middle one of theirs.",
      .examples = {{"thimble bench serve --model models/nano-chat", ""},
                   {"thimble bench serve --model DIR --long-prompt 32768 --open 1000",
                    "also time between tokens beside a long prompt, and many open streams"}},
      .describe =
          [flags](Options& options) {
            options.add("--model", flags->model, "directory of the model", Need::kRequired);
            options.add("--prompt-tokens", flags->prompt_tokens, "of each request");
            options.add("--tokens", flags->tokens, "of each answer");
            options.add("--rounds", flags->rounds, "of both sides");
            options.add("--long-prompt", flags->long_prompt,
                        "tokens of a prompt that is read beside a stream; 0: not measured");
            options.add("--open", flags->open, "streams open at once; 0: not measured");
            options.add("--threads", flags->threads, "compute threads; 0: one per CPU");
            options.choice("--mode", flags->mode, {"fast", "exact"}, "arithmetic");
            options.flag("--json", flags->json, "print JSON lines");
          },
      .check = [flags] { return check(*flags); },
      .run = [flags] { return run_serve(*flags); }};
}

}  // namespace thimble::app
