#include "train/options.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numbers>
#include <set>
#include <type_traits>

namespace thimble::train {
namespace {

using nlohmann::json;

// Larger than any run, smaller than what a product of two of them overflows.
constexpr uint64_t kWholeMost = 1'000'000'000;

// One JSON object whose keys are taken one by one; what is left over is an error.
class Keys {
 public:
  Keys(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail("is no object");
  }

  template <class T>
  void take(const char* key, T& value) {
    const json* found = find(key);
    if (found == nullptr) return;
    if constexpr (std::is_unsigned_v<T> && !std::is_same_v<T, bool>) {
      if (!found->is_number_unsigned() || found->template get<uint64_t>() > kWholeMost) {
        return fail(fmt::format("{} is {}; expected a whole number from 0 to {}", key,
                                found->dump(), kWholeMost));
      }
    }
    try {
      found->get_to(value);
    } catch (const json::exception&) {
      fail(fmt::format("{} is {}, of another kind than expected", key, found->dump()));
    }
  }

  template <class T>
  void choose(const char* key, const std::map<std::string, T>& names, T& value) {
    std::string name;
    if (find(key) == nullptr) return;
    take(key, name);
    const auto found = names.find(name);
    if (found != names.end()) {
      value = found->second;
      return;
    }
    std::string known;
    for (const auto& [n, unused] : names) known += " " + n;
    fail(fmt::format("{} is \"{}\"; expected one of:{}", key, name, known));
  }

  const json* find(const char* key) {
    seen_.insert(key);
    return object_.is_object() && object_.contains(key) ? &object_[key] : nullptr;
  }

  void fail(const std::string& what) {
    if (result_) result_ = base::fail(ErrorCode::kInvalidArgument, "{}: {}", where_, what);
  }

  Result<void> finish() {
    for (const auto& [key, unused] : object_.items()) {
      if (!seen_.contains(key)) fail(fmt::format("unknown key \"{}\"", key));
    }
    return result_;
  }

 private:
  const json& object_;
  std::string where_;
  std::set<std::string> seen_;
  Result<void> result_;
};

Path resolved(const Path& folder, const std::string& path) {
  return path.empty() || Path(path).is_absolute() ? Path(path) : folder / path;
}

// What the task generators take for granted.
Result<void> check_task(const Source& s, const std::string& where) {
  const tasks::RecallOptions& r = s.recall;
  const auto wrong = [&](const char* what) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "{}: {}; found tokens {}, pairs {}, queries {}, keys {}, values {}", where,
                      what, s.tokens, r.pairs, r.queries, r.keys, r.values);
  };
  if (r.keys == 0 || r.values == 0 || s.tokens == 0) {
    return wrong("tokens, keys and values are at least 1");
  }
  if (s.kind == SourceKind::kRecall && (r.pairs == 0 || r.pairs > r.keys || r.queries > r.pairs)) {
    return wrong("expected queries <= pairs <= keys, pairs at least 1");
  }
  if (s.kind == SourceKind::kNeedle && s.tokens < 5) return wrong("a needle has at least 5 tokens");
  constexpr uint32_t kMost = 1 << 20;
  if (s.count > 100 * kMost) return wrong("a count is at most 104857600");
  if (s.tokens > kMost || r.keys > kMost || r.values > kMost || s.first_id > kMost) {
    return wrong("nothing may be above 1048576");
  }
  return {};
}

Result<Source> read_source_options(const json& object, const std::string& where,
                                   const Path& folder) {
  Source s;
  Keys keys(object, where);
  keys.choose<SourceKind>("kind",
                          {{"text", SourceKind::kText},
                           {"jsonl", SourceKind::kJsonl},
                           {"chat", SourceKind::kChat},
                           {"recall", SourceKind::kRecall},
                           {"needle", SourceKind::kNeedle},
                           {"copy", SourceKind::kCopy}},
                          s.kind);
  std::string path;
  keys.take("path", path);
  s.path = resolved(folder, path);
  keys.choose<TextSplit>("split",
                         {{"file", TextSplit::kFile},
                          {"paragraph", TextSplit::kParagraph},
                          {"line", TextSplit::kLine}},
                         s.split);
  keys.take("repeat", s.repeat);
  keys.take("count", s.count);
  keys.take("tokens", s.tokens);
  keys.take("pairs", s.recall.pairs);
  s.recall.queries = s.recall.pairs;
  keys.take("queries", s.recall.queries);
  keys.take("keys", s.recall.keys);
  keys.take("values", s.recall.values);
  keys.take("first_id", s.first_id);
  keys.take("seed", s.seed);
  THIMBLE_TRY(keys.finish());
  if (s.path.empty() && !is_task(s.kind)) {
    return base::fail(ErrorCode::kInvalidArgument, "{}: path is missing: the file to read", where);
  }
  THIMBLE_TRY(check_task(s, where));
  return s;
}

