#include "train/corpus.h"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/check.h"
#include "base/random.h"
#include "tasks/copy.h"
#include "tasks/needle.h"
#include "text/chat_format.h"

namespace thimble::train {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxFileBytes = 4ULL << 30;

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return out;
}

std::vector<std::string_view> split_text(std::string_view text, TextSplit split) {
  if (split == TextSplit::kFile) return {text};
  if (split == TextSplit::kLine) return split_lines(text);
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = text.find("\n\n");
    out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 2);
  }
  return out;
}

// [BOS] text [EOS], every token the label of the one before.
TrainingDocument text_document(std::string_view text, const text::Tokenizer& tokenizer) {
  TrainingDocument out;
  const auto add = [&](std::string_view special) {
    if (const auto id = tokenizer.find_added(special)) out.tokens.push_back(*id);
  };
  add(text::kBosText);
  const auto ids = tokenizer.encode(text, text::AddedTokens::kPlain);
  out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
  add(text::kEosText);
  out.labels.assign(out.tokens.size(), -1);
  for (size_t i = 0; i + 1 < out.tokens.size(); ++i) out.labels[i] = out.tokens[i + 1];
  return out;
}

Result<text::ReasoningEffort> effort_of(const json& record) {
  if (!record.contains("effort")) return text::ReasoningEffort{.thinking = false};
  const json& effort = record["effort"];
  if (effort.is_number_integer()) return text::effort_from_number(effort.get<int64_t>());
  return text::parse_effort(effort.get<std::string>());
}

Result<std::vector<text::ChatMessage>> messages_of(const json& record) {
  std::vector<text::ChatMessage> out;
  for (const json& message : record.at("messages")) {
    const auto role = THIMBLE_TRY(text::parse_role(message.at("role").get<std::string>()));
    out.push_back(text::make_message(role, message.at("content").get<std::string>(),
                                     message.value("reasoning_content", std::string())));
  }
  return out;
}

class ChatReader {
 public:
  ChatReader(const text::Tokenizer& tokenizer, const text::SpecialTokens& special)
      : tokenizer_(tokenizer), special_(special) {}

  Result<TrainingDocument> read(const json& record) const {
    const auto messages = THIMBLE_TRY(messages_of(record));
    text::ChatOptions options;
    options.effort = THIMBLE_TRY(effort_of(record));
    TrainingDocument out;
    out.tokens = THIMBLE_TRY(ids_of(messages, messages.size(), false, options));
    out.labels.assign(out.tokens.size(), -1);
    for (size_t k = 0; k < messages.size(); ++k) {
      if (messages[k].role != text::Role::kAssistant) continue;
      const auto before = THIMBLE_TRY(ids_of(messages, k, true, options));
      const auto after = THIMBLE_TRY(ids_of(messages, k + 1, false, options));
      THIMBLE_TRY(label(before, after, k, out));
    }
    return out;
  }

 private:
  Result<std::vector<int32_t>> ids_of(const std::vector<text::ChatMessage>& messages, size_t count,
                                      bool open_turn, text::ChatOptions options) const {
    options.ending.add_generation_prompt = open_turn;
    const auto prompt = THIMBLE_TRY(text::render_chat({messages.data(), count}, options, special_));
    return text::encode_prompt(prompt, tokenizer_);
  }

  static bool begins_with(const std::vector<int32_t>& list, const std::vector<int32_t>& with) {
    return list.size() >= with.size() && std::equal(with.begin(), with.end(), list.begin());
  }

  // The ids of turn `k` are what `after` has beyond `before`.
  static Result<void> label(const std::vector<int32_t>& before, const std::vector<int32_t>& after,
                            size_t k, TrainingDocument& out) {
    if (before.empty() || !begins_with(after, before) || !begins_with(out.tokens, after)) {
      return base::fail(ErrorCode::kUnsupported,
                        "messages[{}]: the turns before an answer read differently with and "
                        "without it, so it has no tokens of its own",
                        k);
    }
    for (size_t i = before.size(); i < after.size(); ++i) out.labels[i - 1] = after[i];
    return {};
  }

  const text::Tokenizer& tokenizer_;
  const text::SpecialTokens& special_;
};

