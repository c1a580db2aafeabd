#!/usr/bin/env bash
# Installs what the tests of 64-bit ARM need, Debian's cross compiler and its emulator, where that can be done without asking.
set -euo pipefail
missing=()
command -v aarch64-linux-gnu-g++ > /dev/null || missing+=(g++-aarch64-linux-gnu)
command -v qemu-aarch64 > /dev/null || missing+=(qemu-user)
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi
if [ "$(id -u)" -eq 0 ] && command -v apt-get > /dev/null && apt-get -qq update && apt-get -qq install --yes "${missing[@]}" > /dev/null; then
  exit 0
fi
echo "alcove: the tests of 64-bit ARM need ${missing[*]}: sudo apt-get install ${missing[*]}" >&2
exit 1
