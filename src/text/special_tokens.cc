#include "text/special_tokens.h"

#include <algorithm>
#include <string>
#include <utility>

namespace thimble::text {
namespace {

constexpr std::string_view kMultiModalPrefix = "<|place_holder_mm_span_";
constexpr std::string_view kImagePadText = "<｜rl_image_pad｜>";
constexpr std::string_view kImageStartText = "<｜rl_image_start｜>";

// "<|place_holder_mm_span_0021|>" and its like, of any number.
bool is_multi_modal_place_holder(std::string_view content) {
  if (!content.starts_with(kMultiModalPrefix) || !content.ends_with("|>")) return false;
  content.remove_prefix(kMultiModalPrefix.size());
  if (content.size() <= 2) return false;
  content.remove_suffix(2);
  return std::all_of(content.begin(), content.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

Result<SpecialTokens> resolve_chat_tokens(const Tokenizer& tokenizer) {
  SpecialTokens tokens;
  std::string missing;
  for (const auto& [text, id] :
       {std::pair{kBosText, &tokens.bos}, std::pair{kEosText, &tokens.eos},
        std::pair{kSystemText, &tokens.system}, std::pair{kUserText, &tokens.user},
        std::pair{kAssistantText, &tokens.assistant}, std::pair{kThinkOpenText, &tokens.think_open},
        std::pair{kThinkCloseText, &tokens.think_close}}) {
    if (const auto found = tokenizer.find_added(text)) {
      *id = *found;
    } else {
      missing.append(missing.empty() ? "" : ", ").append(text);
    }
  }
  if (!missing.empty()) {
    return base::fail(ErrorCode::kUnsupported,
                      "this model's tokenizer has no chat format: its added tokens lack {}",
                      missing);
  }
  tokens.pad = tokenizer.find_added(kPadText);
  tokens.dsml = tokenizer.find_added(kDsmlText);
  tokens.latest_reminder = tokenizer.find_added(kLatestReminderText);
  tokens.image = tokenizer.find_added(kImageText);
  return tokens;
}

bool is_control_token(const Tokenizer& tokenizer, int32_t id) {
  if (id < 0 || static_cast<uint32_t>(id) >= tokenizer.size() || !tokenizer.is_added(id)) {
    return false;
  }
  const std::string_view content = tokenizer.token_bytes(id);
  return (content.starts_with("<｜") && content.ends_with("｜>")) ||
         (content.starts_with("<|") && content.ends_with("|>")) || content == kDsmlText;
}

std::vector<int32_t> unsampled_tokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(tokenizer.size()); ++id) {
    if (!tokenizer.is_added(id)) continue;
    const std::string_view content = tokenizer.token_bytes(id);
    if (content == kImageText || content == kImagePadText || content == kImageStartText ||
        is_multi_modal_place_holder(content)) {
      ids.push_back(id);
    }
  }
  return ids;
}

}  // namespace thimble::text
