#include "train/sources.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/piece_reader.h"
#include "base/random.h"
#include "tasks/copy.h"
#include "tasks/needle.h"
#include "text/chat_format.h"

namespace thimble::train {
namespace {

using nlohmann::json;

using Document = std::vector<LabelledToken>;

// Where a document of a text file ends; empty: with the file.
std::string_view delimiter_of(const Source& source) {
  if (source.kind != SourceKind::kText || source.split == TextSplit::kLine) return "\n";
  return source.split == TextSplit::kParagraph ? "\n\n" : "";
}

Document unlabelled(const std::vector<int32_t>& ids) {
  Document out;
  out.reserve(ids.size());
  for (const int32_t id : ids) out.push_back({id, -1});
  return out;
}

// [BOS] text [EOS], every token the label of the one before.
Document text_document(std::string_view text, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids = tokenizer.encode(text, text::AddedTokens::kPlain);
  if (const auto bos = tokenizer.find_added(text::kBosText)) ids.insert(ids.begin(), *bos);
  if (const auto eos = tokenizer.find_added(text::kEosText)) ids.push_back(*eos);
  Document out = unlabelled(ids);
  for (size_t i = 0; i + 1 < out.size(); ++i) out[i].label = out[i + 1].id;
  return out;
}

Result<text::ReasoningEffort> effort_of(const json& record) {
  if (!record.contains("effort")) return text::ReasoningEffort{.thinking = false};
  const json& effort = record["effort"];
  if (effort.is_number_integer()) return text::effort_from_number(effort.get<int64_t>());
  if (effort.is_string()) return text::parse_effort(effort.get_ref<const std::string&>());
  return base::fail(ErrorCode::kInvalidArgument, "effort is {}; expected a name or 1 to 100",
                    effort.dump());
}

Result<std::vector<text::ChatMessage>> messages_of(const json& record) {
  if (!record.is_object() || !record.contains("messages") || !record["messages"].is_array()) {
    return base::fail(ErrorCode::kInvalidArgument, "expected an object with a list of messages");
  }
  std::vector<text::ChatMessage> out;
  for (const json& message : record.at("messages")) {
    if (!message.is_object()) {
      return base::fail(ErrorCode::kInvalidArgument, "messages[{}] is {}; expected an object",
                        out.size(), message.dump());
    }
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

  Result<Document> read(const json& record) const {
    const auto messages = THIMBLE_TRY(messages_of(record));
    text::ChatOptions options;
    options.effort = THIMBLE_TRY(effort_of(record));
    const auto all = THIMBLE_TRY(ids_of(messages, messages.size(), false, options));
    Document out = unlabelled(all);
    for (size_t k = 0; k < messages.size(); ++k) {
      if (messages[k].role != text::Role::kAssistant) continue;
      const auto before = THIMBLE_TRY(ids_of(messages, k, true, options));
      const auto after = THIMBLE_TRY(ids_of(messages, k + 1, false, options));
      if (!begins_with(after, before) || !begins_with(all, after)) return unlike(k);
      for (size_t i = before.size(); i < after.size(); ++i) out[i - 1].label = after[i];
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
    return !with.empty() && list.size() >= with.size() &&
           std::equal(with.begin(), with.end(), list.begin());
  }

  // The ids of a turn are what lies behind those of the turns before it.
  static tl::unexpected<Error> unlike(size_t k) {
    return base::fail(ErrorCode::kUnsupported,
                      "messages[{}]: the turns before an answer read differently with and "
                      "without it, so it has no tokens of its own",
                      k);
  }

  const text::Tokenizer& tokenizer_;
  const text::SpecialTokens& special_;
};

// One record or text of a file at a time.
class FileReader {
 public:
  FileReader(const Source& source, const text::Tokenizer& tokenizer,
             const std::optional<text::SpecialTokens>& special)
      : source_(source), tokenizer_(tokenizer) {
    if (special) chat_.emplace(tokenizer, *special);
  }

  // Nothing for an empty piece. What JSON and we find wrong gets the line's number.
  Result<std::optional<Document>> read(std::string_view piece) {
    ++number_;
    if (source_.kind == SourceKind::kText) {
      if (piece.empty()) return std::nullopt;
      return text_document(piece, tokenizer_);
    }
    if (piece.find_first_not_of(" \t\r") == std::string_view::npos) return std::nullopt;
    const std::string where = fmt::format("{} line {}", source_.path.string(), number_);
    try {
      return THIMBLE_TRY(base::in(read_record(json::parse(piece)), where));
    } catch (const json::exception& e) {
      return base::fail(ErrorCode::kCorrupt, "{}: {}", where, e.what());
    }
  }

 private:
  Result<Document> read_record(const json& record) const {
    if (chat_) return chat_->read(record);
    if (!record.is_object() || !record.contains("text") || !record["text"].is_string()) {
      return base::fail(ErrorCode::kInvalidArgument, "expected an object with a text");
    }
    return text_document(record["text"].get_ref<const std::string&>(), tokenizer_);
  }

  const Source& source_;
  const text::Tokenizer& tokenizer_;
  std::optional<ChatReader> chat_;
  uint64_t number_ = 0;
};

Result<void> read_file(const Source& source, const SourceTools& tools, CorpusWriter& out) {
  if (tools.tokenizer == nullptr) {
    return base::fail(ErrorCode::kInvalidArgument, "{}: text needs a tokenizer",
                      source.path.string());
  }
  std::optional<text::SpecialTokens> special;
  if (source.kind == SourceKind::kChat) {
    special = THIMBLE_TRY(text::resolve_chat_tokens(*tools.tokenizer));
  }
  FileReader reader(source, *tools.tokenizer, special);
  const std::string delimiter(delimiter_of(source));
  auto pieces = THIMBLE_TRY(base::PieceReader::open(source.path, delimiter));
  while (const auto piece = THIMBLE_TRY(pieces.next())) {
    if (tools.stop && tools.stop()) {
      return base::fail(ErrorCode::kCancelled, "interrupted while {} was read",
                        source.path.string());
    }
    if (const auto document = THIMBLE_TRY(reader.read(*piece))) THIMBLE_TRY(out.add(*document));
    if (tools.on_bytes) tools.on_bytes(piece->size() + delimiter.size());
  }
  return {};
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
Result<Document> sample_document(const tasks::Sample& sample, uint32_t first_id,
                                 std::optional<int32_t> bos, uint32_t vocab_size) {
  Document out;
  if (bos) out.push_back({*bos, -1});
  const auto first = static_cast<int32_t>(first_id);
  for (size_t k = 0; k < sample.tokens.size(); ++k) {
    const int32_t answer = sample.answers[k];
    out.push_back({first + sample.tokens[k], answer < 0 ? -1 : first + answer});
    const auto largest = static_cast<uint32_t>(std::max(out.back().id, out.back().label));
    if (largest >= vocab_size) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "the task needs token id {}, but vocab_size is {}", largest, vocab_size);
    }
  }
  return out;
}

Result<void> make_samples(const Source& source, const SourceTools& tools, CorpusWriter& out) {
  std::optional<int32_t> bos;
  if (tools.tokenizer != nullptr) bos = tools.tokenizer->find_added(text::kBosText);
  for (uint32_t i = 0; i < source.count; ++i) {
    const tasks::Sample sample = make_sample(source, i);
    const auto document =
        THIMBLE_TRY(sample_document(sample, source.first_id, bos, tools.vocab_size));
    THIMBLE_TRY(out.add(document));
  }
  return {};
}

// A source that teaches nothing is a mistake: most likely a chat file in which nobody answers.
Result<void> read_source(const Source& source, const SourceTools& tools, CorpusWriter& out) {
  const size_t first = out.size();
  const uint64_t labels = out.labels();
  if (is_task(source.kind)) {
    THIMBLE_TRY(make_samples(source, tools, out));
  } else {
    THIMBLE_TRY(read_file(source, tools, out));
    if (out.labels() == labels) {
      return base::fail(ErrorCode::kInvalidArgument,
                        "{}: {} documents and nothing to learn in them{}", source.path.string(),
                        out.size() - first,
                        source.kind == SourceKind::kChat ? ": no turn is the assistant's" : "");
    }
  }
  const size_t once = out.size();
  for (uint32_t i = 1; i < source.repeat; ++i) out.repeat(first, once);
  return {};
}

}  // namespace

bool is_task(SourceKind kind) {
  return kind == SourceKind::kRecall || kind == SourceKind::kNeedle || kind == SourceKind::kCopy;
}

Result<Corpus> read_sources(const std::vector<Source>& sources, const SourceTools& tools,
                            const Path& folder) {
  auto out = THIMBLE_TRY(CorpusWriter::create(folder));
  for (const Source& source : sources) {
    if (source.repeat > 0) THIMBLE_TRY(read_source(source, tools, out));
  }
  return std::move(out).finish();
}

uint64_t file_bytes(const std::vector<Source>& sources) {
  uint64_t out = 0;
  for (const Source& source : sources) {
    std::error_code none;
    const uint64_t size = source.path.empty() ? 0 : std::filesystem::file_size(source.path, none);
    if (!none && source.repeat > 0) out += size;
  }
  return out;
}

}  // namespace thimble::train