Result<std::vector<Source>> read_sources(const json* list, const std::string& where,
                                         const Path& folder) {
  std::vector<Source> out;
  if (list == nullptr) return out;
  if (!list->is_array()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} is {}; expected a list of sources", where,
                      list->dump());
  }
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string here = fmt::format("{}[{}]", where, i);
    out.push_back(THIMBLE_TRY(read_source_options((*list)[i], here, folder)));
  }
  return out;
}

using Figures = std::initializer_list<std::pair<const char*, double>>;

Result<void> check_within(const Figures& figures, double most) {
  for (const auto& [key, value] : figures) {
    if (value >= 0 && value <= most) continue;
    return base::fail(ErrorCode::kInvalidArgument, "{} is {}; expected 0 to {}", key, value, most);
  }
  return {};
}

constexpr double kFigureMost = 1e6;

Result<void> check_optimizer(const OptimizerOptions& o) {
  THIMBLE_TRY(check_within({{"optimizer.rate", o.rate},
                            {"optimizer.engram_table_rate", o.engram_table_rate},
                            {"optimizer.clip", o.clip},
                            {"optimizer.indexer_rate", o.indexer_rate},
                            {"optimizer.floor", o.floor},
                            {"optimizer.weight_decay", o.weight_decay},
                            {"optimizer.warmup", o.warmup},
                            {"optimizer.balance_speed", o.balance_speed},
                            {"optimizer.table_quiet", o.table_quiet}},
                           kFigureMost));
  if (!(o.warmup <= o.hold && o.hold <= o.decay)) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "optimizer: warmup {}, hold {} and decay {} are shares of the run in this "
                      "order",
                      o.warmup, o.hold, o.decay);
  }
  if (o.newton_schulz > 100) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "optimizer.newton_schulz is {}; at most 100 are allowed", o.newton_schulz);
  }
  return {};
}

Result<void> check_shares(const TrainOptions& o) {
  THIMBLE_TRY(check_within({{"quantise_from", o.quantise_from},
                            {"replay_share", o.replay_share},
                            {"index.explore", o.index.explore},
                            {"index.all_visible_until", o.all_visible_until},
                            {"index.k_until", o.k_until}},
                           1));
  return check_within({{"index.weight", o.index.weight}, {"balance_weight", o.balance_weight}},
                      kFigureMost);
}

Result<void> read_optimizer(const json& object, OptimizerOptions& o) {
  Keys keys(object, "optimizer");
  keys.take("rate", o.rate);
  keys.take("warmup", o.warmup);
  keys.take("hold", o.hold);
  keys.take("decay", o.decay);
  keys.take("floor", o.floor);
  keys.take("engram_table_rate", o.engram_table_rate);
  keys.take("indexer_rate", o.indexer_rate);
  keys.take("clip", o.clip);
  keys.take("weight_decay", o.weight_decay);
  keys.take("balance_speed", o.balance_speed);
  keys.take("table_quiet", o.table_quiet);
  keys.take("newton_schulz", o.newton_schulz);
  THIMBLE_TRY(keys.finish());
  return check_optimizer(o);
}

Result<void> read_index(const json& object, TrainOptions& o) {
  Keys keys(object, "index");
  keys.take("weight", o.index.weight);
  keys.choose<IndexSupport>(
      "support",
      {{"selected", IndexSupport::kSelected}, {"all_visible", IndexSupport::kAllVisible}},
      o.index.support);
  keys.choose<TeacherScope>("teacher_scope",
                            {{"own", TeacherScope::kOwn}, {"served", TeacherScope::kServed}},
                            o.index.scope);
  keys.choose<RowWeight>("row_weight", {{"mass", RowWeight::kMass}, {"none", RowWeight::kNone}},
                         o.index.row_weight);
  keys.take("explore", o.index.explore);
  keys.take("freeze", o.index.freeze);
  keys.take("all_visible_until", o.all_visible_until);
  keys.choose<KSchedule>("k_schedule",
                         {{"constant", KSchedule::kConstant},
                          {"anneal", KSchedule::kAnneal},
                          {"dense_warmup", KSchedule::kDense}},
                         o.k_schedule);
  keys.take("k_until", o.k_until);
  return keys.finish();
}

Result<void> read_stages(Keys& keys, TrainOptions& o) {
  keys.take("quantise_weights", o.quantise_weights);
  keys.take("quantise_caches", o.quantise_caches);
  keys.take("quantise_from", o.quantise_from);
  keys.take("candidates", o.candidates);
  keys.choose<DecoderReplay>("replay",
                             {{"none", DecoderReplay::kNone},
                              {"random_cut", DecoderReplay::kRandomCut},
                              {"turns", DecoderReplay::kTurns}},
                             o.replay);
  keys.take("replay_share", o.replay_share);
  keys.take("balance_weight", o.balance_weight);
  if (const json* index = keys.find("index")) THIMBLE_TRY(read_index(*index, o));
  if (const json* optimizer = keys.find("optimizer")) {
    THIMBLE_TRY(read_optimizer(*optimizer, o.optimizer));
  }
  return {};
}

