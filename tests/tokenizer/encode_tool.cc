// Encodes texts for comparison with another tokenizer.
//
//   encode_tool TOKENIZER.json TEXTS IDS [--plain]
//     TEXTS: repeated { u32 byte count, bytes }; IDS: repeated { u32 id count, i32 ids }.
//   encode_tool --byte-tokenizer
//     Prints the tokenizer.json that `thimble init` writes.
//   encode_tool --unassigned
//     Prints the code points that the regex engine's Unicode version does not know, as ranges
//     "first last" in hexadecimal, one a line. The comparison leaves them out: engines of another
//     Unicode version put newer characters in other classes.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/file.h"
#include "text/byte_tokenizer.h"
#include "text/internal/regex_splitter.h"
#include "text/tokenizer.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

int fail_with(const Error& error) {
  fmt::print(stderr, "encode_tool: {}\n", error.describe());
  return 1;
}

Result<std::string> encode_all(const Tokenizer& tokenizer, std::string_view texts,
                               AddedTokens added) {
  std::string out;
  while (!texts.empty()) {
    if (texts.size() < sizeof(uint32_t)) {
      return base::fail(ErrorCode::kCorrupt, "texts end inside a length");
    }
    const auto bytes = base::load<uint32_t>(texts.data());
    texts.remove_prefix(sizeof(uint32_t));
    if (texts.size() < bytes) return base::fail(ErrorCode::kCorrupt, "texts end inside a text");
    const auto ids = tokenizer.encode(texts.substr(0, bytes), added);
    texts.remove_prefix(bytes);
    const auto count = static_cast<uint32_t>(ids.size());
    out.append(reinterpret_cast<const char*>(&count), sizeof(count));
    out.append(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(int32_t));
  }
  return out;
}

int encode_file(const Path& model, const Path& texts_file, const Path& ids_file,
                AddedTokens added) {
  const auto tokenizer = Tokenizer::open(model);
  if (!tokenizer) return fail_with(tokenizer.error());
  const auto texts = base::read_file(texts_file);
  if (!texts) return fail_with(texts.error());
  const auto ids = encode_all(*tokenizer, *texts, added);
  if (!ids) return fail_with(ids.error());
  const auto written = base::write_file_atomic(ids_file, *ids);
  return written ? 0 : fail_with(written.error());
}

int print_unassigned() {
  const std::string pattern = "\\p{Cn}+";
  const auto splitter = RegexSplitter::compile({&pattern, 1});
  if (!splitter) return fail_with(splitter.error());
  std::string all;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c < 0xD800 || c > 0xDFFF) append_utf8(c, all);
  }
  RegexSplitter::Scratch scratch;
  uint32_t begin = 0;
  bool unassigned = false;  // U+0000 is assigned; pieces alternate from there.
  for (const uint32_t end : splitter->split(all, scratch)) {
    const std::string_view piece = std::string_view(all).substr(begin, end - begin);
    size_t last = piece.size() - 1;
    while ((static_cast<uint8_t>(piece[last]) & 0xC0) == 0x80) --last;
    if (unassigned) {
      fmt::print("{:X} {:X}\n", static_cast<uint32_t>(next_code_point(piece).code_point),
                 static_cast<uint32_t>(next_code_point(piece.substr(last)).code_point));
    }
    unassigned = !unassigned;
    begin = end;
  }
  return 0;
}

int run(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--unassigned") return print_unassigned();
  if (argc == 2 && std::string_view(argv[1]) == "--byte-tokenizer") {
    fmt::print("{}", make_byte_tokenizer_json());
    return 0;
  }
  const bool plain = argc == 5 && std::string_view(argv[4]) == "--plain";
  if (argc != 4 && !plain) {
    fmt::print(stderr,
               "usage: encode_tool TOKENIZER.json TEXTS IDS [--plain] | --byte-tokenizer | "
               "--unassigned\n");
    return 2;
  }
  return encode_file(argv[1], argv[2], argv[3], plain ? AddedTokens::kPlain : AddedTokens::kMatch);
}

}  // namespace
}  // namespace thimble::text

int main(int argc, char** argv) { return thimble::text::run(argc, argv); }
