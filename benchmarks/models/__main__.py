"""Time six models beside the peers: `python -m benchmarks.models [--only ROW] [--json FILE] [--write PAGE]`.

The peers' environments and models are made by `../shared/peers/setup.sh` and `run.sh`; what is missing is named.
"""

import argparse
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.models.cases import CASES, reference_models
from benchmarks.models.libraries import library_bytes
from benchmarks.models.page import COLUMNS, SECTION, as_markdown, cells, plot
from benchmarks.models.peers import Places
from benchmarks.models.table import Bench


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.models", description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--only", choices=names, action="append", help="time this row alone")
    parser.add_argument("--rounds", type=int, default=2, help="turns of alcove and each peer (2)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of calls a turn of alcove (2)")
    last = max(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=last, help=f"which core is timed on (the last, {last})")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows as JSON")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page")
    given = parser.parse_args()
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    try:
        reference_models()
    except FileNotFoundError as missing:
        console.print(f"Nothing is timed. {missing}", soft_wrap=True)
        return 0
    with console.status("measuring") as status:
        bench = Bench(given.core, given.rounds, given.seconds, lambda what: status.update(f"measuring {what}"))
        rows, absent = bench.measure(given.only or names)
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    libraries = library_bytes(Places.from_environment())
    for name, size in libraries.items():
        console.print(f"{name}: {size:,} bytes, stripped")
    for name, why in sorted(absent.items()):
        console.print(f"{name}: {why}")
    if given.json:
        given.json.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n", encoding="utf-8")
    if given.write:
        page = given.write.read_text(encoding="utf-8") if given.write.exists() else "# Performance\n"
        given.write.write_text(SECTION.written(page, as_markdown(rows, absent, libraries)), encoding="utf-8")
        if any(row.peers for row in rows):
            folder = given.write.parent / "plots"
            folder.mkdir(exist_ok=True)
            (folder / "models.svg").write_text(plot(rows), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
