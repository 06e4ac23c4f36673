// Assertions for mistakes in this program: CHECK aborts in every build, DCHECK only where NDEBUG is
// not set. The world being wrong (files, requests, memory) is a Result, see result.h.
#pragma once

#include <sstream>
#include <string>

namespace thimble::base {

// Prints `file:line: CHECK(expression) failed: detail` to standard error and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               const std::string& detail);

template <class A, class B>
std::string both_sides(const A& a, const B& b) {
  std::ostringstream out;
  out << +a << " vs " << +b;
  return out.str();
}

}  // namespace thimble::base

#define CHECK(condition)                                                            \
  do {                                                                              \
    if (!(condition)) [[unlikely]]                                                  \
      ::thimble::base::check_failed(__FILE__, __LINE__, #condition, std::string()); \
  } while (false)

#define CHECK_OP_(a, op, b)                                                           \
  do {                                                                                \
    const auto& check_a_ = (a);                                                       \
    const auto& check_b_ = (b);                                                       \
    if (!(check_a_ op check_b_)) [[unlikely]]                                         \
      ::thimble::base::check_failed(__FILE__, __LINE__, #a " " #op " " #b,            \
                                    ::thimble::base::both_sides(check_a_, check_b_)); \
  } while (false)

#define CHECK_EQ(a, b) CHECK_OP_(a, ==, b)
#define CHECK_NE(a, b) CHECK_OP_(a, !=, b)
#define CHECK_LE(a, b) CHECK_OP_(a, <=, b)
#define CHECK_LT(a, b) CHECK_OP_(a, <, b)
#define CHECK_GE(a, b) CHECK_OP_(a, >=, b)

#ifdef NDEBUG
#define DCHECK(condition) static_cast<void>(sizeof(condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif
