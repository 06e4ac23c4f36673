// Control tokens of the model family, known by their text alone (spec/chat-format.md section 2).
//
// Ids differ between vocabularies and are never written down here: they are looked up in a
// tokenizer once. The bar in the texts is U+FF5C, the low block U+2581.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace thimble::text {

inline constexpr std::string_view kBosText = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEosText = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kPadText = "<｜▁pad▁｜>";
inline constexpr std::string_view kSystemText = "<｜System｜>";
inline constexpr std::string_view kUserText = "<｜User｜>";
inline constexpr std::string_view kAssistantText = "<｜Assistant｜>";
inline constexpr std::string_view kThinkOpenText = "<think>";
inline constexpr std::string_view kThinkCloseText = "</think>";
inline constexpr std::string_view kDsmlText = "｜DSML｜";
inline constexpr std::string_view kLatestReminderText = "<｜latest_reminder｜>";
inline constexpr std::string_view kImageText = "<｜deepseek_image｜>";

// Ids of the control tokens. A raw completion needs only BOS and EOS: find_added(kBosText).
struct SpecialTokens {
  int32_t bos = -1;
  int32_t eos = -1;  // Closes every assistant turn; the only stop id.
  int32_t system = -1;
  int32_t user = -1;
  int32_t assistant = -1;
  int32_t think_open = -1;
  int32_t think_close = -1;
  // Those that some requests do without.
  std::optional<int32_t> pad;
  std::optional<int32_t> dsml;
  std::optional<int32_t> latest_reminder;
  std::optional<int32_t> image;
};

// Fails with all missing texts by name: such a tokenizer serves completions, not chat.
Result<SpecialTokens> resolve_chat_tokens(const Tokenizer& tokenizer);

// Is this id a control token: an added token whose text stands between bars (`<｜User｜>`,
// `<|EOT|>`, `｜DSML｜`)? A model may sample one where none belongs; readers are not shown it. The
// think markers are none: they are text of the answer until somebody takes reasoning apart. False
// for ids that the tokenizer does not know.
bool is_control_token(const Tokenizer& tokenizer, int32_t id);

// Ids that must never be sampled, ascending: the multi-modal place holders and image markers. Fed
// back, they would poison the n-gram history and the vision routing.
std::vector<int32_t> unsampled_tokens(const Tokenizer& tokenizer);

}  // namespace thimble::text
