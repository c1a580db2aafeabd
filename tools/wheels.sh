#!/usr/bin/env bash
# Builds the wheels: for the Python of .venv, and for all from 3.12 on with the first of these here that has headers
# (ABI3_PYTHON=...: with that one; ABI3_PYTHON=none: not). Each is built twice and the bytes compared; auditwheel says from which
# glibc on they run; then they are cut into build/wheels.
# Use: tools/wheels.sh [OPTION OF tools.wheels ...]
set -euo pipefail
cd "$(dirname "$0")/.."
own=.venv/bin/python
has_headers() {  # from 3.12 on, whose stable interface the native modules use
  "$1" -c 'import os, sys, sysconfig
sys.exit(sys.version_info < (3, 12) or not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2> /dev/null
}
newer=""
for candidate in ${ABI3_PYTHON:-python3.14 python3.13 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[2-9]*/bin/python3}; do
  if has_headers "$candidate"; then newer=$candidate; fi
  [ -z "$newer" ] || break
done
rm -rf build/wheel build/wheels
"$own" -m tools.reproducible --keep build/wheel
own_is_newer=$("$own" -c 'import sys; print(sys.version_info >= (3, 12))')
"${newer:-$own}" -m venv --clear build/packaging
build/packaging/bin/pip install --quiet auditwheel==6.8.2
if [ -n "$newer" ] && [ "$own_is_newer" = False ]; then
  build/packaging/bin/pip install --quiet scikit-build-core nanobind grpcio-tools cmake ninja
  build/packaging/bin/python -m tools.reproducible --keep build/wheel
elif [ "$own_is_newer" = False ]; then
  echo "alcove: no Python 3.12 or newer with headers here (ABI3_PYTHON=python3.13 names one): there is no wheel for those" >&2
fi
"$own" tools/view.py
"$own" -m tools.wheels build/wheel/alcove_sdk-*.whl build/wheels --auditwheel build/packaging/bin/auditwheel "$@"
