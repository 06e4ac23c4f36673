#!/bin/sh
# rival.sh: fetches ggml, prebuilt by npm's node-llama-cpp, into build/rival, so that
# `thimble bench kernels` can measure its products beside ours.
set -eu

package='@node-llama-cpp/linux-x64@3.21.1'
sha256=4b5b65a8b2611d8af94349b02d815c0f424a30a0a19aef2be5db25ecfef6730f

folder=$(cd "$(dirname "$0")/.." && pwd)/build/rival
if ! command -v npm >/dev/null 2>&1; then
  echo 'rival: npm is missing: `make deps-test` installs it' >&2
  exit 1
fi
mkdir -p "$folder"
cd "$folder"
archive=$(npm pack --silent "$package")
echo "$sha256  $archive" | sha256sum -c --quiet
tar xzf "$archive"
echo "$folder/package/bins/linux-x64"