// One document a line; json and our own errors get the line's number.
template <class Read>
Result<std::vector<TrainingDocument>> read_lines(const Path& path, std::string_view content,
                                                 Read read) {
  std::vector<TrainingDocument> out;
  size_t number = 0;
  for (const std::string_view line : split_lines(content)) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = fmt::format("{} line {}", path.string(), number);
    try {
      out.push_back(THIMBLE_TRY(base::in(read(json::parse(line)), where)));
    } catch (const json::exception& e) {
      return base::fail(ErrorCode::kCorrupt, "{}: {}", where, e.what());
    }
  }
  return out;
}

Result<std::vector<TrainingDocument>> read_files(const Source& source,
                                                 const text::Tokenizer& tokenizer) {
  const std::string content = THIMBLE_TRY(base::read_file(source.path, kMaxFileBytes));
  if (source.kind == SourceKind::kChat) {
    const auto special = THIMBLE_TRY(text::resolve_chat_tokens(tokenizer));
    const ChatReader reader(tokenizer, special);
    return read_lines(source.path, content, [&](const json& j) { return reader.read(j); });
  }
  if (source.kind == SourceKind::kJsonl) {
    return read_lines(source.path, content, [&](const json& j) -> Result<TrainingDocument> {
      return text_document(j.at("text").get<std::string>(), tokenizer);
    });
  }
  std::vector<TrainingDocument> out;
  for (const std::string_view text : split_text(content, source.split)) {
    if (!text.empty()) out.push_back(text_document(text, tokenizer));
  }
  return out;
}

tasks::Sample make_sample(const Source& source, uint64_t index) {
  const uint64_t seed = base::mix64(source.seed * 1'000'003 + index);
  if (source.kind == SourceKind::kRecall) return tasks::make_recall(source.recall, seed);
  if (source.kind == SourceKind::kCopy) {
    return tasks::make_copy({.tokens = source.tokens, .symbols = source.recall.keys}, seed);
  }
  tasks::NeedleOptions needle{
      .tokens = source.tokens, .filler = source.recall.keys, .values = source.recall.values};
  needle.depth = base::counter_uniform(seed, 0, 0);
  return tasks::make_needle(needle, seed);
}

// Ids of the vocabulary for those of the task.
Result<TrainingDocument> sample_document(const tasks::Sample& sample, uint32_t first_id,
                                         std::optional<int32_t> bos, uint32_t vocab_size) {
  TrainingDocument out;
  if (bos) {
    out.tokens.push_back(*bos);
    out.labels.push_back(-1);
  }
  const auto first = static_cast<int32_t>(first_id);
  for (size_t k = 0; k < sample.tokens.size(); ++k) {
    const int32_t answer = sample.answers[k];
    out.tokens.push_back(first + sample.tokens[k]);
    out.labels.push_back(answer < 0 ? -1 : first + answer);
    const auto largest = static_cast<uint32_t>(std::max(out.tokens.back(), out.labels.back()));
    if (largest >= vocab_size) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "the task needs token id {}, but vocab_size is {}", largest, vocab_size);
    }
  }
  return out;
}

Result<std::vector<TrainingDocument>> make_samples(const Source& source, const CorpusTools& tools) {
  std::optional<int32_t> bos;
  if (tools.tokenizer != nullptr) bos = tools.tokenizer->find_added(text::kBosText);
  std::vector<TrainingDocument> out;
  for (uint32_t i = 0; i < source.count; ++i) {
    out.push_back(THIMBLE_TRY(
        sample_document(make_sample(source, i), source.first_id, bos, tools.vocab_size)));
  }
  return out;
}

bool is_task(SourceKind kind) {
  return kind == SourceKind::kRecall || kind == SourceKind::kNeedle || kind == SourceKind::kCopy;
}

Result<std::vector<TrainingDocument>> read_source(const Source& source, const CorpusTools& tools) {
  if (is_task(source.kind)) return make_samples(source, tools);
  if (tools.tokenizer == nullptr) {
    return base::fail(ErrorCode::kInvalidArgument, "{}: text needs a tokenizer",
                      source.path.string());
  }
  return read_files(source, *tools.tokenizer);
}

}  // namespace

Result<std::vector<TrainingDocument>> read_sources(const std::vector<Source>& sources,
                                                   const CorpusTools& tools) {
  std::vector<TrainingDocument> out;
  for (const Source& source : sources) {
    auto once = THIMBLE_TRY(read_source(source, tools));
    for (uint32_t i = 1; i < source.repeat; ++i) out.insert(out.end(), once.begin(), once.end());
    if (source.repeat > 0) std::move(once.begin(), once.end(), std::back_inserter(out));
  }
  return out;
}

}  // namespace thimble::train
