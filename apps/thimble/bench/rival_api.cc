#include "apps/thimble/bench/rival_api.h"

#include <dlfcn.h>

namespace thimble::app {
namespace {

Result<void*> load(const Path& file) {
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return base::fail(ErrorCode::kNotFound, "the rival does not load: {}", ::dlerror());
}

// Functions of a library by name; the first that is missing is the result.
class Finder {
 public:
  explicit Finder(void* library) : library_(library) {}

  template <class F>
  void operator()(const char* name, F& function) {
    function = reinterpret_cast<F>(::dlsym(library_, name));
    if (function != nullptr || !result_) return;
    result_ = base::fail(ErrorCode::kUnsupported,
                         "the rival has no {}: expected node-llama-cpp 3.21.1", name);
  }
  const Result<void>& result() const { return result_; }

 private:
  void* library_;
  Result<void> result_;
};

Result<void> find_base(void* library, RivalApi& api) {
  Finder find(library);
  find("ggml_log_set", api.log_set);
  find("ggml_init", api.init);
  find("ggml_free", api.free);
  find("ggml_new_tensor_2d", api.new_tensor_2d);
  find("ggml_mul_mat", api.mul_mat);
  find("ggml_new_graph_custom", api.new_graph_custom);
  find("ggml_build_forward_expand", api.build_forward_expand);
  find("ggml_nbytes", api.nbytes);
  find("ggml_threadpool_params_init", api.threadpool_params_init);
  find("ggml_backend_buft_alloc_buffer", api.buft_alloc_buffer);
  find("ggml_backend_buft_get_alloc_size", api.buft_get_alloc_size);
  find("ggml_backend_buffer_get_base", api.buffer_get_base);
  find("ggml_backend_buffer_free", api.buffer_free);
  find("ggml_backend_tensor_alloc", api.tensor_alloc);
  find("ggml_backend_tensor_set", api.tensor_set);
  find("ggml_backend_get_default_buffer_type", api.get_default_buffer_type);
  find("ggml_backend_dev_supports_op", api.dev_supports_op);
  find("ggml_backend_reg_dev_get", api.reg_dev_get);
  find("ggml_backend_reg_get_proc_address", api.reg_get_proc_address);
  find("ggml_backend_graph_compute", api.graph_compute);
  find("ggml_backend_free", api.backend_free);
  return find.result();
}

Result<void> find_variant(void* library, RivalApi& api) {
  Finder find(library);
  find("ggml_backend_cpu_reg", api.cpu_reg);
  find("ggml_backend_cpu_init", api.cpu_init);
  find("ggml_backend_cpu_set_n_threads", api.cpu_set_n_threads);
  find("ggml_backend_cpu_set_threadpool", api.cpu_set_threadpool);
  find("ggml_threadpool_new", api.threadpool_new);
  find("ggml_threadpool_pause", api.threadpool_pause);
  find("ggml_threadpool_free", api.threadpool_free);
  return find.result();
}

Path library_of(const Path& folder, std::string_view variant) {
  return folder / fmt::format("libggml-cpu-{}.so", variant);
}

}  // namespace

Result<RivalApi> load_rival(const Path& folder, std::string_view variant) {
  RivalApi api{};
  void* const base_library = THIMBLE_TRY(load(folder / "libggml-base.so"));
  THIMBLE_TRY(find_base(base_library, api));
  api.log_set([](int, const char*, void*) {}, nullptr);
  void* const library = THIMBLE_TRY(load(library_of(folder, variant)));
  THIMBLE_TRY(find_variant(library, api));
  return api;
}

Result<bool> runs_here(const Path& folder, std::string_view variant) {
  void* const library = THIMBLE_TRY(load(library_of(folder, variant)));
  Finder find(library);
  int (*score)() = nullptr;
  find("ggml_backend_score", score);
  THIMBLE_TRY(Result<void>(find.result()));
  return score() > 0;
}

}  // namespace thimble::app
