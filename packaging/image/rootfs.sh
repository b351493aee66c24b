#!/bin/sh
# Lays out the root file system of the image in a new folder: the program, a project for it to serve, and a data folder.
# usage: rootfs.sh PROGRAM FOLDER
set -eu
program=$1 root=$2
[ ! -e "$root" ] || { echo "rootfs.sh: $root is there already; name a new folder" >&2; exit 2; }
mkdir -p "$root/data" "$root/dev" "$root/etc" "$root/proc" "$root/tmp"
chmod 1777 "$root/tmp"
cp "$program" "$root/windlass"
# What a released program does not need: it is static. One of a usual build takes its libraries along.
if libraries=$(ldd "$program" 2>/dev/null | grep -o '/[^ ]*'); then
  for library in $libraries; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done
fi
printf 'windlass:x:65532:65532::/agent:/windlass\n' > "$root/etc/passwd"
printf 'windlass:x:65532:\n' > "$root/etc/group"
"$program" init "$root/agent" > /dev/null
# All that the image's user may write.
[ "$(id -u)" != 0 ] || chown 65532:65532 "$root/data"
