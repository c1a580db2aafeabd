"""Time a zoo of networks beside peers: `python -m benchmarks.zoo [--only NETWORK] [--json FILE] [--write PAGE]`.

The networks are timm's, which is no dependency of alcove: in an environment that sees this one, `pip install --no-deps
timm torchvision onnx onnxscript onnx-ir ml-dtypes onnxruntime ai-edge-litert flatbuffers`.  The environments in which
other peers export are made by `../shared/peers/setup.sh`; what is missing is named.

Exports are kept in build/bench/zoo by content.  `--step time --window 50` times for 50 seconds, the networks timed
longest ago first; `--step report` prints what was timed.
"""

from importlib.util import find_spec
from pathlib import Path

from rich.table import Table

from benchmarks.__main__ import machine
from benchmarks.options import progress, timing_parser, wide_console, write_json
from benchmarks.sections import untimed_lines
from benchmarks.zoo.networks import NETWORKS
from benchmarks.zoo.page import (
    COLUMNS,
    FAMILY_COLUMNS,
    SECTION,
    as_markdown,
    cells,
    export_summary,
    family_rows,
    peers_summary,
    plots,
    products_summary,
    summary,
)
from benchmarks.zoo.run import GET_TIMM, Bench, absent_peers
from benchmarks.zoo.store import read_results
from benchmarks.zoo.table import make_rows

FOREVER_S = 1e9


def main() -> int:
    """Export, time, print, write."""
    names = [network.name for network in NETWORKS]
    parser = timing_parser("benchmarks.zoo", __doc__, names, rounds=5, seconds=0.4)
    parser.add_argument(
        "--write", type=Path, metavar="FILE.md", help="write the section into a page, its picture beside"
    )
    parser.add_argument(
        "--step", choices=("export", "time", "report"), help="do this alone; all of them if none is named"
    )
    parser.add_argument("--window", type=float, default=FOREVER_S, metavar="S", help="begin no timing after S seconds")
    options = parser.parse_args()
    console = wide_console()
    chosen = options.only or names
    if options.step != "report" and find_spec("timm") is None:
        console.print(f"Nothing is timed. {GET_TIMM}", soft_wrap=True)
        return 0
    with progress(console) as say:
        bench = Bench(options.core, options.rounds, options.seconds, say)
        if options.step in (None, "export"):
            bench.export(chosen)
        if options.step in (None, "time"):
            bench.time(chosen, options.window)
    if options.step in ("export", "time"):
        return 0
    rows = make_rows(read_results(), chosen)
    by_ratio = sorted(rows, key=lambda row: row.ratio)
    for columns, lines in ((COLUMNS, [cells(row) for row in by_ratio]), (FAMILY_COLUMNS, family_rows(rows))):
        table = Table(*columns)
        for line in lines:
            table.add_row(*line)
        console.print(table)
    sentences = (summary(rows), peers_summary(rows), products_summary(rows), export_summary(rows))
    for sentence in filter(None, sentences):
        console.print(sentence, soft_wrap=True)
    for text in filter(None, untimed_lines(absent_peers(), {row.name: row.failed for row in rows if row.failed})):
        console.print(text, soft_wrap=True)
    write_json(options.json, [row.as_json() for row in rows])
    if options.write:
        SECTION.write(options.write, as_markdown(rows, absent_peers(), machine()), plots(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
