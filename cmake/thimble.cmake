# thimble_module(): one static library per folder of src/, linked by the arrows of layers.txt.

option(THIMBLE_BUILD_TESTS "Build unit, golden and end-to-end tests" OFF)
option(THIMBLE_BUILD_BENCH "Build the benchmarks in bench/" OFF)
option(THIMBLE_BUILD_FUZZ "Build the fuzz targets in fuzz/ (needs clang)" OFF)
set(THIMBLE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

add_library(thimble_flags INTERFACE)
target_compile_features(thimble_flags INTERFACE cxx_std_20)
target_include_directories(thimble_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_options(thimble_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
  # GCC 12 sees overlapping copies in std::string::insert that are not there (its bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # One value of a float expression on every machine: fma only where the source says fma.
  -ffp-contract=off -fno-fast-math)
if(THIMBLE_SANITIZE)
  target_compile_options(thimble_flags INTERFACE
    -fsanitize=${THIMBLE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(thimble_flags INTERFACE -fsanitize=${THIMBLE_SANITIZE})
endif()

file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/layers.txt layer_lines REGEX "^[a-z]+:")
foreach(line IN LISTS layer_lines)
  string(REGEX MATCH "^[a-z]+" module "${line}")
  string(REGEX REPLACE "^[a-z]+: *" "" deps "${line}")
  separate_arguments(deps)
  set(THIMBLE_DEPS_${module} ${deps})
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/layers.txt)

# thimble_module(name SOURCES a.cc ... [LIBS external ...] [TESTS a_test.cc ...])
function(thimble_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS;TESTS" ${ARGN})
  add_library(thimble_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(thimble_${name} PUBLIC thimble_flags PRIVATE ${ARG_LIBS})
  foreach(dep IN LISTS THIMBLE_DEPS_${name})
    target_link_libraries(thimble_${name} PUBLIC thimble_${dep})
  endforeach()
  if(THIMBLE_BUILD_TESTS AND ARG_TESTS)
    thimble_test(${name}_test SOURCES ${ARG_TESTS} DEPS thimble_${name} LABELS fast)
  endif()
endfunction()

# thimble_test(name SOURCES ... DEPS targets ... [LABELS ...] [ARGS ...]): one GoogleTest program.
function(thimble_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS;ARGS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})  # "tests/golden/golden.h"
  target_compile_definitions(${name} PRIVATE THIMBLE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 1800)
endfunction()
