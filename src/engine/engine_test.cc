// Aim: a model directory opened as an engine gives the tokens that the model defines, for every way
// of cutting the prompt, from the first request on; what cannot be opened is refused by name.
// Method: a made nano model (seeded random weights); its answers are computed a second time by
// teacher forcing over the whole text; broken directories are made by taking or adding one thing.
#include "engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "arch/checkpoint.h"
#include "cache/paged_cache.h"
#include "engine/forced_run.h"
#include "engine/model_files.h"
#include "engine/sampler.h"
#include "engine/testing.h"

namespace thimble::engine {
namespace {

using testing::HasSubstr;

std::string refusal(const EngineOptions& options) {
  const auto engine = Engine::open(options);
  return engine ? "opened" : engine.error().describe();
}

std::vector<int32_t> generate(Engine& engine, const GenerationRequest& request) {
  const auto sink = std::make_shared<Collector>();
  const auto id = engine.submit(request, sink);
  EXPECT_TRUE(id.has_value()) << id.error().describe();
  if (!id) return {};
  const GenerationEnd end = sink->wait();
  EXPECT_EQ(end.reason, FinishReason::kLength);
  EXPECT_FALSE(end.error.has_value()) << end.error->describe();
  return sink->ids();
}

// The definition: all logits of prompt and answer in one pass, each answer token sampled from the
// logits of the position before it.
void expect_defined_by_model(const GenerationRequest& request, const std::vector<int32_t>& answer) {
  const auto checkpoint = arch::Checkpoint::open(nano_model());
  ASSERT_TRUE(checkpoint.has_value());
  const auto tokenizer = open_tokenizer(*checkpoint);
  const auto map = engram_map(*checkpoint, *tokenizer);
  model::ModelOptions options;
  options.token_map = *map;
  const auto model = model::Model::create(*checkpoint, options);
  ASSERT_TRUE(model.has_value()) << model.error().describe();
  std::vector<int32_t> ids = request.prompt;
  ids.insert(ids.end(), answer.begin(), answer.end());
  base::ThreadPool pool(1);
  const auto logits = run_forced(**model, ids, {.chunk = ids.size()}, pool);
  ASSERT_TRUE(logits.has_value());
  const size_t vocab = checkpoint->config().vocab_size;
  Sampler sampler(request.sampling, text::unsampled_tokens(**tokenizer));
  for (size_t i = 0; i < answer.size(); ++i) {
    const size_t position = request.prompt.size() + i;
    const std::span<const float> row(logits->data() + (position - 1) * vocab, vocab);
    ASSERT_EQ(answer[i], *sampler.sample(row, position)) << "answer token " << i;
  }
}

TEST(Engine, TokensAreThoseOfTheModelForEveryChunkSize) {
  for (const float temperature : {0.0F, 1.0F}) {
    const GenerationRequest request = request_of(130, 20, temperature);
    std::vector<int32_t> first;
    for (const uint32_t chunk : {256, 37, 1}) {
      const auto engine = open_engine(options_for(nano_model(), chunk));
      ASSERT_NE(engine, nullptr);
      const auto ids = generate(*engine, request);
      if (first.empty()) first = ids;
      EXPECT_EQ(ids, first) << "chunks of " << chunk;
    }
    expect_defined_by_model(request, first);
  }
}

// The very first forward of a process must not differ from the next.
TEST(Engine, FirstRequestOfAFreshEngineEqualsTheSecond) {
  for (const size_t prompt_tokens : {1, 13}) {
    const auto engine = open_engine(options_for(nano_model()));
    ASSERT_NE(engine, nullptr);
    const GenerationRequest request = request_of(prompt_tokens, 4);
    const auto first = generate(*engine, request);
    EXPECT_EQ(first.size(), 4u);
    EXPECT_EQ(generate(*engine, request), first);
    expect_defined_by_model(request, first);
  }
}

// Lengths around the window (64), the ratio (2), the block (128) and the chunk.
TEST(Engine, PromptLengthsAtTheEdgesTwiceGiveTheSame) {
  const auto engine = open_engine(options_for(nano_model(), 32));
  ASSERT_NE(engine, nullptr);
  for (const size_t length : {1, 2, 3, 31, 32, 33, 63, 64, 65, 66, 127, 128, 129, 255, 256, 257}) {
    const GenerationRequest request = request_of(length, 2);
    const auto first = generate(*engine, request);
    ASSERT_EQ(first.size(), 2u) << length;
    ASSERT_EQ(generate(*engine, request), first) << length;
  }
}

TEST(Engine, KnowsItsModel) {
  const auto engine = open_engine(options_for(nano_model() / "."));
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->model_name(), "nano");
  EXPECT_EQ(engine->config(), nano_config());
  EXPECT_EQ(engine->context_tokens(), 65'536u);
  EXPECT_TRUE(engine->chat_tokens().has_value());
  ASSERT_NE(engine->tokenizer(), nullptr);
  EXPECT_EQ(engine->tokenizer()->size(), engine->config().vocab_size);
  EXPECT_GT(engine->plan().weights_bytes, 1u << 20);
  EXPECT_EQ(engine->plan().context_tokens, engine->context_tokens());
}

TEST(Engine, RefusesWhatDoesNotFitWithTheNumbers) {
  EngineOptions options = options_for(nano_model());
  options.context_tokens = 100;
  const auto engine = open_engine(options);
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->context_tokens(), 100u);
  const auto refused = engine->submit(request_of(90, 11), std::make_shared<Collector>());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("make 101, the context holds 100"));
  EXPECT_EQ(generate(*engine, request_of(90, 10)).size(), 10u);
}

