#include "cache/testing.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "arch/layer_plan.h"
#include "arch/presets.h"
#include "base/check.h"
#include "base/random.h"
#include "kernels/paged_rows.h"

namespace thimble::cache {
namespace {

using arch::kBlockTokens;

// hashes[i]: of the first i tokens.
std::vector<uint64_t> prefix_hashes(const TokenView& tokens, std::span<const int32_t> more = {}) {
  std::vector<uint64_t> hashes{1};
  size_t mark = 0;
  const auto add = [&](int32_t id) {
    uint64_t hash = base::mix64(hashes.back() * 31 + static_cast<uint64_t>(id) + 7);
    if (mark < tokens.marks.size() && tokens.marks[mark].position == hashes.size() - 1) {
      hash ^= base::load<uint64_t>(tokens.marks[mark++].identity.data());
    }
    hashes.push_back(hash);
  };
  for (const int32_t id : tokens.ids) add(id);
  for (const int32_t id : more) add(id);
  return hashes;
}

void fill(std::byte* to, uint64_t bytes, uint64_t seed) {
  base::SplitMix64 random(seed);
  for (uint64_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random.next() | 0x0101010101010101ULL;  // no byte is zero
    std::memcpy(to + i, &word, std::min<uint64_t>(8, bytes - i));
  }
}

void write_index_key(const kernels::PagedTiles& index, uint64_t entry, uint64_t seed) {
  std::byte* tile = index.tile(entry / kernels::kTileRows);
  const uint64_t column = entry % kernels::kTileRows;
  base::SplitMix64 random(seed);
  if (index.format == kernels::TileFormat::kFloat) {
    for (uint32_t d = 0; d < index.dims; ++d) {
      const auto value = static_cast<uint32_t>(random.next() | 1);
      std::memcpy(tile + (d * kernels::kTileRows + column) * 4, &value, 4);
    }
    return;
  }
  for (uint32_t d = 0; d < index.dims; ++d, tile += kernels::kTileRows / 2) {
    const auto code = static_cast<std::byte>((random.next() >> 60) | 1);
    std::byte& pair = tile[column / 2];
    pair =
        column % 2 == 0 ? (pair & std::byte{0xF0}) | code : (pair & std::byte{0x0F}) | (code << 4);
  }
  for (uint32_t g = 0; g < index.dims / 32; ++g, tile += kernels::kTileRows) {
    tile[column] = static_cast<std::byte>(random.next() | 1);
  }
}

}  // namespace

arch::Config small_config() {
  arch::Config config = arch::nano_config(256, 256);
  config.num_hidden_layers = 8;
  config.compress_ratios.resize(8);
  config.index_source_layer_ids = {2, 4, 6};
  config.head_dim = 32;
  config.index_head_dim = 32;
  config.sliding_window = 8;
  return config;
}

FakeModel::FakeModel(const arch::Config& config, arch::CacheFormat format)
    : config_(config), layout_(arch::make_cache_layout(config, format)) {}

void FakeModel::write_entries(const kernels::SequenceRows& rows, std::span<const uint64_t> hashes,
                              uint64_t from, uint64_t to, uint64_t private_from,
                              uint64_t taint) const {
  for (size_t o = 0; o < layout_.owners.size(); ++o) {
    const uint32_t ratio = layout_.owners[o].ratio;
    for (uint64_t e = arch::entries_after(from, ratio); e < arch::entries_after(to, ratio); ++e) {
      const uint64_t tokens = (e + 1) * ratio;
      uint64_t seed = base::mix64(hashes[tokens] + o + 1);
      if (tokens > private_from) seed ^= base::mix64(taint + 1);
      fill(rows.main[o].row(e), rows.main[o].row_bytes, seed);
      write_index_key(rows.index[o], e, ~seed);
    }
  }
}

void FakeModel::write_window_row(const kernels::RingRows& ring, std::byte* row, uint32_t layer,
                                 uint64_t hash) const {
  fill(row, ring.row_bytes, base::mix64(hash ^ (uint64_t{layer} + 1) << 32));
}

void FakeModel::write(Sequence& sequence, std::span<const int32_t> ids, uint64_t taint) const {
  const std::vector<uint64_t> hashes = prefix_hashes(sequence.tokens(), ids);
  const uint64_t from = sequence.length();
  const uint64_t to = from + ids.size();
  write_entries(sequence.rows(), hashes, from, to, sequence.private_from(), taint);
  for (uint32_t layer = 0; layer < layout_.window_layers; ++layer) {
    const kernels::RingRows& ring = sequence.rows().windows[layer];
    for (uint64_t p = from; p < to; ++p) {
      write_window_row(ring, ring.row(p), layer, hashes[p + 1]);
    }
  }
}

Result<void> FakeModel::append(Sequence& sequence, std::span<const int32_t> ids,
                               uint64_t taint) const {
  const uint64_t from = sequence.length();
  THIMBLE_TRY(sequence.reserve(from + ids.size()));
  write(sequence, ids, taint);
  sequence.commit(ids, entries_completed(layout_, from, from + ids.size()));
  return {};
}

void FakeModel::replay(Sequence& sequence, uint64_t from, uint64_t to) const {
  const std::vector<uint64_t> hashes = prefix_hashes(sequence.tokens());
  for (uint32_t layer = 0; layer < layout_.window_layers; ++layer) {
    const kernels::RingRows& ring = sequence.rows().windows[layer];
    for (uint64_t p = from; p < to; ++p) {
      write_window_row(ring, ring.row(p), layer, hashes[p + 1]);
    }
  }
  sequence.replayed(from, to);
}

std::vector<std::byte> FakeModel::state(const Sequence& sequence) {
  const std::vector<uint64_t> hashes = prefix_hashes(sequence.tokens());
  const std::array<uint64_t, 2> last{hashes.back(), hashes[hashes.size() - 2]};
  const auto bytes = std::as_bytes(std::span(last));
  return {bytes.begin(), bytes.end()};
}

bool FakeModel::is_state(Bytes model, const TokenView& tokens, const SnapshotUse& use) {
  const std::vector<uint64_t> hashes = prefix_hashes(tokens.slice(0, use.position));
  const uint64_t back = use.snapshot_position - use.position;
  return model.size() >= 16 && back <= 1 &&
         base::load<uint64_t>(model.data() + 8 * back) == hashes.back();
}

const std::vector<std::byte>& FakeModel::fresh_block(std::span<const uint64_t> hashes,
                                                     uint64_t page, uint64_t tokens,
                                                     uint64_t private_from, uint64_t taint) const {
  const uint64_t begin = page * kBlockTokens;
  const uint64_t end = begin + tokens;
  private_from = std::max(std::min(private_from, end), begin);
  if (private_from == end) taint = 0;
  std::vector<std::byte>& block = fresh_[{hashes[end], end, private_from, taint}];
  if (!block.empty()) return block;
  block.resize(layout_.block_bytes);
  std::vector<std::byte*> pages(page + 1, block.data());
  kernels::SequenceRows rows;
  for (const arch::OwnerLayout& owner : layout_.owners) {
    const bool packed = layout_.format == arch::CacheFormat::kPacked;
    rows.main.push_back({.pages = pages.data(),
                         .offset_bytes = owner.main_offset_bytes,
                         .rows_per_page = owner.entries_per_block,
                         .row_bytes = owner.main_row_bytes});
    rows.index.push_back(
        {.pages = pages.data(),
         .offset_bytes = owner.index_offset_bytes,
         .tiles_per_page = owner.entries_per_block / kernels::kTileRows,
         .tile_bytes = kernels::kTileRows * owner.index_row_bytes,
         .dims = config_.index_head_dim,
         .format = packed ? kernels::TileFormat::kMxfp4 : kernels::TileFormat::kFloat});
  }
  write_entries(rows, hashes, begin, end, private_from, taint);
  return block;
}

std::string FakeModel::differences(const Sequence& sequence, uint64_t taint) const {
  const std::vector<uint64_t> hashes = prefix_hashes(sequence.tokens());
  const uint64_t length = sequence.length();
  for (uint64_t page = 0; page * kBlockTokens < length && layout_.block_bytes > 0; ++page) {
    const uint64_t tokens = std::min<uint64_t>(kBlockTokens, length - page * kBlockTokens);
    const auto& fresh = fresh_block(hashes, page, tokens, sequence.private_from(), taint);
    const std::byte* const found = sequence.rows().main[0].pages[page];
    const auto at = std::mismatch(fresh.begin(), fresh.end(), found);
    if (at.first != fresh.end()) {
      return fmt::format("page {} of {} tokens differs at byte {}", page, length,
                         at.first - fresh.begin());
    }
  }
  std::vector<std::byte> fresh(layout_.window_row_bytes);
  for (uint32_t layer = 0; layer < layout_.window_layers; ++layer) {
    const kernels::RingRows& ring = sequence.rows().windows[layer];
    for (uint64_t p = sequence.window_begin(); p < sequence.window_end(); ++p) {
      write_window_row(ring, fresh.data(), layer, hashes[p + 1]);
      if (!std::equal(fresh.begin(), fresh.end(), ring.row(p))) {
        return fmt::format("window row {} of layer {} differs", p, layer);
      }
    }
  }
  return "";
}

std::vector<int32_t> text_ids(uint64_t size, uint64_t text, uint64_t common) {
  std::vector<int32_t> ids;
  for (uint64_t i = 0; i < size; ++i) {
    const uint64_t hash = base::mix64(i + 1);
    const uint64_t own = i < common ? 0 : text;
    ids.push_back(static_cast<int32_t>(hash % 1000 * 10 + own));
  }
  return ids;
}

CacheIdentity identity(std::string salt) {
  CacheIdentity made;
  made.salt = std::move(salt);
  return made;
}

PagedCacheOptions small_pool(const FakeModel& model, uint64_t blocks) {
  PagedCacheOptions options;
  options.pool_bytes = blocks * ((model.layout().block_bytes + 63) / 64 * 64);
  options.snapshot_bytes = 0;
  options.clock_us = [] { return int64_t{0}; };
  return options;
}

std::unique_ptr<PagedCache> make_cache(const FakeModel& model, const PagedCacheOptions& options) {
  auto cache = PagedCache::create(model.config(), model.layout(), options);
  CHECK(cache.has_value());
  return std::move(*cache);
}

std::unique_ptr<Sequence> run(PagedCache& cache, const FakeModel& model,
                              std::span<const int32_t> ids, const CacheIdentity& of) {
  auto sequence = cache.open_empty(of, ids.size() + 1000);
  CHECK(sequence.has_value());
  CHECK(model.append(**sequence, ids).has_value());
  return std::move(*sequence);
}

std::string violation(const PagedCache& cache) {
  const auto sound = cache.check_integrity();
  return sound ? "" : sound.error().describe();
}

uint64_t hit_of(PagedCache& cache, std::span<const int32_t> prompt, const CacheIdentity& of) {
  return cache.match(of, prompt, Exactness::kExact)->hit();
}

}  // namespace thimble::cache
