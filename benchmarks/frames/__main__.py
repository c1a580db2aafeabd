"""Time networks for video by size of the frame and threads: `python -m benchmarks.frames [--json FILE] [--write PAGE]`.

Peers are ONNX Runtime and LiteRT, in the environments that `../shared/peers/setup.sh` makes (BASE names their folder);
what is missing is named, and the others are timed.  Programs and the peers' files are kept in build/bench/frames;
`--anew` makes them again, as after a change of the compiler or a network.
"""

import os
import shutil
from pathlib import Path

from rich.table import Table

from benchmarks.__main__ import machine
from benchmarks.frames.cases import FOLDER, NETWORKS, SIZES, list_cases
from benchmarks.frames.page import COLUMNS, SECTION, as_markdown, cells, plots, sentences
from benchmarks.frames.run import Bench, absent_peers
from benchmarks.models.peers import Places
from benchmarks.options import progress, timing_parser, wide_console, write_json

THREADS = (1, 2)


def main() -> int:
    """Export, convert, time, print, write."""
    parser = timing_parser("benchmarks.frames", __doc__, NETWORKS, rounds=5, seconds=1.5)
    names = [f"{columns}x{rows}" for columns, rows in SIZES]
    parser.add_argument("--size", choices=names, action="append", help="time frames of this size alone")
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS, help="of each engine (1 and 2)")
    parser.add_argument("--anew", action="store_true", help="export and convert again")
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page")
    options = parser.parse_args()
    console = wide_console()
    if options.anew:
        shutil.rmtree(FOLDER, ignore_errors=True)
    cases = [
        case
        for case in list_cases([name for name in NETWORKS if name in (options.only or NETWORKS)])
        if f"{case.size[0]}x{case.size[1]}" in (options.size or names)
    ]
    threads = [count for count in options.threads if count <= (os.cpu_count() or 1)]
    places = Places.from_environment()
    with progress(console) as say:
        rows = Bench(options.core, options.rounds, options.seconds, say, places).measure(cases, threads)
    table = Table("network", *COLUMNS)
    for row in rows:
        table.add_row(row.network, *cells(row))
    console.print(table)
    absent = absent_peers(places)
    for sentence in filter(None, sentences(rows, absent)):
        console.print(sentence, soft_wrap=True)
    write_json(options.json, [row.as_json() for row in rows])
    if options.write:
        SECTION.write(options.write, as_markdown(rows, absent, f"On {machine()}."), plots(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
