#!/usr/bin/env bash
# Runs the tests beside eight busy processes: what passes only on a quiet machine fails here. Needs stress-ng.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v stress-ng > /dev/null; then
  echo "alcove: make loaded needs stress-ng: sudo apt-get install stress-ng" >&2
  exit 2
fi
stress-ng --quiet --cpu 8 --timeout "${LOADED_S:-7200}" &
load=$!
trap 'kill "$load" 2> /dev/null || true' EXIT
"$@"
uptime
