"""Time six models beside the peers: `python -m benchmarks.models [--only ROW] [--json FILE] [--write PAGE]`.

The peers' environments and models are made by `../shared/peers/setup.sh` and `run.sh`; what is missing is named.  Rows
are kept in build/bench, so a page may be timed in parts: it has the newest row of every model that was timed.
"""

from pathlib import Path

from rich.table import Table

from benchmarks.models.cases import CASES, reference_models
from benchmarks.models.libraries import library_bytes
from benchmarks.models.page import COLUMNS, SECTION, as_markdown, cells, plots
from benchmarks.models.peers import Places
from benchmarks.models.table import Bench, keep_rows
from benchmarks.options import progress, timing_parser, wide_console, write_json
from benchmarks.sections import untimed_lines


def main() -> int:
    """Measure, print, write."""
    names = [case.name for case in CASES]
    parser = timing_parser("benchmarks.models", __doc__, names, rounds=2, seconds=2)
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page")
    options = parser.parse_args()
    console = wide_console()
    try:
        reference_models()
    except FileNotFoundError as missing:
        console.print(f"Nothing is timed. {missing}", soft_wrap=True)
        return 0
    with progress(console) as say:
        rows, absent = Bench(options.core, options.rounds, options.seconds, say).measure(options.only or names)
    timed = keep_rows(rows)
    table = Table(*COLUMNS)
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    libraries = library_bytes(Places.from_environment())
    for name, size in libraries.items():
        console.print(f"{name}: {size:,} bytes, stripped")
    for line in filter(None, untimed_lines(absent, {row.case: row.failed for row in rows})):
        console.print(line)
    write_json(options.json, [row.as_json() for row in rows])
    if options.write:
        SECTION.write(options.write, as_markdown(timed, absent, libraries), plots(timed))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
