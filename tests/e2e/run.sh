#!/bin/sh
# run.sh THIMBLE_BINARY FILE.test.mjs: one end-to-end test with the real binary.
#
# What is missing is an error, not a skipped test.
set -eu

case "${1:?run.sh: expected THIMBLE_BINARY FILE.test.mjs}" in
  /*) binary=$1 ;;
  *) binary=$PWD/$1 ;;
esac

missing() {
  echo "e2e: $1 is missing; \`make deps-test\` installs it" >&2
  exit 1
}

cd "$(dirname "$0")"
command -v node >/dev/null 2>&1 || missing 'Node.js'
[ -d node_modules/openai ] && [ -d node_modules/playwright-core ] || missing tests/e2e/node_modules
for name in chromium chromium-browser google-chrome; do
  if [ -z "${CHROMIUM:-}" ]; then CHROMIUM=$(command -v "$name" || true); fi
done
[ -n "$CHROMIUM" ] || missing Chromium
[ -x "$binary" ] || { echo "e2e: no binary at $binary" >&2; exit 1; }
export CHROMIUM THIMBLE="$binary"
exec node --test "$2"
