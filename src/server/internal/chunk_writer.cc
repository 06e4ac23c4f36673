#include "server/internal/chunk_writer.h"

#include <set>
#include <utility>

#include "net/sse.h"

namespace thimble::server {
namespace {

class ChunkWriter : public AnswerWriter {
 public:
  ChunkWriter(AnswerFrame frame, const text::Tokenizer& tokenizer)
      : chunks_(std::move(frame)), tokenizer_(tokenizer) {}

  std::string begin() override { return {}; }

  // Text with its log-probabilities, then each call's part in a chunk of its own.
  std::string part(const AnswerPart& part) override {
    AnswerPart text = part;
    text.calls.clear();
    const ChunkPlace place = place_of(part.choice);
    const bool has_text = !part.text.reasoning.empty() || !part.text.content.empty();
    std::string out;
    if (place == ChunkPlace::kFirst || has_text || part.calls.empty() || part.logprobs) {
      out = chunk(place, text);
    }
    for (const CallPart& call : part.calls) {
      AnswerPart one;
      one.choice = part.choice;
      one.calls.push_back(call);
      out += chunk(ChunkPlace::kLater, one);
    }
    return out;
  }

  // An answer without text still has a first chunk, which names the role.
  std::string choice_end(uint32_t choice, AnswerEnd end) override {
    std::string out;
    if (!begun_.contains(choice)) {
      AnswerPart nothing;
      nothing.choice = choice;
      out = part(nothing);
    }
    return out + net::sse_event(finish_chunk(chunks_, end, choice));
  }

  std::string end(const Usage& usage) override {
    const std::string last = net::sse_event("[DONE]");
    return chunks_.frame.with_usage ? net::sse_event(usage_chunk(chunks_.frame, usage)) + last
                                    : last;
  }

  std::string failure(const ApiError& error) override {
    return net::sse_event(error_json(error)) + net::sse_event("[DONE]");
  }

  std::string whole(std::span<const WholeChoice> choices, const Usage& usage) override {
    return whole_answer(chunks_.frame, choices, usage, tokenizer_);
  }

 private:
  ChunkPlace place_of(uint32_t choice) {
    return begun_.insert(choice).second ? ChunkPlace::kFirst : ChunkPlace::kLater;
  }

  std::string chunk(ChunkPlace place, const AnswerPart& part) const {
    return net::sse_event(part_chunk(chunks_, place, part, tokenizer_));
  }

  const ChunkFrame chunks_;
  const text::Tokenizer& tokenizer_;
  std::set<uint32_t> begun_;  // choices that have their first chunk
};

}  // namespace

std::unique_ptr<AnswerWriter> make_chunk_writer(AnswerFrame frame,
                                                const text::Tokenizer& tokenizer) {
  return std::make_unique<ChunkWriter>(std::move(frame), tokenizer);
}

}  // namespace thimble::server
