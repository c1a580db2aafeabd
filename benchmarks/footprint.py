"""Measures what an app's environment takes: `python -m benchmarks.footprint --python ENVIRONMENT/bin/python`.

The wheels are installed in the environment (`make wheel-test` leaves some in build/wheel-test). Printed are
the bytes of each distribution in it, and the memory of an app with one feature above that of a bare interpreter.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.sections import Section, table_lines

SECTION: Final = Section("footprint", "python -m benchmarks.footprint")
PROBE: Final = Path(__file__).with_name("footprint_probe.py")
FEATURES: Final = (
    "language_id",
    "bandwidth",
    "feed_ranking",
    "noise_suppression",
    "photo_enhance",
    "scene_tags",
    "cutouts",
    "background",
    "style_transfer",
)
INSTALLERS: Final = frozenset({"pip", "setuptools", "wheel"})
GOAL_BYTES: Final = 110_000_000
GOAL_KIB: Final = 35 * 1024


def probe(python: Path, question: str) -> Any:
    """Return what the environment answers."""
    environment = {"OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    command = [str(python), "-X", "utf8", "-I", str(PROBE), question]
    return json.loads(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)


def describe_sizes(sizes: dict[str, int]) -> list[str]:
    """Return the table of distributions by their bytes, the largest first, with their sum; of features the smallest."""
    features = {name: size for name, size in sizes.items() if name.startswith("alcove-feature-")}
    smallest = min(features, key=lambda name: features[name])
    kept = {name: size for name, size in sizes.items() if name == smallest or name not in features}
    rows = [
        (name, f"{size / 1e6:.1f}")
        for name, size in sorted(kept.items(), key=lambda item: -item[1])
        if name not in INSTALLERS
    ]
    whole = sum(size for name, size in kept.items() if name not in INSTALLERS)
    rows.append((f"together (goal {GOAL_BYTES / 1e6:.0f})", f"{whole / 1e6:.1f}"))
    return table_lines(("distribution", "MB installed"), rows)


def describe_memory(steps: dict[str, dict[str, int]]) -> list[str]:
    """Return the table of memory, a column for each feature."""
    rows = [
        (f"{step} (goal {GOAL_KIB // 1024})" if step == "a prediction" else step) for step in next(iter(steps.values()))
    ]
    columns = [[f"{kib / 1024:.1f}" for kib in of_feature.values()] for of_feature in steps.values()]
    return table_lines(("after", *steps), [(name, *values) for name, *values in zip(rows, *columns, strict=True)])


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.footprint", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="of the app's environment")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the tables into a page")
    options = parser.parse_args()
    version = subprocess.run([options.python, "-V"], check=True, capture_output=True, text=True).stdout.strip()
    lines = [f"{version}, without pip; bytes of files, and of features the smallest alone:", ""]
    lines += describe_sizes(probe(options.python, "sizes"))
    lines += ["Resident memory of a process above that of a bare interpreter, MiB, pages of files included:", ""]
    lines += describe_memory({name: probe(options.python, name) for name in FEATURES})
    text = "\n".join(lines)
    print(text)
    if options.write is not None:
        SECTION.write(options.write, text, {})


if __name__ == "__main__":
    main()