Result<void> read_model(Keys& keys, const Path& folder, TrainOptions& o) {
  std::string path;
  keys.take("tokenizer", path);
  o.tokenizer = resolved(folder, path);
  path.clear();
  keys.take("start", path);
  o.start = resolved(folder, path);
  const json* model = keys.find("model");
  if (model == nullptr) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "model is missing: the path of a config.json, or its content");
  }
  if (model->is_object()) {
    o.config = THIMBLE_TRY(arch::parse_config(model->dump()));
  } else if (!model->is_string()) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "model is {}; expected the path of a config.json, or its content",
                      model->dump());
  } else {
    o.config = THIMBLE_TRY(arch::load_config(resolved(folder, model->get<std::string>())));
  }
  return {};
}

Result<void> check(const TrainOptions& o) {
  const auto within = [](const char* key, uint64_t value, uint64_t most) -> Result<void> {
    if (value > 0 && value <= most) return {};
    return base::fail(ErrorCode::kInvalidArgument, "{} is {}; expected 1 to {}", key, value, most);
  };
  constexpr uint64_t kRowsMost = 1 << 20;
  THIMBLE_TRY(within("steps", o.steps, kWholeMost));
  THIMBLE_TRY(within("row_tokens", o.row_tokens, kRowsMost));
  THIMBLE_TRY(within("rows_per_step", o.rows_per_step, kRowsMost));
  THIMBLE_TRY(within("rows_per_piece", o.rows_per_piece, kWholeMost));
  THIMBLE_TRY(within("shards", o.shards, 256));
  THIMBLE_TRY(within("log_every", o.log_every, kWholeMost));
  THIMBLE_TRY(check_shares(o));
  if (o.data.empty()) {
    return base::fail(ErrorCode::kInvalidArgument, "data is missing: a list of sources");
  }
  if (o.config.draft.num_layers > 0 || o.config.vision) {
    return base::fail(ErrorCode::kUnsupported,
                      "the model has draft layers or vision; training knows the text backbone");
  }
  return {};
}

}  // namespace

Result<TrainOptions> load_train_options(const Path& file) {
  const std::string text = THIMBLE_TRY(base::read_file(file));
  const json object = json::parse(text, nullptr, false, true);
  if (object.is_discarded()) {
    return base::fail(ErrorCode::kCorrupt, "{} is no JSON", file.string());
  }
  if (!object.is_object()) {
    return base::fail(ErrorCode::kInvalidArgument, "{} is no object; expected keys and values",
                      file.string());
  }
  const Path folder = file.parent_path();
  TrainOptions o;
  Keys keys(object, file.filename().string());
  THIMBLE_TRY(read_model(keys, folder, o));
  o.data = THIMBLE_TRY(read_sources(keys.find("data"), "data", folder));
  o.held_out = THIMBLE_TRY(read_sources(keys.find("held_out"), "held_out", folder));
  keys.take("steps", o.steps);
  keys.take("row_tokens", o.row_tokens);
  keys.take("rows_per_step", o.rows_per_step);
  keys.take("rows_per_piece", o.rows_per_piece);
  keys.take("shards", o.shards);
  keys.take("seed", o.seed);
  keys.take("bf16_products", o.bf16_products);
  keys.take("log_every", o.log_every);
  keys.take("eval_every", o.eval_every);
  keys.take("save_every", o.save_every);
  THIMBLE_TRY(read_stages(keys, o));
  THIMBLE_TRY(keys.finish());
  THIMBLE_TRY(check(o));
  return o;
}

TrainOptions dense_twin(TrainOptions options) {
  options.config.index_topk = options.row_tokens;
  options.config.candidate_topk_blocks = options.row_tokens;
  options.candidates = false;
  return options;
}

double rate_share(const OptimizerOptions& options, uint64_t step, uint64_t steps) {
  const double at = static_cast<double>(step + 1) / static_cast<double>(steps);
  if (at < options.warmup) return at / options.warmup;
  if (at <= options.hold) return 1;
  if (at >= options.decay) return options.floor;
  const double phase = (at - options.hold) / (options.decay - options.hold);
  return options.floor + (1 - options.floor) * 0.5 * (1 + std::cos(std::numbers::pi * phase));
}

int64_t slots_at(const TrainOptions& options, uint64_t step) {
  const int64_t topk = options.config.index_topk;
  const int64_t everything = std::max<int64_t>(topk, options.row_tokens);
  const double at = static_cast<double>(step) / static_cast<double>(options.steps);
  if (options.k_schedule == KSchedule::kConstant || at >= options.k_until) return topk;
  if (options.k_schedule == KSchedule::kDense) return everything;
  const double left = 1 - at / options.k_until;
  return topk + static_cast<int64_t>(left * static_cast<double>(everything - topk));
}

}  // namespace thimble::train
