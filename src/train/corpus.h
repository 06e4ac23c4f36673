// Training documents: token ids with a label for each, from text, JSON lines, chat records or a
// synthetic task.
//
// Text gets BOS before and EOS behind it and every token is a label. Of a chat record only what the
// assistant said is: the mask comes from rendering the turns one by one, never from searching the
// text (training spec 16.1). A task's document gets BOS in front where there is a tokenizer, as a
// served completion does. Everything is held in memory, 8 bytes a token.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "tasks/recall.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"

namespace thimble::train {

struct TrainingDocument {
  std::vector<int32_t> tokens;
  std::vector<int32_t> labels;  // [tokens] the next token, or -1
};

enum class SourceKind { kText, kJsonl, kChat, kRecall, kNeedle, kCopy };

// How a text file is cut into documents.
enum class TextSplit { kFile, kParagraph, kLine };

struct Source {
  SourceKind kind = SourceKind::kText;
  Path path;  // kText, kJsonl ({"text": ...} a line), kChat ({"messages": ...})
  TextSplit split = TextSplit::kFile;
  uint32_t repeat = 1;  // how often an epoch has it
  // Tasks: `count` samples.
  uint32_t count = 1000;
  uint32_t tokens = 128;  // of a needle or to copy
  tasks::RecallOptions recall;
  uint32_t first_id = 0;  // token id of the task's token 0
  uint64_t seed = 1;
};

// Text sources need the tokenizer.
struct CorpusTools {
  const text::Tokenizer* tokenizer = nullptr;
  uint32_t vocab_size = 0;
};

// The documents of all sources. Errors name the file and the line.
Result<std::vector<TrainingDocument>> read_sources(const std::vector<Source>& sources,
                                                   const CorpusTools& tools);

}  // namespace thimble::train
