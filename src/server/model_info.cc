#include "base/clock.h"
#include "server/generator.h"

namespace thimble::server {

ModelInfo make_model_info(std::string name, uint64_t context_tokens,
                          const text::Tokenizer& tokenizer) {
  ModelInfo info;
  info.name = std::move(name);
  info.created = base::wall_seconds();
  info.context_tokens = context_tokens;
  info.vocab_size = tokenizer.size();
  info.tokenizer = &tokenizer;
  info.trie = std::make_shared<text::TokenTrie>(tokenizer);
  info.chat_tokens = text::resolve_chat_tokens(tokenizer);
  info.bos = tokenizer.find_added(text::kBosText);
  info.eos = tokenizer.find_added(text::kEosText);
  return info;
}

}  // namespace thimble::server
