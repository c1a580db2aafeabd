"""Time layers at several sizes beside peers: `python -m benchmarks.scale [--only CURVE] [--json FILE] [--write PAGE]`.

The peers' environments are made by `../shared/peers/setup.sh`; what is missing is named.
"""

import argparse
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.models.page import micros
from benchmarks.scale.layers import CURVES
from benchmarks.scale.measure import Scale
from benchmarks.scale.page import SECTION, as_markdown, plots


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--only", choices=[curve.name for curve in CURVES], action="append", help="time this one alone")
    parser.add_argument("--rounds", type=int, default=1, help="turns of alcove and each peer at a point (1)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of calls in a turn of alcove (1)")
    last = max(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=last, help=f"which core is timed on (the last, {last})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the points as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page, plots beside it")
    given = parser.parse_args()
    console = Console()
    with console.status("measuring") as status:
        scale = Scale(given.core, given.rounds, given.seconds, lambda what: status.update(f"measuring {what}"))
        points, absent = scale.measure([curve for curve in CURVES if curve.name in (given.only or [curve.name])])
    table = Table("curve", "size", "alcove", "GFLOP/s", "best peer", "which", "ratio")
    for point in points:
        which, best = point.best or ("–", 0.0)
        beside = (micros(best), which, f"{best / point.alcove_us:.2f}×") if point.peers else ("–", "–", "–")
        table.add_row(point.curve, str(point.size), micros(point.alcove_us), f"{point.gflops:.1f}", *beside)
    console.print(table)
    for name, why in sorted(absent.items()):
        console.print(f"{name}: {why}")
    if given.json:
        given.json.write_text(json.dumps([point.as_json() for point in points], indent=2) + "\n", encoding="utf-8")
    if given.write:
        folder = given.write.parent / "plots"
        folder.mkdir(parents=True, exist_ok=True)
        page = given.write.read_text(encoding="utf-8") if given.write.exists() else "# Performance\n"
        given.write.write_text(SECTION.written(page, as_markdown(points, absent)), encoding="utf-8")
        for name, picture in plots(points).items():
            (folder / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
