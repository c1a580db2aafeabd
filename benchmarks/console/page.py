"""Writes the figures of the console as a section of a page."""

from collections.abc import Sequence
from typing import Final

from benchmarks.console.load import CHANGE_S, Round, ViewerFigures
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
        lines += ["", *_viewer_lines(found.viewers)]
    return "\n".join(lines) + "\n"


def _count_failures(rounds: Sequence[Round]) -> int:
    return sum(one.failed for one in rounds)


def _viewer_lines(seen: ViewerFigures) -> list[str]:
    """Return what viewers cost, in a sentence, and the rounds."""
    middle, low, high = seen.ratio
    calls = sum(one.calls for one in seen.without)
    cost = (
        f"{seen.viewers} viewers, each with a session and a live page of one rollout, which changes every "
        f"{CHANGE_S:.0f} s, in rounds without viewers too: the 99th percentile of GetRollout is {middle:.2f} "
        f"[{low:.2f}, {high:.2f}] times that without them (geometric mean of {len(seen.ratios)} pairs of rounds, 95 % "
        f"by Student's t; {calls:,} calls on each side). Of {seen.viewers * len(seen.ratios)} streams {seen.live} "
        f"stayed open to the end; {seen.events:,} times they told a change, {seen.loads:,} pages were read, and "
        f"{seen.failed} streams or pages failed; of the calls, {_count_failures(seen.without)} failed without viewers "
        f"and {_count_failures(seen.with_viewers)} with them."
    )
    rows = [
        [
            str(number),
            *(f"{one.p50_ms:.2f}" for one in pair),
            *(f"{one.p99_ms:.2f}" for one in pair),
            *(f"{one.server_core:.0%}".replace("%", " %") for one in pair),
        ]
        for number, pair in enumerate(zip(seen.without, seen.with_viewers, strict=True), 1)
    ]
    header = ["pair", "p50 without, ms", "p50 with, ms", "p99 without, ms", "p99 with, ms", "core without", "core with"]
    return [cost, "", *table_lines(header, rows)]
