#!/bin/sh
# Installs what thimble needs from the distribution. `make deps`, `make deps-test`, `make deps-dev`
# and `make deps-train` call it with build, test, dev or train; asking again is quick and changes
# nothing.
#
# Written for Debian 12 and tried on it; Ubuntu 24.04 has the same package names. On systems without
# apt it prints the list and leaves the installing to the reader.
set -eu

usage() {
  echo "usage: $0 build|test|dev|train" >&2
  exit 2
}

# What building and serving need.
build_packages='g++ make cmake ninja-build pkg-config ccache
  libfmt-dev libspdlog-dev libexpected-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev
  libicu-dev libpcre2-dev libedit-dev libboost-dev libxxhash-dev
  prometheus-cpp-dev'

# What only tests need, beside Node.js, npm and a browser, which are looked for on PATH first.
test_packages='libgtest-dev libgmock-dev clang-format-14 ca-certificates'

# What only `make tidy` and the fuzz preset need.
dev_packages='clang clang-tidy-14 libclang-rt-dev'

# What only `thimble train` needs. Everything else builds and runs without it; `make test` has it,
# to test training too.
train_packages='libtorch-dev libopenblas0-pthread'

have() { command -v "$1" >/dev/null 2>&1; }

# The packages of the list that are not installed, each on a line.
missing() {
  for package in "$@"; do
    status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || echo "$package"
  done
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif have sudo; then
    sudo "$@"
  else
    echo "deps: '$*' needs root, and there is no sudo here" >&2
    exit 1
  fi
}

apt_install() {
  wanted=$(missing "$@")
  [ -n "$wanted" ] || return 0
  # shellcheck disable=SC2086  # one word a package
  set -- $wanted
  echo "deps: installing $*"
  # Another apt may be at work (a fresh machine updates itself): wait for it.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -q -y \
    --no-install-recommends "$@"
}

# npm packages by lockfile; again only when the lockfile is newer than what lies there.
npm_install() {
  folder=$1
  [ -f "$folder/package-lock.json" ] || return 0
  installed=$folder/node_modules/.package-lock.json
  if [ -f "$installed" ] && [ ! "$folder/package-lock.json" -nt "$installed" ]; then return 0; fi
  echo "deps: npm ci in $folder"
  (cd "$folder" && npm ci --no-audit --no-fund --loglevel=error)
}

case "${1:-}" in
  build) packages=$build_packages ;;
  test)
    packages="$test_packages $train_packages"
    have node || packages="$packages nodejs"
    have npm || packages="$packages npm"
    ;;
  dev) packages=$dev_packages ;;
  train) packages=$train_packages ;;
  *) usage ;;
esac

cd "$(dirname "$0")/.."
if have apt-get && have dpkg-query; then
  # shellcheck disable=SC2086  # one word a package
  apt_install $packages
  if [ "$1" = test ] && ! have chromium && ! have chromium-browser && ! have google-chrome; then
    apt_install chromium || apt_install chromium-browser  # Debian's name, Ubuntu's name
  fi
else
  echo "deps: no apt here. thimble is tested on Debian 12; elsewhere, please install what these"
  echo "deps: Debian packages hold:" $packages
  if [ "$1" = test ]; then echo "deps: and Chromium"; fi
fi
if [ "$1" = test ]; then
  for folder in tests/*/; do npm_install "${folder%/}"; done
fi
