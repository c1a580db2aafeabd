#!/usr/bin/env bash
# Installs the wheels of build/wheels (`make wheel`) as an app does, with what they need from the package index, and tests them there
# (tools/wheel_check.py): with each Python of this machine, and, as root with mmdebstrap, with that of Debian 13 in a root of its own.
# Prints a table; a Python that is not here is "not run". Exit status 1 if one failed or if nothing ran.
# Use: tools/wheel_test.sh [FILE.md]    (the page that gets the table; WHEELS=FOLDER tests others than build/wheels, WHEEL_TEST_ROOT=FOLDER keeps the Debian)
set -uo pipefail
cd "$(dirname "$0")/.."
unset PIP_CONSTRAINT  # an app has its own versions
features=(language_id bandwidth feed_ranking noise_suppression photo_enhance scene_tags cutouts background style_transfer)
names=("${features[@]/#/alcove-feature-}")
folder=build/wheel-test
rm -rf "$folder"
mkdir -p "$folder/files"
.venv/bin/python -m tools.wheel_reference "$folder/files/reference" || exit 1
cp -r "${WHEELS:-build/wheels}" "$folder/files/wheels" && cp tools/wheel_check.py "$folder/files" || exit 1

# One line of commands, for this machine and for the other; $1: a Python, $2: the folder of files, $3: a folder to install into.
install_and_check() {
  # Ours first and without an index; then what they need.
  local ours="alcove-sdk ${names[*]//_/-}"
  echo "$1 -m venv $3 && $3/bin/pip --quiet install --no-index --no-deps --find-links $2/wheels $ours" \
    "&& $3/bin/pip --quiet install $ours && $3/bin/pip check" \
    "&& $3/bin/python -W error -c 'import alcove.sdk' && $3/bin/python -W error $2/wheel_check.py $2/reference ${features[*]}"
}
rows=() failed=0 ran=0
note() {  # $1: where, $2: exit status, or "not run: why"
  case $2 in
    0) rows+=("| $1 | works |") ran=1 ;;
    not*) rows+=("| $1 | $2 |") ;;
    *) rows+=("| $1 | FAILS |") failed=1 ran=1 ;;
  esac
}

for version in 3.11 3.12 3.13 3.14; do
  found=""
  for candidate in "python$version" "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python3; do
    "$candidate" -c '' 2> /dev/null && found=$candidate && break
  done
  if [ -z "$found" ]; then
    note "Python $version, this machine" "not run: no Python $version here"
    continue
  fi
  bash -c "$(install_and_check "$found" "$PWD/$folder/files" "$PWD/$folder/$version")" < /dev/null
  note "Python $version, this machine" $?
done
if [ "$(id -u)" -eq 0 ] && command -v mmdebstrap > /dev/null; then
  export BARE_SUITE=trixie BARE_PACKAGES=python3,python3-venv,ca-certificates BARE_FILES=$folder/files
  BARE_ROOT=${WHEEL_TEST_ROOT:-} tools/bare.sh "$(install_and_check python3 /files /installed)" < /dev/null
  note "Python 3.13, Debian 13 with glibc 2.41" $?
else
  note "Python 3.13, Debian 13 with glibc 2.41" "not run: needs root and mmdebstrap"
fi

table=$(printf '%s\n' "| where | wheels |" "|---|---|" "${rows[@]}")
echo "$table"
if [ $# -gt 0 ]; then
  .venv/bin/python -c 'import sys, pathlib
from benchmarks.sections import Section
Section("wheel_test", "make wheel-test").write(pathlib.Path(sys.argv[1]), sys.argv[2] + "\n", {})' "$1" "$table"
fi
[ "$failed" -eq 0 ] && [ "$ran" -eq 1 ]
