#!/bin/sh
# Installs windlass: fetches the archive for this machine and its checksum, compares them, and puts the program in place. Nothing is
# changed where anything is wrong.
#
#   sh install.sh ADDRESS          where the release lies, such as https://example.org/windlass/0.1.0
#   WINDLASS_BIN=FOLDER            where the program goes; else ~/.local/bin
set -eu

fail() {
  echo "install.sh: $1" >&2
  exit "${2:-1}"
}

[ $# = 1 ] || fail 'name the address of a release: sh install.sh https://example.org/windlass/0.1.0' 2
address=${1%/}
[ "$(uname -s)" = Linux ] || fail "there is no archive for $(uname -s); build it from its sources: cargo install --path crates/app"
case $(uname -m) in
  x86_64) target=x86_64-unknown-linux-gnu ;;
  aarch64 | arm64) target=aarch64-unknown-linux-gnu ;;
  *) fail "there is no archive for $(uname -m); build it from its sources: cargo install --path crates/app" ;;
esac
archive=windlass-$target.tar.gz
bin=${WINDLASS_BIN:-$HOME/.local/bin}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fetch() {
  if command -v curl > /dev/null; then
    curl --fail --silent --show-error --location --output "$folder/$1" "$address/$1"
  elif command -v wget > /dev/null; then
    wget --quiet --output-document="$folder/$1" "$address/$1"
  else
    fail 'it needs curl or wget'
  fi || fail "$address/$1 cannot be fetched"
}

fetch "$archive"
fetch "$archive.sha256"
wanted=$(cut -d ' ' -f 1 "$folder/$archive.sha256")
found=$(sha256sum "$folder/$archive" | cut -d ' ' -f 1)
[ ${#wanted} = 64 ] || fail "$archive.sha256 holds no checksum"
[ "$wanted" = "$found" ] || fail "$archive has the checksum $found, and $archive.sha256 says $wanted; nothing was installed"
tar -C "$folder" -xzf "$folder/$archive" windlass
mkdir -p "$bin"
# In one step, also over a program that runs.
cp "$folder/windlass" "$bin/windlass.new"
chmod 755 "$bin/windlass.new"
mv "$bin/windlass.new" "$bin/windlass"
echo "$bin/windlass is $("$bin/windlass" --version)"
case :$PATH: in
  *:$bin:*) ;;
  *) echo "put $bin on your PATH: export PATH=\"$bin:\$PATH\"" ;;
esac
