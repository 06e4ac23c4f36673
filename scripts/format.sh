#!/bin/sh
# Formats every C++ file in place, or with --check lists what it would change and fails.
#
# Version 14 is the one that counts (Debian 12's): others lay out some lines differently.
set -eu
cd "$(dirname "$0")/.."

tool=clang-format-14
command -v $tool >/dev/null 2>&1 || tool=clang-format
command -v $tool >/dev/null 2>&1 || {
  echo "format: no clang-format here; \`make deps-test\` installs it" >&2
  exit 1
}

folders=
for folder in src apps tests bench fuzz; do
  [ -d "$folder" ] && folders="$folders $folder"
done
# shellcheck disable=SC2086  # one word a folder
list() {
  find $folders -name node_modules -prune -o -type f \( -name '*.cc' -o -name '*.h' \) -print
}

case "${1:-}" in
  '') list | xargs "$tool" -i ;;
  --check)
    list | xargs "$tool" --dry-run -Werror || {
      echo 'format: run `make format`' >&2
      exit 1
    }
    ;;
  *)
    echo "usage: $0 [--check]" >&2
    exit 2
    ;;
esac
