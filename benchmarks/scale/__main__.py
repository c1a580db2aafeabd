"""Time layers at several sizes beside peers: `python -m benchmarks.scale [--only CURVE] [--json FILE] [--write PAGE]`.

The peers' environments are made by `../shared/peers/setup.sh`; what is missing is named.
"""

from pathlib import Path

from rich.table import Table

from benchmarks.options import progress, timing_parser, wide_console, write_json
from benchmarks.scale.layers import CURVES
from benchmarks.scale.measure import Scale
from benchmarks.scale.page import COLUMNS, SECTION, as_markdown, cells, notes, plots


def main() -> None:
    """Measure, print, write."""
    names = [curve.name for curve in CURVES]
    parser = timing_parser("benchmarks.scale", __doc__, names, rounds=1, seconds=1)
    parser.add_argument("--write", type=Path, metavar="FILE.md", help="write the section into a page, plots beside it")
    options = parser.parse_args()
    console = wide_console()
    with progress(console) as say:
        scale = Scale(options.core, options.rounds, options.seconds, say)
        points, absent = scale.measure([curve for curve in CURVES if curve.name in (options.only or names)])
    table = Table("curve", "size", *COLUMNS)
    for point in points:
        table.add_row(point.curve, *cells(point))
    console.print(table)
    for line in filter(None, notes(points, absent)):
        console.print(line)
    write_json(options.json, [point.as_json() for point in points])
    if options.write:
        SECTION.write(options.write, as_markdown(points, absent), plots(points))


if __name__ == "__main__":
    main()
