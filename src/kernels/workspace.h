// Scratch memory for one forward step: blocks that are handed out, and taken back all at once.
//
// Grows to the largest step seen and then allocates nothing. Not thread-safe: taken by the thread
// that drives the step, which hands pieces to the workers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace thimble::kernels {

class Workspace {
 public:
  // Uninitialised, 64-byte aligned, valid until the enclosing Mark is gone.
  template <class T>
  std::span<T> take(uint64_t count) {
    return {static_cast<T*>(take_bytes(count * sizeof(T))), count};
  }

  // Gives back what was taken since its construction.
  class Mark {
   public:
    explicit Mark(Workspace& workspace);
    ~Mark();
    Mark(const Mark&) = delete;
    Mark& operator=(const Mark&) = delete;

   private:
    Workspace& workspace_;
    size_t block_;
    uint64_t used_;
  };

  uint64_t capacity_bytes() const;

 private:
  struct Block {
    std::unique_ptr<std::byte[]> storage;
    std::byte* base = nullptr;
    uint64_t bytes = 0;
    uint64_t used = 0;
  };
  void* take_bytes(uint64_t bytes);
  void grow(uint64_t bytes);
  void merge();  // several empty blocks to one
  std::vector<Block> blocks_;
  size_t current_ = 0;
};

}  // namespace thimble::kernels
