#!/usr/bin/env bash
# Runs a command on this machine as if the packages of tools/test_packages.py were not installed: in a mount namespace of its
# own, over a copy-on-write layer of /usr from which their commands are removed. Needs root; nothing of the machine changes.
# Use: tools/without_packages.sh COMMAND [ARGUMENT ...]
set -euo pipefail
if [ "$(id -u)" -ne 0 ]; then
  echo "alcove: hiding installed packages needs root (mount namespaces); make bare shows the same in a bare root" >&2
  exit 2
fi
if [ "${ALCOVE_INSIDE:-}" != "$$" ]; then
  layer=$(mktemp -d)
  trap 'rmdir "$layer"' EXIT
  # exec keeps the process's id: the second pass knows itself by it.
  unshare --mount bash -c 'ALCOVE_INSIDE=$$ ALCOVE_LAYER=$1 exec "$0" "${@:2}"' "$0" "$layer" "$@"
  exit
fi
mount -t tmpfs tmpfs "$ALCOVE_LAYER"
mkdir "$ALCOVE_LAYER/upper" "$ALCOVE_LAYER/work"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$ALCOVE_LAYER/upper,workdir=$ALCOVE_LAYER/work" /usr
rm -rf /usr/bin/aarch64-linux-gnu-* /usr/bin/qemu-* /usr/bin/valgrind* /usr/bin/faketime /usr/lib/postgresql /usr/sbin/nginx \
  /usr/bin/chromium* /usr/bin/psql /usr/bin/promtool /usr/bin/prometheus /usr/bin/systemd-analyze
unset ALCOVE_INSIDE ALCOVE_LAYER
if python3 "$(dirname "$0")/test_packages.py" --list | grep -P '\tfound\t'; then
  echo "alcove: these are still found" >&2
  exit 2
fi
exec "$@"
