#!/usr/bin/env bash
# Installs the lowest versions that pyproject.toml admits of what apps and servers need, in an environment of its own, and runs
# tests there: a lower bound that is not tested is a guess. What only developers need is as pinned.
# Use: tools/lowest.sh [TESTS ...]
set -euo pipefail
cd "$(dirname "$0")/.."
unset PIP_CONSTRAINT  # make's, which pins what is installed for development
[ $# -gt 0 ] || set -- tests/sdk tests/registry tests/privacy tests/platform
folder=build/lowest
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet uv
"$folder/bin/uv" pip compile --quiet --python-version 3.11 --resolution lowest-direct --extra commands --extra server --no-annotate \
  --no-header pyproject.toml > "$folder/pins.txt"
cat "$folder/pins.txt"
"$folder/bin/pip" install --quiet --no-deps -r "$folder/pins.txt"
# Tests and build need more; of what is not pinned above, the locked version.
names=$(sed -E 's/==.*//' "$folder/pins.txt" | paste -sd'|')
grep -vE "^(($names)==|grpcio)" constraints.txt > "$folder/constraints.txt"
cat "$folder/pins.txt" >> "$folder/constraints.txt"
"$folder/bin/pip" install --quiet --constraint "$folder/constraints.txt" pytest pytest-asyncio pytest-timeout pytest-xdist \
  hypothesis expecttest pillow nanobind scikit-build-core cmake ninja grpcio-tools mypy-protobuf openfeature-sdk \
  opentelemetry-sdk opentelemetry-exporter-otlp-proto-grpc matplotlib
"$folder/bin/pip" install --quiet --no-build-isolation --no-deps --config-settings=build-dir="$folder/native" --editable .
# Without torch (its extra has one exact version) and moto (which asks for a newer pydantic).
"$folder/bin/python" -m pytest -n auto --dist loadfile -q "$@" --ignore tests/registry/test_real_program.py \
  --ignore tests/platform/cli --deselect tests/platform/services/test_blobs_in_s3.py
