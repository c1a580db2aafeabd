#!/usr/bin/env bash
# Asks the public databases of vulnerabilities for everything in tools/locks (pip-audit, in an environment of its own).
# Exit status: 0 nothing known, 1 something known, 3 the databases cannot be reached from here: then nothing was checked.
set -uo pipefail
cd "$(dirname "$0")/.."
python3 -m venv build/audit && build/audit/bin/pip install --quiet "pip-audit==2.10.1" || exit 3
for service in pypi osv; do
  for lock in requirements torch; do
    build/audit/bin/pip-audit --no-deps --disable-pip --progress-spinner off --vulnerability-service "$service" --format json \
      --requirement "tools/locks/$lock.txt" > "build/audit/$lock.json" 2> "build/audit/$lock.log"
  done
  # A package that the database does not know is "skipped": where all are, there was no database.
  build/audit/bin/python - "$service" build/audit/*.json << 'PYTHON' && exit 0
import json, sys

service, *reports = sys.argv[1:]
packages = []
for report in reports:
    try:
        packages += json.load(open(report))["dependencies"]
    except ValueError:
        sys.exit(3)
known = [package for package in packages if "skip_reason" not in package]
if not known:
    sys.exit(3)
found = [(package["name"], package["version"], item["id"]) for package in known for item in package["vulns"]]
for name, version, identifier in found:
    print(f"{name} {version}: {identifier}")
print(f"{service}: {len(known)} of {len(packages)} packages checked, {len(found)} known vulnerabilities")
sys.exit(1 if found else 0)
PYTHON
  status=$?
  [ "$status" -ne 1 ] || exit 1
done
echo "alcove: no database of vulnerabilities can be reached from here: nothing was checked" >&2
exit 3