TEST(Engine, EndsItsRequestsWhenItGoes) {
  auto engine = open_engine(options_for(nano_model()));
  ASSERT_NE(engine, nullptr);
  const auto running = std::make_shared<Collector>();
  const auto waiting = std::make_shared<Collector>();
  ASSERT_TRUE(engine->submit(request_of(20, 60'000), running).has_value());
  ASSERT_TRUE(engine->submit(request_of(20, 60'000), waiting).has_value());
  engine.reset();
  EXPECT_EQ(running->wait().reason, FinishReason::kCancelled);
  EXPECT_EQ(waiting->wait().reason, FinishReason::kCancelled);
}

TEST(Engine, NeverSamplesWhatHasNoText) {
  arch::Config config = nano_config();
  const uint32_t spelled = config.vocab_size;
  config.vocab_size += 1000;  // most of the vocabulary has no text
  config.engram = {};
  const base::TempDir directory;
  write_model(directory.path(), config, 3);
  const auto engine = open_engine(options_for(directory.path()));
  ASSERT_NE(engine, nullptr);
  const auto unsampled = text::unsampled_tokens(*engine->tokenizer());
  for (const int32_t id : generate(*engine, request_of(10, 100, 2.0F))) {
    EXPECT_LT(id, static_cast<int32_t>(spelled));
    EXPECT_EQ(std::count(unsampled.begin(), unsampled.end(), id), 0);
  }
}

TEST(Engine, ModelsWithoutTokenizerServeIds) {
  arch::Config config = nano_config();
  config.engram = {};
  const base::TempDir directory;
  write_model(directory.path(), config, 3);
  std::filesystem::remove(directory.path() / "tokenizer.json");
  const auto engine = open_engine(options_for(directory.path()));
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->tokenizer(), nullptr);
  ASSERT_FALSE(engine->chat_tokens().has_value());
  EXPECT_THAT(engine->chat_tokens().error().message, HasSubstr("no tokenizer.json"));
  EXPECT_EQ(generate(*engine, request_of(10, 3)).size(), 3u);
}

TEST(Engine, RefusesDirectoriesByName) {
  EXPECT_THAT(refusal(options_for("/nowhere/at/all")), HasSubstr("/nowhere/at/all"));
  const base::TempDir directory;
  const Path copy = directory.path() / "copy";
  std::filesystem::copy(nano_model(), copy);
  std::filesystem::remove(copy / "tokenizer.json");
  EXPECT_THAT(refusal(options_for(copy)), HasSubstr("tokenizer.json"));
  ASSERT_TRUE(base::write_file_atomic(copy / "tokenizer.json", "{}").has_value());
  EXPECT_THAT(refusal(options_for(copy)), HasSubstr("tokenizer.json"));
  std::filesystem::remove(copy / "config.json");
  EXPECT_THAT(refusal(options_for(copy)), HasSubstr("config.json"));
}

TEST(Engine, RefusesOptionsOutOfRange) {
  EngineOptions options = options_for(nano_model());
  options.prefill_chunk = 0;
  EXPECT_THAT(refusal(options), HasSubstr("prefill_chunk is 0"));
  options = options_for(nano_model());
  options.queue_requests_max = 0;
  EXPECT_THAT(refusal(options), HasSubstr("queue_requests_max is 0"));
  options = options_for(nano_model());
  options.threads = 1'000'000;
  EXPECT_THAT(refusal(options), HasSubstr("threads is 1000000"));
  options = options_for(nano_model());
  options.context_tokens = 65'537;
  EXPECT_THAT(refusal(options), HasSubstr("maximum is 65,536"));
}

bool has_index_key(const kernels::PagedTiles& tiles, uint64_t entry) {
  std::vector<float> key(tiles.dims);
  kernels::read_tile_entry(tiles.format, tiles.tile(entry / kernels::kTileRows),
                           static_cast<uint32_t>(entry % kernels::kTileRows), key);
  return std::any_of(key.begin(), key.end(), [](float x) { return x != 0; });
}

// Entries really written: the cache starts as zeros, so a row that is not zero was stored.
TEST(Engine, EveryEntryIsStoredAndNoMore) {
  const auto checkpoint = arch::Checkpoint::open(nano_model());
  const auto tokenizer = open_tokenizer(*checkpoint);
  const auto map = engram_map(*checkpoint, *tokenizer);
  for (const auto mode : {model::Mode::kFast, model::Mode::kExact, model::Mode::kNokvq}) {
    model::ModelOptions options;
    options.mode = mode;
    options.token_map = *map;
    const auto model = model::Model::create(*checkpoint, options);
    ASSERT_TRUE(model.has_value());
    const arch::Config& config = checkpoint->config();
    const auto layout = arch::make_cache_layout(config, (*model)->cache_format());
    constexpr uint64_t kTokens = 101;
    const auto paged =
        cache::PagedCache::create(config, layout, {.pool_bytes = layout.reserved_bytes(kTokens)});
    const auto cache = *(*paged)->open_empty({{}, {}, layout.format, 0}, kTokens);
    ASSERT_TRUE(cache->reserve(kTokens).has_value());
    auto state = (*model)->new_sequence();
    const std::vector<int32_t> ids = request_of(kTokens, 1).prompt;
    base::ThreadPool pool(1);
    kernels::Workspace workspace;
    model::Chunk chunk;
    chunk.state = &state;
    chunk.rows = &cache->rows();
    chunk.ids = ids;
    ASSERT_TRUE((*model)->forward({&chunk, 1}, {pool, workspace}).has_value());
    uint64_t bytes = 0;
    for (size_t owner = 0; owner < layout.owners.size(); ++owner) {
      const kernels::PagedRows& rows = cache->rows().main[owner];
      const auto stored = [&](uint64_t entry) {
        const bool main = std::any_of(rows.row(entry), rows.row(entry) + rows.row_bytes,
                                      [](std::byte b) { return b != std::byte{0}; });
        EXPECT_EQ(main, has_index_key(cache->rows().index[owner], entry)) << "not one unit";
        return main;
      };
      const uint64_t entries = arch::entries_after(kTokens, layout.owners[owner].ratio);
      for (uint64_t entry = 0; entry < layout.owners[owner].entries_per_block; ++entry) {
        ASSERT_EQ(stored(entry), entry < entries) << "owner " << owner << " entry " << entry;
        if (stored(entry)) bytes += rows.row_bytes + layout.owners[owner].index_row_bytes;
      }
    }
    EXPECT_EQ(bytes, layout.rows_bytes(kTokens));
  }
}

}  // namespace
}  // namespace thimble::engine
