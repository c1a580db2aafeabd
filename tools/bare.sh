#!/usr/bin/env bash
# Runs README's two commands on a bare machine: a fresh Debian with Python 3.11, a C++ compiler and make and nothing else, in a
# chroot, on a clone of the last commit. Needs root and mmdebstrap. What pip is configured with here is configured there too.
# Use: tools/bare.sh [COMMAND ...]    (BARE_ROOT=FOLDER keeps the Debian for the next time; BARE_SUITE=trixie makes another than this
# machine's, with the packages BARE_PACKAGES=a,b; BARE_FILES=FOLDER is copied to /files there)
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(id -u)" -ne 0 ] || ! command -v mmdebstrap > /dev/null; then
  echo "alcove: make bare needs root and mmdebstrap: sudo apt-get install mmdebstrap" >&2
  exit 2
fi
[ $# -gt 0 ] || set -- "make demo" "make test"
if [ -n "${BARE_ROOT:-}" ]; then
  root=$BARE_ROOT
else
  root=$(mktemp -d)
  trap 'rm -rf --one-file-system "$root"' EXIT
fi
if [ ! -e "$root/etc/debian_version" ]; then
  echo "alcove: making a bare Debian (half a minute)"
  mmdebstrap --quiet --variant=minbase \
    --include="${BARE_PACKAGES:-python3,python3-venv,python3-dev,g++,make,ca-certificates}" \
    "${BARE_SUITE:-$(. /etc/os-release && echo "$VERSION_CODENAME")}" "$root"
fi
if [ -n "${BARE_FILES:-}" ]; then
  rm -rf "$root/files"
  cp -rL "$BARE_FILES" "$root/files"
fi
rm -rf "$root/checkout"
git clone --quiet --no-hardlinks . "$root/checkout"
# The same indexes, folders of wheels and certificates.
{ echo "[global]"; python3 -m pip config list | sed -nE "s/^[^ ]*\.([a-z-]+)='(.*)'$/\1 = \2/p" | sort -u -k1,1; } > "$root/etc/pip.conf"
places=$(sed 's#file://##g' "$root/etc/pip.conf" | grep -oE '(^| )/[^ ]+' | sed 's#/simple$##' | sort -u)
[ ! -e /etc/resolv.conf ] || cp -L /etc/resolv.conf "$root/etc/resolv.conf"
[ ! -e /etc/hosts ] || cp -L /etc/hosts "$root/etc/hosts"
cat > "$root/commands" <<'RUN'
#!/bin/bash
set -euo pipefail
cd /checkout
for command in "$@"; do
  SECONDS=0
  bash -c "$command"
  echo "alcove: on a bare machine: $command: well after $SECONDS s"
done
RUN
# Everything that is mounted goes with the namespace.
PLACES=$places unshare --mount --pid --fork --kill-child bash -c '
  set -euo pipefail
  root=$1; shift
  mount -t proc proc "$root/proc"
  mount -t tmpfs tmpfs "$root/dev"
  for node in null zero full random urandom tty; do touch "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
  mkdir "$root/dev/shm"; mount -t tmpfs tmpfs "$root/dev/shm"
  ln -s /proc/self/fd "$root/dev/fd"
  mount --rbind /sys "$root/sys"
  for place in $PLACES; do
    [ -e "$place" ] || continue
    mkdir -p "$root$(dirname "$place")"
    if [ -d "$place" ]; then mkdir -p "$root$place"; else touch "$root$place"; fi
    mount --bind "$(readlink -f "$place")" "$root$place"
  done
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb chroot "$root" bash /commands "$@"
' bash "$root" "$@"
