// A golden model with its inputs, opened once per test: t1_mini or t2_text_minimal.
#pragma once

#include <string>
#include <vector>

#include "arch/checkpoint.h"
#include "base/check.h"
#include "tests/golden/golden.h"

namespace thimble::golden {

struct ModelCase {
  explicit ModelCase(const std::string& name_) : name(name_), checkpoint(open_checkpoint()) {
    const auto inputs = vectors("inputs");
    const auto tokens = view(inputs, "tokens").as<int32_t>();
    total = static_cast<size_t>(view(inputs, "total_len").as<int32_t>()[0]);
    prefill = static_cast<size_t>(view(inputs, "prefill_len").as<int32_t>()[0]);
    ids.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(total));
    if (const auto map = inputs.get("token_map")) {
      token_map.assign(map->as<int32_t>().begin(), map->as<int32_t>().end());
    }
  }

  arch::SafetensorsFile vectors(const std::string& file) const {
    return open(name + "/vectors/" + file + ".safetensors");
  }

  std::string name;
  arch::Checkpoint checkpoint;
  std::vector<int32_t> ids;        // [total]
  std::vector<int32_t> token_map;  // empty without Engram
  size_t total = 0;
  size_t prefill = 0;

 private:
  arch::Checkpoint open_checkpoint() const {
    auto opened = arch::Checkpoint::open(path(name + "/model"));
    if (!opened) {
      base::check_failed(__FILE__, __LINE__, "golden model opens", opened.error().describe());
    }
    return std::move(*opened);
  }
};

}  // namespace thimble::golden
