#include "text/encoding_texts.h"

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/sha256.h"
#include "text/utf8.h"

namespace thimble::text {
namespace {

using base::fail;

constexpr uint64_t kTextBytesMax = 1 << 20;
constexpr const char* kFolder = "encoding";

struct TextFile {
  const char* name;
  std::string EncodingTexts::*text;
  std::string_view digest;  // of the released model's
};

constexpr std::array<TextFile, 3> kFiles{{
    {"tools_head.txt", &EncodingTexts::tools_head,
     "2ae2ff83edf990187ed419c4e2901bb9ea6ce2129eb503ac543b258e7de8231d"},
    {"tools_tail.txt", &EncodingTexts::tools_tail,
     "690702850fe256512cb1ee67c4e436ecb3e735c71ebee77ca45ff357a75fb5a7"},
    {"response_format.txt", &EncodingTexts::response_format,
     "5200f58413f49f3957c43beddbc97bead023232cb5934fad0c1997c30c139112"},
}};

Result<std::string> open_text(const Path& path, std::string_view digest) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::string();
  std::string text = THIMBLE_TRY(base::read_file(path, kTextBytesMax));
  if (text.empty() || !is_valid_utf8(text)) {
    return fail(ErrorCode::kCorrupt, "{} has {} bytes, expected a text in UTF-8", path.string(),
                text.size());
  }
  const std::string found = base::sha256_hex(text);
  if (digest.empty() || digest == found) return text;
  return fail(ErrorCode::kCorrupt,
              "{} is not the released model's: its SHA-256 is {} ({} bytes), expected {}",
              path.string(), found, text.size(), digest);
}

}  // namespace

Result<EncodingTexts> open_encoding_texts(const Path& model_dir, TextsOf of) {
  EncodingTexts texts;
  const Path folder = model_dir / kFolder;
  for (const TextFile& file : kFiles) {
    const bool released = of == TextsOf::kReleasedModel;
    texts.*file.text = THIMBLE_TRY(open_text(folder / file.name, released ? file.digest : ""));
  }
  if (texts.tools_head.empty() == texts.tools_tail.empty()) return texts;
  return fail(ErrorCode::kCorrupt, "{} has {} without {}", folder.string(),
              texts.tools_head.empty() ? "tools_tail.txt" : "tools_head.txt",
              texts.tools_head.empty() ? "tools_head.txt" : "tools_tail.txt");
}

EncodingTexts own_encoding_texts() {
  return {.tools_head =
              "## Functions\n\n"
              "The functions below can be called. A call looks so, with as many functions and "
              "parameters as are needed:\n\n"
              "<｜DSML｜ calls>\n"
              "<｜DSML｜ invoke name=\"FUNCTION\">\n"
              "<｜DSML｜ parameter name=\"TEXT_PARAMETER\" string=\"true\">its text</｜DSML｜ "
              "parameter>\n"
              "<｜DSML｜ parameter name=\"OTHER_PARAMETER\" string=\"false\">its JSON</｜DSML｜ "
              "parameter>\n"
              "</｜DSML｜ invoke>\n"
              "</｜DSML｜ calls>\n\n"
              "Each line describes one function:\n\n",
          .tools_tail = "\n\nOnly these functions exist, and only with these parameters.\n",
          .response_format = "## Form of the answer\n\nThe answer is one JSON value that fits:\n"};
}

Result<void> write_encoding_texts(const Path& model_dir, const EncodingTexts& texts) {
  const Path folder = model_dir / kFolder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return fail(ErrorCode::kIo, "cannot create {}: {}", folder.string(), error.message());
  for (const TextFile& file : kFiles) {
    if ((texts.*file.text).empty()) continue;
    THIMBLE_TRY(base::write_file_atomic(folder / file.name, texts.*file.text));
  }
  return {};
}

}  // namespace thimble::text
