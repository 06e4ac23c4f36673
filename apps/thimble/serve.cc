#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>

#include "apps/thimble/cache_flags.h"
#include "apps/thimble/commands.h"
#include "apps/thimble/interrupts.h"
#include "apps/thimble/mode_flag.h"
#include "base/log.h"
#include "base/terminal.h"
#include "engine/engine.h"
#include "server/api_server.h"
#include "text/chat_format.h"
#include "text/encoding_texts.h"
#include "text/reasoning_effort.h"
#include "web/assets.h"

namespace thimble::app {
namespace {

constexpr uint32_t kGraceMs = 5000;  // for answers to leave once a signal came
constexpr auto kSignalPoll = std::chrono::milliseconds(100);
constexpr uint32_t kPortMax = 65535;

struct ServeFlags {
  Path model;
  std::string host = "127.0.0.1";
  uint32_t port = 8080;
  uint32_t threads = 0;
  uint64_t context = 0;
  uint32_t queue = 64;
  uint32_t max_sequences = 0;
  uint32_t connections = 1024;
  std::string mode = "fast";
  bool strict_model = false;
  bool print_plan = false;
  std::string api_key;
  Path api_key_file;
  std::string allow_origin;
  std::string reasoning = "on";
  std::string effort = "high";
  std::string chat_encoding = "recipe";
  std::optional<uint32_t> max_tokens_default;
  CacheFlags cache;
  bool check_cache = false;
};

Result<std::string> api_key(const ServeFlags& flags) {
  if (flags.api_key_file.empty()) return flags.api_key;
  std::string key = THIMBLE_TRY(base::read_file(flags.api_key_file, 4096));
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} is empty, expected an API key",
                      flags.api_key_file.string());
  }
  return key;
}

std::vector<std::string> comma_separated(const std::string& text) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

