// The functions of ggml's C interface that a measurement calls, found in its shared libraries.
//
// Its objects stay opaque; signatures are those of node-llama-cpp 3.21.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/file.h"

namespace thimble::app {

struct RivalInit {
  size_t bytes;
  void* memory;
  bool no_data;
};

// How every tensor of it begins.
struct RivalTensor {
  int type;
  void* buffer;
};

struct RivalApi {
  // Of libggml-base.so.
  void (*log_set)(void (*)(int, const char*, void*), void*);
  void* (*init)(RivalInit);
  void (*free)(void*);
  RivalTensor* (*new_tensor_2d)(void*, int, int64_t, int64_t);
  RivalTensor* (*mul_mat)(void*, RivalTensor*, RivalTensor*);
  void* (*new_graph_custom)(void*, size_t, bool);
  void (*build_forward_expand)(void*, RivalTensor*);
  size_t (*nbytes)(const RivalTensor*);
  void (*threadpool_params_init)(void*, int);
  void* (*buft_alloc_buffer)(void*, size_t);
  size_t (*buft_get_alloc_size)(void*, const RivalTensor*);
  void* (*buffer_get_base)(void*);
  void (*buffer_free)(void*);
  int (*tensor_alloc)(void*, RivalTensor*, void*);
  void (*tensor_set)(RivalTensor*, const void*, size_t, size_t);
  void* (*get_default_buffer_type)(void*);
  bool (*dev_supports_op)(void*, const RivalTensor*);
  void* (*reg_dev_get)(void*, size_t);
  void* (*reg_get_proc_address)(void*, const char*);
  int (*graph_compute)(void*, void*);
  void (*backend_free)(void*);
  // Of one libggml-cpu-VARIANT.so.
  void* (*cpu_reg)();
  void* (*cpu_init)();
  void (*cpu_set_n_threads)(void*, int);
  void (*cpu_set_threadpool)(void*, void*);
  void* (*threadpool_new)(void*);
  void (*threadpool_pause)(void*);  // until the next product
  void (*threadpool_free)(void*);
};

// Libraries stay loaded until the process ends.
Result<RivalApi> load_rival(const Path& folder, std::string_view variant);

// Whether this CPU runs the variant.
Result<bool> runs_here(const Path& folder, std::string_view variant);

}  // namespace thimble::app
