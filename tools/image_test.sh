#!/usr/bin/env bash
# Builds the image of deploy/container with podman and runs compose.yaml as it is with podman-compose: a team pushes, a device syncs,
# a container that is killed comes back, a backup is made, all of it stops at SIGTERM (tools/image_check.py).
# The base is made of Debian's packages and the images of registries are stand-ins (tools/standins): nothing is pulled.
# Needs root, build/wheels (`make wheel`) and Debian's podman runc netavark aardvark-dns iptables mmdebstrap, 3 GB and some minutes.
# All of it happens in namespaces of its own, without network once the images are there, and is removed at the end.
# Use: tools/image_test.sh    (IMAGE_ROOT=FOLDER keeps the images for the next time)
set -euo pipefail
cd "$(dirname "$0")/.."
missing=$(for tool in podman runc iptables mmdebstrap; do command -v "$tool" > /dev/null || echo "$tool"; done)
[ -x /usr/lib/podman/netavark ] || missing="$missing netavark"
[ -x /usr/lib/podman/aardvark-dns ] || missing="$missing aardvark-dns"
if [ "$(id -u)" -ne 0 ] || [ -n "${missing// /}" ]; then
  echo "alcove: make image-test needs root and Debian's packages:" $missing >&2
  exit 2
fi
if ! ls build/wheels/alcove_platform-*.whl > /dev/null 2>&1; then
  echo "alcove: build/wheels has no wheels: make wheel" >&2
  exit 2
fi
if [ -z "${IN_NAMESPACE:-}" ]; then
  IN_NAMESPACE=1 exec unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@"
fi

if [ -n "${IMAGE_ROOT:-}" ]; then
  place=$(realpath "$IMAGE_ROOT")
  mkdir -p "$place"
else
  place=$(mktemp -d)
  trap 'umount -q "$place"/storage/overlay "$place"/storage/overlay/*/merged 2> /dev/null; rm -rf --one-file-system "$place"' EXIT
fi
export CONTAINERS_CONF=$place/containers.conf CONTAINERS_STORAGE_CONF=$place/storage.conf
most() { local hard; hard=$(ulimit -H "$1"); [ "$hard" != unlimited ] && [ "$hard" -lt "$2" ] && echo "$hard" || echo "$2"; }
cat > "$CONTAINERS_CONF" <<END
[containers]
default_ulimits = ["nofile=$(most -n 65536):$(most -n 65536)", "nproc=$(most -u 32768):$(most -u 32768)"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
network_config_dir = "$place/networks"
END
cat > "$CONTAINERS_STORAGE_CONF" <<END
[storage]
driver = "overlay"
graphroot = "$place/storage"
runroot = "$(mktemp -d --tmpdir=/run alcove-image.XXXXXX)"
END
# Marks of a machine that has run for long (mounts, locks) are not this namespace's.
rm -rf "$place"/tmp && mkdir -p "$place/tmp"
export TMPDIR=$place/tmp

base=$(sed -n 's/^ARG BASE=//p' deploy/container/Containerfile)
if ! podman image exists "$base"; then
  echo "alcove: making $base of Debian's packages"
  mmdebstrap --quiet --variant=minbase --include=python3,python3-venv,ca-certificates \
    --customize-hook='ln -s /usr/bin/python3 "$1/usr/local/bin/python"' "${base##*-}" "$place/base.tar"
  podman import --quiet --change CMD=python3 "$place/base.tar" "$base" > /dev/null
  rm "$place/base.tar"
fi
# What pip is configured with here is configured while images are built.
{ echo "[global]"; python3 -m pip config list | sed -nE "s/^[^ ]*\.([a-z-]+)='(.*)'$/\1 = \2/p" | sort -u -k1,1; } > "$place/pip.conf"
options=(--quiet --pull=never --network=host --volume="$place/pip.conf:/etc/pip.conf:ro")
for path in $(sed 's#file://##g' "$place/pip.conf" | grep -oE '(^| )/[^ ]+' | sed 's#/simple$##' | sort -u); do
  [ ! -e "$path" ] || options+=(--volume="$(readlink -f "$path"):$path:ro")
done
echo "alcove: building the image"
podman build "${options[@]}" --file deploy/container/Containerfile --tag alcove:0.1.0 . > /dev/null
images=$(grep -oE 'image: (docker|quay)\.io\S+' deploy/container/compose.yaml | sort -u | cut -d' ' -f2)
for image in $images; do
  podman image exists "$image" && continue
  target=$(echo "${image%%:*}" | grep -oE 'nginx|postgres|minio' | head -1)
  echo "alcove: making a stand-in for $image"
  podman build "${options[@]}" --file tools/standins/Containerfile --target "$target" --tag "$image" . > /dev/null
done
[ -x build/image-test/bin/podman-compose ] || python3 -m venv build/image-test
PIP_CONSTRAINT='' build/image-test/bin/pip install --quiet podman-compose==1.6.0
export PATH=$PWD/build/image-test/bin:$PATH
unshare --net bash -c 'ip link set lo up && exec .venv/bin/python -m tools.image_check'
