// Speed of encoding and decoding one file of text, one thread. Prints one JSON line.
//
//   tokenizer_bench TOKENIZER.json TEXT [CHUNK_BYTES]
//
// The text is encoded in chunks (default 64 KiB, cut anywhere), as requests would bring it. Checks
// that decoding gives the text back before it times anything; reports the best of several passes,
// in processor time, which a busy machine disturbs least. bench/tokenizer_compare.mjs runs it
// beside another implementation.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "text/tokenizer.h"

namespace thimble::text {
namespace {

constexpr int kPasses = 7;

template <class Function>
double best_seconds(Function&& function) {
  double best = 1e30;
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::clock_t begin = std::clock();
    function();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

int fail_with(const std::string& message) {
  fmt::print(stderr, "tokenizer_bench: {}\n", message);
  return 1;
}

int run(const Path& model, const Path& file, size_t chunk_bytes) {
  const std::string json = base::read_file(model).value_or("");
  const auto tokenizer = Tokenizer::parse(json);
  if (!tokenizer) return fail_with(tokenizer.error().describe());
  const auto text = base::read_file(file);
  if (!text) return fail_with(text.error().describe());

  std::vector<std::vector<int32_t>> ids;
  const auto encode_all = [&] {
    ids.clear();
    for (size_t at = 0; at < text->size(); at += chunk_bytes) {
      const std::string_view chunk = std::string_view(*text).substr(at, chunk_bytes);
      ids.push_back(tokenizer->encode(chunk, AddedTokens::kPlain));
    }
  };
  std::string decoded;
  size_t count = 0;
  const auto decode_all = [&] {
    decoded.clear();
    count = 0;
    for (const auto& chunk : ids) {
      decoded += tokenizer->decode(chunk).value_or("");
      count += chunk.size();
    }
  };
  encode_all();
  decode_all();
  if (decoded != *text) return fail_with("decode(encode(text)) differs from the text");

  const double megabytes = static_cast<double>(text->size()) / 1e6;
  const double load = best_seconds([&] { (void)Tokenizer::parse(json); });
  const double encode = best_seconds(encode_all);
  const double decode = best_seconds(decode_all);
  fmt::print(
      "{{\"subject\": \"tokenizer\", \"file\": \"{}\", \"megabytes\": {:.2f}, "
      "\"bytes_per_token\": {:.2f}, \"load_ms\": {:.0f}, \"encode_mb_per_s\": {:.1f}, "
      "\"decode_mb_per_s\": {:.0f}}}\n",
      file.filename().string(), megabytes, megabytes * 1e6 / static_cast<double>(count), load * 1e3,
      megabytes / encode, megabytes / decode);
  return 0;
}

}  // namespace
}  // namespace thimble::text

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) {
    std::fputs("usage: tokenizer_bench TOKENIZER.json TEXT [CHUNK_BYTES]\n", stderr);
    return 2;
  }
  size_t chunk_bytes = 64 << 10;
  if (argc == 4) {
    const std::string_view given = argv[3];
    const auto [end, error] =
        std::from_chars(given.data(), given.data() + given.size(), chunk_bytes);
    if (error != std::errc() || end != given.data() + given.size() || chunk_bytes == 0) return 2;
  }
  return thimble::text::run(argv[1], argv[2], chunk_bytes);
}
