"""Print the figures, and write them where asked: `python -m benchmarks [--only GROUP] [--json FILE] [--write PAGE]`."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import alcove.runtime._native as native
from rich.console import Console
from rich.table import Table

from benchmarks import bandwidth, demo, feed_ranking, language_id, policies, scene_tags, sizes, sync, tree
from benchmarks.figures import Figure, pin
from benchmarks.options import parser, write_json
from benchmarks.sections import sections_of, table_lines

GROUPS = {
    "language_id": language_id.measure,
    "bandwidth": bandwidth.measure,
    "feed_ranking": feed_ranking.measure,
    "scene_tags": scene_tags.measure,
    "sizes": sizes.measure,
    "sync": sync.measure,
    "tree": tree.measure,
    "policy": policies.measure,
    "demo": demo.measure,
}


def machine() -> str:
    """Return one line that says where the figures come from."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores, kernels: {native.isa()}"


def as_markdown(figures: list[Figure], where: str) -> str:
    """Return the page docs/performance.md."""
    rows = [(figure.name, figure.text(), figure.note) for figure in figures]
    return "\n".join(
        [
            "# Performance",
            "",
            "Written by `make docs`; printed by `make bench`. Machines differ and are noisy: read ratios before times.",
            "",
            f"Measured on: {where}; one thread, pinned, lowest median of several interleaved repeats.",
            "",
            *table_lines(("what", "figure", "how"), rows),
        ]
    )


def main() -> None:
    """Measure, print, write."""
    options = parser("benchmarks", __doc__, sorted(GROUPS))
    options.add_argument("--write", type=Path, metavar="FILE.md", help="write the figures as a page")
    given = options.parse_args()
    console = Console()
    core = pin()
    figures: list[Figure] = []
    for name in given.only or GROUPS:
        with console.status(f"measuring {name} on core {core}"):
            figures += GROUPS[name]()
    where = machine()
    table = Table("what", "figure", "how", title=where, title_justify="left")
    for figure in figures:
        table.add_row(figure.name, figure.text(), figure.note)
    console.print(table)
    write_json(given.json, [figure.as_json() for figure in figures])
    if given.write:
        before = given.write.read_text(encoding="utf-8") if given.write.exists() else ""
        kept = sections_of(before)
        given.write.write_text(as_markdown(figures, where) + (f"\n{kept}" if kept else ""), encoding="utf-8")


if __name__ == "__main__":
    main()
