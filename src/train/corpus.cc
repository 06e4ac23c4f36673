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
  return CorpusWriter(Corpus(std::move(file)));
}

void CorpusWriter::note(const Corpus::Place& place) {
  corpus_.documents_.push_back(place);
  corpus_.fingerprint_ = base::mix64(corpus_.fingerprint_ ^ base::mix64(place.begin + 1));
}

Result<void> CorpusWriter::add(std::span<const LabelledToken> document) {
  CHECK(document.size() <= std::numeric_limits<uint32_t>::max());
  THIMBLE_TRY(corpus_.file_.append(std::as_bytes(document)));
  uint64_t hash = corpus_.fingerprint_;
  for (const LabelledToken& t : document) {
    labels_ += t.label >= 0 ? 1 : 0;
    const auto id = static_cast<uint32_t>(t.id);
    const auto label = static_cast<uint32_t>(t.label);
    hash = base::mix64(hash ^ (uint64_t{id} << 32 | label));
  }
  corpus_.fingerprint_ = hash;
  note({written_, static_cast<uint32_t>(document.size())});
  written_ += document.size();
  return {};
}

void CorpusWriter::repeat(size_t begin, size_t end) {
  CHECK(begin <= end && end <= size());
  for (size_t i = begin; i < end; ++i) note(Corpus::Place(corpus_.documents_[i]));
}

Result<Corpus> CorpusWriter::finish() && {
  const base::Bytes bytes = THIMBLE_TRY(corpus_.file_.map());
  corpus_.tokens_ = {reinterpret_cast<const LabelledToken*>(bytes.data()), written_};
  return std::move(corpus_);
}

}  // namespace thimble::train
