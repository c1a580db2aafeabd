"""Writes what the console has of others, platform/console/assets/vendor, from npm: `python tools/console_assets.py`.

Names, versions and paths are in `VENDORED` of platform/console/assets, digests in vendor/digests.json. npm checks a
package against its own digest; after a new version the page's licence in THIRD_PARTY_LICENSES.txt is compared by hand.
"""

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from alcove.platform.console.assets import VENDORED

VENDOR = Path(__file__).resolve().parent.parent / "platform" / "console" / "assets" / "vendor"
DIGESTS = VENDOR / "digests.json"
LICENCES = {"htmx.org": "0BSD", "uplot": "MIT"}
AXE = ("axe-core", "4.14.1", "axe.min.js")  # of tests; its file goes to build/, not into the repository


def fetch(package: str, version: str, path: str) -> bytes:
    """Return one file of a package."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            ["npm", "pack", "--silent", f"{package}@{version}"], stdout=subprocess.DEVNULL, cwd=folder, check=True
        )
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as opened:
            member = opened.extractfile(f"package/{path}")
            if member is None:
                raise SystemExit(f"{package} {version} has no file {path}")
            return member.read()


def main() -> None:
    """Fetch each file and write it with its digest; with `--axe` what tests in a browser judge pages by."""
    if sys.argv[1:] == ["--axe"]:
        place = VENDOR.parents[3] / "build" / "axe.min.js"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(fetch(*AXE))
        return
    VENDOR.mkdir(exist_ok=True)
    digests = {}
    for name, (package, version, path) in VENDORED.items():
        content = fetch(package, version, path)
        (VENDOR / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        digests[name] = {"package": package, "version": version, "licence": LICENCES[package], "sha256": digest}
        print(f"{name}: {package} {version}, {len(content)} bytes")
    DIGESTS.write_text(json.dumps(digests, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
