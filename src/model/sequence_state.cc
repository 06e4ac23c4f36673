#include "model/sequence_state.h"

#include <cstring>

#include "base/bytes.h"

namespace thimble::model {
namespace {

// position; per owner: token + 1 (0: none), values, value[], gate[]; per layer: window begin. All
// counts are 64-bit, little-endian.
class Writer {
 public:
  void number(uint64_t value) { raw(&value, sizeof(value)); }
  void floats(const std::vector<float>& values) { raw(values.data(), values.size() * 4); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void raw(const void* from, size_t count) {
    const auto* first = static_cast<const std::byte*>(from);
    bytes_.insert(bytes_.end(), first, first + count);
  }
  std::vector<std::byte> bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  bool number(uint64_t& value) {
    if (left_.size() < sizeof(value)) return false;
    value = base::load<uint64_t>(left_.data());
    left_ = left_.subspan(sizeof(value));
    return true;
  }
  bool floats(uint64_t count, std::vector<float>& values) {
    if (left_.size() / sizeof(float) < count) return false;
    values.resize(count);
    if (count == 0) return true;
    std::memcpy(values.data(), left_.data(), count * sizeof(float));
    left_ = left_.subspan(count * sizeof(float));
    return true;
  }
  bool done() const { return left_.empty(); }

 private:
  std::span<const std::byte> left_;
};

bool read_half_pair(Reader& reader, HalfPair& pair) {
  uint64_t token = 0, count = 0;
  if (!reader.number(token) || !reader.number(count)) return false;
  if (token > 0) pair.token = token - 1;
  return reader.floats(count, pair.value) && reader.floats(count, pair.gate);
}

}  // namespace

std::vector<std::byte> to_bytes(const SequenceState& state) {
  Writer writer;
  writer.number(state.position);
  for (const HalfPair& pair : state.half_pairs) {
    writer.number(pair.token ? *pair.token + 1 : 0);
    writer.number(pair.value.size());
    writer.floats(pair.value);
    writer.floats(pair.gate);
  }
  for (const WindowSpan& span : state.windows) writer.number(span.begin);
  return writer.take();
}

Result<void> restore_bytes(std::span<const std::byte> bytes, SequenceState& state) {
  const auto corrupt = [&](const char* what) {
    return base::fail(ErrorCode::kCorrupt, "snapshot state of {} bytes for position {}: {}",
                      bytes.size(), state.position, what);
  };
  SequenceState read = state;
  Reader reader(bytes);
  uint64_t position = 0;
  if (!reader.number(position)) return corrupt("it is empty");
  if (position != state.position && position != state.position + 1) {
    return corrupt("it belongs to another position");
  }
  for (HalfPair& pair : read.half_pairs) {
    if (!read_half_pair(reader, pair)) return corrupt("it ends within an open group");
    if (pair.token && *pair.token >= position) return corrupt("an open group lies beyond it");
    if (pair.token == read.position) pair = {};  // the token that the state goes back by
  }
  for (WindowSpan& span : read.windows) {
    if (!reader.number(span.begin)) return corrupt("it ends within the windows");
    if (span.begin > read.position) return corrupt("a window begins beyond it");
    span.end = read.position;
  }
  if (!reader.done()) return corrupt("it is too long");
  state = std::move(read);
  return {};
}

}  // namespace thimble::model
