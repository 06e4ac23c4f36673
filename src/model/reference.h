// The whole text backbone in one readable file: double precision, no cleverness. The oracle of
// every other path, and the place to learn the architecture from.
//
// A rounding policy gives the numeric modes (docs/numerics.md): exact and nokvq compute in double
// throughout, actq adds the published FP8 rounding of activations, official rounds to BF16 wherever
// the published reference stores BF16. Not thread-safe; slow on purpose.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "arch/checkpoint.h"
#include "base/result.h"
#include "model/forward.h"
#include "model/trace.h"

namespace thimble::model {

enum class ReferenceMode { kExact, kNokvq, kActq, kOfficial };

struct ReferenceOptions {
  ReferenceMode mode = ReferenceMode::kExact;
  IndexKeys index_keys = IndexKeys::kOwn;
  std::span<const int32_t> token_map;
  bool rope_in_double = false;  // unrounded rotary tables: "Mode E" of backbone spec 11.3
};

class Reference {
 public:
  static Result<std::unique_ptr<Reference>> create(const arch::Checkpoint& checkpoint,
                                                   const ReferenceOptions& options);
  ~Reference();

  // Appends `ids` to the one sequence this object holds and returns logits [ids, vocab_size].
  Result<std::vector<float>> forward(std::span<const int32_t> ids, Trace* trace = nullptr);

  // Goes back to `begin`, as a bounded replay after a hit of `hit` tokens does: entries below the
  // hit stay, window keys go. The next forward() calls run the tokens from `begin` on again; in the
  // decoder half only those from `kept` on, and only these have logits. No window key below `begin`
  // (in the decoder half: `kept`) is read. Serving spec 5.1, 6.1.
  void resume(uint64_t hit, uint64_t begin, uint64_t kept);

 private:
  struct Impl;
  explicit Reference(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace thimble::model
