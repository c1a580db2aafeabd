#!/usr/bin/env bash
# Installs the units of deploy/systemd on a Debian of their own as docs/deploy/systemd.md says, boots it (systemd-nspawn, without
# network but loopback), and runs tools/systemd_check.sh there: a team pushes, a device syncs, killed services come back, the timer
# makes a backup. Needs root, build/wheels (`make wheel`) and Debian's systemd-container and mmdebstrap, 1.5 GB and some minutes.
# Use: tools/systemd_test.sh    (SYSTEMD_ROOT=FOLDER keeps the Debian for the next time)
set -euo pipefail
cd "$(dirname "$0")/.."
missing=$(for tool in systemd-nspawn mmdebstrap; do command -v "$tool" > /dev/null || echo "$tool"; done)
if [ "$(id -u)" -ne 0 ] || [ -n "$missing" ]; then
  echo "alcove: make systemd-test needs root and Debian's systemd-container and mmdebstrap" >&2
  exit 2
fi
if ! ls build/wheels/alcove_platform-*.whl > /dev/null 2>&1; then
  echo "alcove: build/wheels has no wheels: make wheel" >&2
  exit 2
fi
if [ -n "${SYSTEMD_ROOT:-}" ]; then
  root=$SYSTEMD_ROOT
else
  root=$(mktemp -d)
  trap 'rm -rf --one-file-system "$root"' EXIT
fi
if [ ! -e "$root/etc/debian_version" ]; then
  echo "alcove: making a Debian with systemd, PostgreSQL and nginx (a minute)"
  mmdebstrap --quiet --variant=minbase \
    --include=systemd,systemd-sysv,dbus,python3,python3-venv,ca-certificates,postgresql,nginx-light,curl,openssl,procps bookworm "$root"
  ln -s /usr/bin/python3 "$root/usr/local/bin/python3.11"
fi
rm -rf "$root"/checkout "$root"/opt/alcove "$root"/etc/alcove "$root"/var/{lib,backups}/alcove "$root"/srv/admin \
  "$root"/etc/systemd/system/{,*.wants/}alcove-*
mkdir -p "$root"/checkout/{build,docs/deploy,tools/locks}
cp -r build/wheels "$root/checkout/build/"
cp -r deploy "$root/checkout/"
cp docs/deploy/nginx.conf docs/deploy/serving.md "$root/checkout/docs/deploy/"
cp tools/systemd_check.sh tools/systemd_device.py "$root/checkout/tools/"
cp tools/locks/server.txt "$root/checkout/tools/locks/"
# The page's commands, in order: those that make the environment need the network, the others run on the booted machine.
sed -n '/^```sh/,/^```/p' docs/deploy/systemd.md | grep -v '^```' > "$root/commands"
grep -E '^python|/bin/pip ' "$root/commands" > "$root/checkout/installing"
grep -vE '^python|/bin/pip ' "$root/commands" > "$root/checkout/commands"
{ echo "[global]"; python3 -m pip config list | sed -nE "s/^[^ ]*\.([a-z-]+)='(.*)'$/\1 = \2/p" | sort -u -k1,1; } > "$root/etc/pip.conf"
places=()
for path in $(sed 's#file://##g' "$root/etc/pip.conf" | grep -oE '(^| )/[^ ]+' | sed 's#/simple$##' | sort -u); do
  [ ! -e "$path" ] || places+=(--bind-ro="$(readlink -f "$path"):$path")
done
machine=(systemd-nspawn --quiet --register=no --keep-unit --machine=alcove-test --directory="$root")
echo "alcove: installing alcove there"
"${machine[@]}" "${places[@]}" --bind-ro="$(readlink -f /etc/resolv.conf):/etc/resolv.conf" --resolv-conf=off \
  --pipe --chdir=/checkout bash -e installing > "$root/install.log" 2>&1 || { tail -20 "$root/install.log" >&2; exit 1; }
# Runs at the end of the boot and ends the machine with its exit code.
cat > "$root/etc/systemd/system/check.service" <<'END'
[Unit]
After=multi-user.target
FailureAction=exit
SuccessAction=exit
[Service]
Type=oneshot
WorkingDirectory=/checkout
ExecStart=/bin/bash /checkout/tools/systemd_check.sh
StandardOutput=file:/check.log
StandardError=file:/check.log
TimeoutStartSec=900
[Install]
WantedBy=graphical.target
END
mkdir -p "$root/etc/systemd/system/graphical.target.wants"
ln -sf ../check.service "$root/etc/systemd/system/graphical.target.wants/check.service"
: > "$root/check.log"
code=0
"${machine[@]}" --private-network --boot > "$root/boot.log" 2>&1 < /dev/null || code=$?
cat "$root/check.log"
exit "$code"
