"""Print the figures, and write them where asked: `python -m benchmarks [--only GROUP] [--json FILE] [--write PAGE]`.

Each group is a section of the page: what is not measured stays as it was.
"""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Final

import alcove.runtime._native as native
from rich.console import Console
from rich.table import Table

from benchmarks import (
    background,
    bandwidth,
    cutouts,
    demo,
    feed_ranking,
    language_id,
    noise_suppression,
    photo_enhance,
    policies,
    private_reports,
    scene_tags,
    sizes,
    style_transfer,
    sync,
    tree,
)
from benchmarks.figures import Figure, pin
from benchmarks.options import parser, write_json
from benchmarks.sections import Section, table_lines

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS: Final[dict[str, tuple[str, Callable[[], list[Figure]]]]] = {
    "language_id": ("Language ID", language_id.measure),
    "bandwidth": ("Bandwidth", bandwidth.measure),
    "feed_ranking": ("Feed ranking", feed_ranking.measure),
    "scene_tags": ("Scene tags", scene_tags.measure),
    "noise_suppression": ("Noise suppression", noise_suppression.measure),
    "photo_enhance": ("Photo enhancement", photo_enhance.measure),
    "cutouts": ("Cutouts", cutouts.measure),
    "background": ("Background", background.measure),
    "style_transfer": ("Style transfer", style_transfer.measure),
    "sizes": ("Sizes of what an app carries", sizes.measure),
    "sync": ("A device's check-ins", sync.measure),
    "tree": ("The signed tree", tree.measure),
    "policy": ("The policy", policies.measure),
    "private_reports": ("Private reports", private_reports.measure),
    "demo": ("The demo", demo.measure),
}
"""Title and measurement of each section."""


def machine() -> str:
    """Return one line that says where the figures come from."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        if line.startswith("model name")
    ]
    return f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores, kernels: {native.isa()}"


def as_markdown(title: str, figures: list[Figure], where: str) -> str:
    """Return the section of a group."""
    rows = [(figure.name, figure.text(), figure.note) for figure in figures]
    return "\n".join([f"## {title}", "", f"On {where}.", "", *table_lines(("what", "figure", "how"), rows)])


def main() -> None:
    """Measure, print, write."""
    options = parser("benchmarks", __doc__, sorted(GROUPS))
    options.add_argument("--write", type=Path, metavar="FILE.md", help="write the figures into a page")
    arguments = options.parse_args()
    console = Console()
    core = pin()
    where = machine()
    measured: list[Figure] = []
    table = Table("what", "figure", "how", title=where, title_justify="left")
    for name in arguments.only or GROUPS:
        with console.status(f"measuring {name} on core {core}"):
            title, measure = GROUPS[name]
            figures = measure()
        for figure in figures:
            table.add_row(figure.name, figure.text(), figure.note)
        measured += figures
        if arguments.write:
            section = Section(name, f"python -m benchmarks --only {name} --write docs/performance.md")
            section.write(arguments.write, as_markdown(title, figures, where), {})
    console.print(table)
    write_json(arguments.json, [figure.as_json() for figure in measured])


if __name__ == "__main__":
    main()