const char* content_type(std::string_view path) {
  if (path.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (path.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

Result<server::RouteOptions> route_options(const ServeFlags& flags) {
  server::RouteOptions routes;
  if (flags.strict_model) routes.model_names = server::ModelNames::kStrict;
  routes.api_key = THIMBLE_TRY(api_key(flags));
  routes.origins.allowed = comma_separated(flags.allow_origin);
  routes.origins.own_host = flags.host;
  server::PromptDefaults& defaults = routes.defaults;
  const auto effort = THIMBLE_TRY(base::in(text::parse_effort(flags.effort), "--effort"));
  defaults.thinking = flags.reasoning == "on" && effort.thinking;
  defaults.effort = effort.budget;
  defaults.encoding = THIMBLE_TRY(text::parse_chat_encoding(flags.chat_encoding));
  defaults.replay = replay(flags.cache);
  if (flags.max_tokens_default) {
    defaults.answer_tokens = *flags.max_tokens_default;
    defaults.thinking_tokens = *flags.max_tokens_default;
  }
  routes.fingerprint = fmt::format("thimble-{}-{}", THIMBLE_VERSION, flags.mode);
  for (const web::Asset& asset : web::assets()) {
    routes.files.push_back({std::string(asset.path), content_type(asset.path), asset.bytes});
  }
  return routes;
}

Result<void> check(const ServeFlags& flags) {
  THIMBLE_TRY(check_range("--port", flags.port, 0, kPortMax));
  THIMBLE_TRY(check_range("--threads", flags.threads, 0, engine::kThreadsMax));
  THIMBLE_TRY(check_range("--queue", flags.queue, 1, engine::kQueueRequestsMax));
  THIMBLE_TRY(check_range("--max-sequences", flags.max_sequences, 0, engine::kSequencesAtOnceMax));
  THIMBLE_TRY(check_range("--connections", flags.connections, 1, UINT32_MAX));
  THIMBLE_TRY(
      check_range("--max-tokens-default", flags.max_tokens_default.value_or(1), 1, UINT32_MAX));
  THIMBLE_TRY(base::in(text::parse_effort(flags.effort), "--effort"));
  return check(flags.cache);
}

Result<std::unique_ptr<server::ApiServer>> listen(const ServeFlags& flags) {
  server::ApiServerOptions options;
  options.http.host = flags.host;
  options.http.port = static_cast<uint16_t>(flags.port);
  options.http.limits.connections = flags.connections;
  return server::ApiServer::listen(std::move(options));
}

engine::EngineOptions engine_options(const ServeFlags& flags) {
  engine::EngineOptions options;
  options.model_dir = flags.model;
  options.mode = mode_of(flags.mode);
  options.threads = flags.threads;
  options.queue_requests_max = flags.queue;
  options.sequences_max = flags.max_sequences;
  options.context_tokens = flags.context;
  options.measures_replay = true;
  options.checks_cache = flags.check_cache;
  apply(flags.cache, options);
  return options;
}

Result<std::unique_ptr<engine::Engine>> open_engine(const ServeFlags& flags) {
  auto engine = THIMBLE_TRY(engine::Engine::open(engine_options(flags)));
  if (engine->tokenizer() == nullptr) {
    return base::fail(ErrorCode::kNotFound, "{} has no tokenizer.json, so it can answer nobody",
                      flags.model.string());
  }
  return engine;
}

// `thimble init` marks what it makes.
bool has_random_weights(const Path& model_dir) {
  const auto config = base::read_file(model_dir / "config.json");
  if (!config) return false;
  const auto json = nlohmann::json::parse(*config, nullptr, false);
  return json.is_object() && json.value("thimble_random_weights", nlohmann::json()) == true;
}

// Those of the released model must be the published ones.
Result<text::EncodingTexts> encoding_texts(const engine::Engine& engine, const Path& model_dir) {
  const bool released =
      engine.config() == arch::released_config() && !has_random_weights(model_dir);
  return text::open_encoding_texts(
      model_dir, released ? text::TextsOf::kReleasedModel : text::TextsOf::kOtherModel);
}

void print_start(const engine::Engine& engine, bool random_weights) {
  fmt::print(stderr, "{}", planner::to_text(engine.plan()));
  if (random_weights) {
    fmt::print(stderr, "{}\n",
               base::styled(base::Stream::kErr, base::Style::kYellow,
                            "This model's weights are random: its words are noise."));
  }
  if (!engine.chat_tokens()) {
    fmt::print(stderr, "This model completes text but cannot chat: {}\n",
               engine.chat_tokens().error().describe());
  }
}

Result<int> print_plan(const ServeFlags& flags) {
  const auto plan = THIMBLE_TRY(engine::Engine::plan_of(engine_options(flags)));
  print_out(planner::to_text(plan));
  return kExitDone;
}

Result<int> run_serve(const ServeFlags& flags) {
  if (flags.print_plan) return print_plan(flags);
  auto routes = THIMBLE_TRY(route_options(flags));
  const auto server = THIMBLE_TRY(listen(flags));
  routes.origins.trusts_host = !server->only_this_machine();
  const auto engine = THIMBLE_TRY(open_engine(flags));

  server::ModelInfo info =
      server::make_model_info(engine->model_name(), engine->context_tokens(), *engine->tokenizer());
  info.vocab_size = engine->config().vocab_size;
  info.random_weights = has_random_weights(flags.model);
  info.texts = THIMBLE_TRY(encoding_texts(*engine, flags.model));
  print_start(*engine, info.random_weights);
  if (!server->only_this_machine() && routes.api_key.empty()) {
    base::log_warn("anyone who reaches this address can use the model",
                   {{"host", flags.host}, {"advice", "--api-key-file"}});
  }
  routes.planned = {engine->model_name(), planner::PlanSubject(engine->config())};
  const auto generator = server::make_engine_generator(*engine, std::move(info));
  const Interrupts interrupts;
  server->start(*generator, std::move(routes));
  print_out(fmt::format("{} at {}\n", engine->model_name(), server->url()));
  std::fflush(stdout);

  while (interrupts.pending() == 0) std::this_thread::sleep_for(kSignalPoll);
  base::log_info("stopping", {{"grace_ms", kGraceMs}});
  server->stop(kGraceMs);
  return kExitDone;
}

void describe(ServeFlags& flags, Options& options) {
  options.add("--model", flags.model, "directory of the model", Need::kRequired);
  options.add("--port", flags.port, "0: any free one");
  options.add("--host", flags.host, "address to listen on; 0.0.0.0 for all");
  options.add("--threads", flags.threads, "compute threads; 0: one per CPU");
  options.add("--context", flags.context,
              "longest prompt and answer; 0: what model and memory allow");
  options.add("--queue", flags.queue, "requests that may wait");
  options.add("--max-sequences", flags.max_sequences,
              "requests that run at once; 0: what memory allows, at most 32");
  options.add("--connections", flags.connections, "clients at once");
  options.choice("--mode", flags.mode, {"fast", "exact", "nokvq"}, "arithmetic (docs/numerics.md)");
  options.flag("--strict-model", flags.strict_model, "answer 404 to other model names");
  options.add("--api-key", flags.api_key, "ask clients for this key");
  options.add("--api-key-file", flags.api_key_file, "the same, from a file others cannot see");
  options.exclusive({"--api-key", "--api-key-file"});
  options.add("--allow-origin", flags.allow_origin,
              "pages from elsewhere that may call, and names by which this server may be called: "
              "origins with commas between, or *");
  options.choice("--reasoning", flags.reasoning, {"on", "off"}, "for requests that do not say");
  options.add("--effort", flags.effort, "the same: a name such as high, or 1 to 100");
  options.choice("--chat-encoding", flags.chat_encoding, {"recipe", "ref"},
                 "how conversations become prompts");
  options.add("--max-tokens-default", flags.max_tokens_default,
              "for requests that do not say (8192, with reasoning 65536, or what fits)");
  describe(flags.cache, options);
  options.flag("--check-cache", flags.check_cache,
               "count the cache's books anew after every step and end at a mistake: slow");
  options.flag("--print-plan", flags.print_plan,
               "say what the memory would be spent on, read no weights and serve nobody");
}

}  // namespace

Command serve_command() {
  auto flags = std::make_shared<ServeFlags>();
  return {.name = "serve",
          .summary = "Answer OpenAI clients over HTTP, and a chat page",
          .details =
              "Loads the model, prints what it takes and listens until Ctrl-C. The page is at /, "
              "a planner at /plan, the API at /v1 (docs/serving.md).",
          .examples = {{"thimble serve --model models/nano --port 8080", ""},
                       {"thimble serve --model DIR --host 0.0.0.0 --api-key-file key", ""}},
          .describe = [flags](Options& options) { describe(*flags, options); },
          .check = [flags] { return check(*flags); },
          .run = [flags] { return run_serve(*flags); }};
}

}  // namespace thimble::app
