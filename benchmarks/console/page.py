"""Writes the figures of the console as a section of a page."""

import statistics
from typing import Final

from benchmarks.console.measure import Measured
from benchmarks.console.seeding import Sizes
from benchmarks.sections import Section, table_lines

__all__ = ["SECTION", "as_markdown"]

SECTION: Final = Section("console", "python -m benchmarks.console --write docs/performance.md")


def as_markdown(found: Measured, sizes: Sizes) -> str:
    """Return the section: goals, a row for each page, and what viewers cost."""
    versions = sizes.features * sizes.versions
    amounts = f"{versions:,} versions, {sizes.experiments:,} experiments, {sizes.rollouts:,} rollouts"
    setting = (
        f"A server with {amounts} in SQLite and its console on one core, the measuring processes on the others. "
        "Time is from the request to the last byte of the answer; the rest is Chromium's, with an empty cache."
    )
    goals = (
        "Goals: first page at most 150 ms and 200 kB, largest paint at most 1 s, no layout shift, 99th percentile of "
        "gRPC calls at most 10 % longer with 100 viewers."
    )
    lines = ["## The console", "", setting, "", goals, ""]
    rows = [
        [
            one.name,
            f"{one.p50_ms:.0f}",
            f"{one.p99_ms:.0f}",
            f"{one.answer_bytes / 1000:.1f}",
            "–" if one.loading is None else f"{one.loading.transferred_bytes / 1000:.0f}",
            "–" if one.loading is None else f"{one.loading.paint_ms:.0f}",
            "–" if one.loading is None else f"{one.loading.shift:.3f}",
        ]
        for one in found.pages
    ]
    header = ["page", "p50, ms", "p99, ms", "page, kB", "all transferred, kB", "largest paint, ms", "layout shift"]
    lines += table_lines(header, rows)
    if found.absent:
        lines += ["", f"Not there: {', '.join(found.absent)}."]
    if found.viewers:
        seen = found.viewers
        ratios = ", ".join(f"{ratio:.2f}" for ratio in seen.ratios)
        times = [statistics.median(each) for each in (seen.p99_without_ms, seen.p99_with_ms)]
        cost = (
            f"{seen.viewers} viewers, each with a session and a live page that stays open and, once a round, loads "
            f"anew after a change: the 99th percentile of GetRollout is {times[0]:.1f} ms without and {times[1]:.1f} "
            f"ms with them; ratios of the rounds, in turn: {ratios}. Of {seen.viewers * len(seen.ratios)} streams "
            f"{seen.live} stayed open to the end; {seen.events} times they told a change, and {seen.failed} streams "
            "or pages failed."
        )
        lines += ["", cost]
    return "\n".join(lines) + "\n"
