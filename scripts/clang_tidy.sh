#!/bin/sh
# clang-tidy over every source of the dev build, by as many processes as the argument says; with
# more arguments, over those files only.
set -eu
cd "$(dirname "$0")/.."
jobs=${1:-2}
[ $# -gt 0 ] && shift

tool=clang-tidy-14
command -v $tool >/dev/null 2>&1 || tool=clang-tidy

[ $# -gt 0 ] || set -- $(find src apps -name '*.cc' ! -name '*_test.cc' | sort)
printf '%s\n' "$@" | xargs -n 1 -P "$jobs" "$tool" --quiet -p build/dev \
  --extra-arg=-Wno-unknown-warning-option  # the build's flags are GCC's
