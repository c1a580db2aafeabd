"""Builds the wheel twice and compares the bytes: `python -m tools.reproducible [--keep FOLDER]`.

Copies what git tracks, as it is in the working tree, into two folders, and builds a wheel in each, with
other file times, time zone, locale, umask and number of compilers at once. Prints the digest that both have, or
the files inside that differ, and exit code 1. The build is scikit-build-core's, which `wheel.reproducible` makes
give every file of the archive one time (SOURCE_DATE_EPOCH, if that is set) and one of two modes; the compiler is
run with a prefix map, which leaves out the folder's name.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OTHERWISE = [
    {"TZ": "UTC", "LC_ALL": "C", "CMAKE_BUILD_PARALLEL_LEVEL": "1"},
    {"TZ": "Asia/Kathmandu", "LC_ALL": "C.UTF-8", "CMAKE_BUILD_PARALLEL_LEVEL": "2"},
]
UMASKS = (0o022, 0o077)
TIMES_S = (1_000_000_000, 1_700_000_000)


def copy(folder: Path, time_s: int) -> None:
    """Copy what git tracks, with that time on every file."""
    listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, cwd=ROOT).stdout
    for name in filter(None, listed.decode("utf-8").split("\0")):
        if not (ROOT / name).exists():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
        os.utime(folder / name, (time_s, time_s))


def wheel(folder: Path, which: int) -> Path:
    """Return the wheel built from a copy in the folder.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    source = folder / ("a" if which == 0 else "another/folder/of/another/length")
    copy(source, TIMES_S[which])
    out = folder / f"wheel{which}"
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel", "--no-deps"]
    command += ["--no-build-isolation", "-w", str(out), f"--config-settings=build-dir={source}/build/own", str(source)]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # cmake and ninja of this environment
    subprocess.run(command, check=True, umask=UMASKS[which], env={**os.environ, "PATH": tools, **OTHERWISE[which]})
    (result,) = out.glob("alcove_sdk-*.whl")
    return result


def differing(one: Path, other: Path) -> list[str]:
    """Return what two archives differ in: names of files, "order", "time of NAME", "mode of NAME", or "archive"."""
    if one.read_bytes() == other.read_bytes():
        return []
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        names = sorted(set(a.namelist()) ^ set(b.namelist()))
        names += [name for name in a.namelist() if name in b.namelist() and a.read(name) != b.read(name)]
        if not names and a.namelist() != b.namelist():
            names = ["order"]
        for first, second in zip(a.infolist(), b.infolist(), strict=True) if not names else ():
            names += [f"time of {first.filename}"] if first.date_time != second.date_time else []
            names += [f"mode of {first.filename}"] if first.external_attr != second.external_attr else []
    return names or ["archive"]


def main() -> None:
    """Build twice, compare, say so."""
    parser = argparse.ArgumentParser(prog="python -m tools.reproducible", description=__doc__)
    parser.add_argument("--keep", type=Path, help="folder that gets the first wheel")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        one, other = (wheel(Path(name), which) for which in range(2))
        if names := differing(one, other):
            sys.exit(f"{one.name} differs in {', '.join(names)}")
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            shutil.copy(one, options.keep)
        print(f"{one.name}: {one.stat().st_size:,} bytes, sha256 {hashlib.sha256(one.read_bytes()).hexdigest()}, twice")


if __name__ == "__main__":
    main()
