#!/usr/bin/env bash
# Installs what some tests need from Debian, where that can be done without asking: for 64-bit ARM the cross compiler and its
# emulator, for the bounds of instructions valgrind, for the expiry of metadata in a real process faketime, for
# the database of several servers PostgreSQL, for the files that devices read nginx, for pages a browser.
set -euo pipefail
missing=()
command -v aarch64-linux-gnu-g++ > /dev/null || missing+=(g++-aarch64-linux-gnu)
command -v qemu-aarch64 > /dev/null || missing+=(qemu-user)
command -v valgrind > /dev/null || missing+=(valgrind)
command -v faketime > /dev/null || missing+=(faketime)
compgen -G "/usr/lib/postgresql/*/bin/postgres" > /dev/null || command -v postgres > /dev/null || missing+=(postgresql)
[ -x /usr/sbin/nginx ] || command -v nginx > /dev/null || missing+=(nginx-light)
command -v chromium > /dev/null || missing+=(chromium)
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null && apt-get -qq update && apt-get -qq install --yes "${missing[@]}" > /dev/null; then
  exit 0
fi
echo "alcove: some tests are skipped without ${missing[*]}: sudo apt-get install ${missing[*]}" >&2
exit 1
