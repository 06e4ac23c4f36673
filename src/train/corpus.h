// Training documents: token ids with a label for each, in a nameless file that is read in place.
//
// Memory holds 16 bytes a document; what a token needs (8 bytes) is on disk and in the page cache.
// A corpus is written once, by one thread; reading is safe from any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/scratch_file.h"

namespace thimble::train {

struct LabelledToken {
  int32_t id = 0;
  int32_t label = -1;  // the token to predict here; -1: none
};

class Corpus {
 public:
  using Document = std::span<const LabelledToken>;

  size_t size() const { return documents_.size(); }
  bool empty() const { return documents_.empty(); }
  Document operator[](size_t document) const {
    const Place& place = documents_[document];
    const auto* const tokens = reinterpret_cast<const LabelledToken*>(file_.bytes().data());
    return {tokens + place.begin, place.length};
  }
  std::vector<uint32_t> lengths() const;  // [documents] tokens
  // Of all tokens, labels and borders in order.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  friend class CorpusWriter;
  struct Place {
    uint64_t begin = 0;
    uint32_t length = 0;
  };
  Corpus(base::MappedFile file, std::vector<Place> documents, uint64_t fingerprint)
      : file_(std::move(file)), documents_(std::move(documents)), fingerprint_(fingerprint) {}

  base::MappedFile file_;
  std::vector<Place> documents_;
  uint64_t fingerprint_ = 0;
};

class CorpusWriter {
 public:
  // The file goes into `folder`.
  static Result<CorpusWriter> create(const Path& folder);

  size_t size() const { return documents_.size(); }
  uint64_t labels() const { return labels_; }  // tokens that have one
  Result<void> add(std::span<const LabelledToken> document);
  // Documents [begin, end) once more; they take no room on disk again.
  void repeat(size_t begin, size_t end);
  Result<Corpus> finish() &&;

 private:
  explicit CorpusWriter(base::ScratchFile file) : file_(std::move(file)) {}
  void note(const Corpus::Place& place);

  base::ScratchFile file_;
  std::vector<Corpus::Place> documents_;
  uint64_t fingerprint_ = 0;
  uint64_t written_ = 0;  // tokens
  uint64_t labels_ = 0;
};

}  // namespace thimble::train
