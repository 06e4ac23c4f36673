#include "train/corpus.h"

#include <limits>

#include "base/check.h"
#include "base/random.h"

namespace thimble::train {

std::vector<uint32_t> Corpus::lengths() const {
  std::vector<uint32_t> out;
  out.reserve(size());
  for (const Place& place : documents_) out.push_back(place.length);
  return out;
}

Result<CorpusWriter> CorpusWriter::create(const Path& folder) {
  auto file = THIMBLE_TRY(base::ScratchFile::create(folder));
  return CorpusWriter(std::move(file));
}

void CorpusWriter::note(const Corpus::Place& place) {
  documents_.push_back(place);
  fingerprint_ = base::mix64(fingerprint_ ^ base::mix64(place.begin + 1));
}

Result<void> CorpusWriter::add(std::span<const LabelledToken> document) {
  CHECK(document.size() <= std::numeric_limits<uint32_t>::max());
  THIMBLE_TRY(file_.append(std::as_bytes(document)));
  for (const LabelledToken& t : document) {
    labels_ += t.label >= 0 ? 1 : 0;
    const auto id = static_cast<uint32_t>(t.id);
    const auto label = static_cast<uint32_t>(t.label);
    fingerprint_ = base::mix64(fingerprint_ ^ (uint64_t{id} << 32 | label));
  }
  note({written_, static_cast<uint32_t>(document.size())});
  written_ += document.size();
  return {};
}

void CorpusWriter::repeat(size_t begin, size_t end) {
  CHECK(begin <= end && end <= size());
  for (size_t i = begin; i < end; ++i) note(Corpus::Place(documents_[i]));
}

Result<Corpus> CorpusWriter::finish() && {
  auto file = THIMBLE_TRY(std::move(file_).map());
  return Corpus(std::move(file), std::move(documents_), fingerprint_);
}

}  // namespace thimble::train
