// Where training documents come from: text, JSON lines, chat records or a synthetic task.
//
// Text gets BOS before and EOS behind it and every token is a label. Of a chat record only what the
// assistant said is: the mask comes from rendering the turns one by one, never from searching the
// text (training spec 16.1). A task's document gets BOS in front where there is a tokenizer, as a
// served completion does. Files are read as they come, one document in memory at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tasks/recall.h"
#include "text/special_tokens.h"
#include "text/tokenizer.h"
#include "train/corpus.h"

namespace thimble::train {

enum class SourceKind { kText, kJsonl, kChat, kRecall, kNeedle, kCopy };

// Made by src/tasks, not read from a file.
bool is_task(SourceKind kind);

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

struct SourceTools {
  const text::Tokenizer* tokenizer = nullptr;  // files need it
  uint32_t vocab_size = 0;
  std::function<void(uint64_t)> on_bytes = {};  // of files, as they are read
  std::function<bool()> stop = {};              // asked between documents: true is kCancelled
};

// The documents of all sources, in a file of `folder`. Errors name the file and the line.
Result<Corpus> read_sources(const std::vector<Source>& sources, const SourceTools& tools,
                            const Path& folder);

// What on_bytes will come to, as far as sizes of files tell.
uint64_t file_bytes(const std::vector<Source>& sources);

}  // namespace thimble::train
