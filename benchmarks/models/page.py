"""Formats the rows as the section of docs/performance.md: a table and a picture."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.models.table import Row
from benchmarks.sections import Section, micros, table_lines, untimed_lines
from benchmarks.svg import bars

COLUMNS = (
    "model",
    "alcove",
    "best peer",
    "which",
    "ratio",
    "floor",
    "of floor",
    "from Python",
    "cold load",
    "peers' best",
    "program",
    "memory",
    "allowed",
    "peers' least",
)

SPARE_KIB = 4096
"""What a process may take beyond the program's bytes."""

SECTION: Final = Section("models", "python -m benchmarks.models --write")


def mebibytes(kibibytes: float) -> str:
    """Return an amount of memory with one digit behind the point."""
    return f"{kibibytes / 1024:,.1f} MiB"


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row, in the order of `COLUMNS`."""
    name, best = row.best or ("–", 0.0)
    is_call = row.floor_us < 1e-3
    return (
        row.case,
        micros(row.times.call_us),
        micros(best) if row.peers else "–",
        name,
        f"{row.ratio:.2f}×" if row.ratio else "–",
        "–" if is_call else micros(row.floor_us),
        "–" if is_call else f"{row.times.call_us / row.floor_us:.2f}×",
        micros(row.times.python_us),
        micros(row.times.cold_us),
        micros(min(row.cold.values())) if row.cold else "–",
        f"{row.program_bytes / 1024:,.0f} KiB",
        mebibytes(row.times.peak_kib),
        mebibytes(row.program_bytes / 1024 + SPARE_KIB),
        mebibytes(min(row.memory_kib.values())) if row.memory_kib else "–",
    )


def as_markdown(rows: Sequence[Row], absent: Mapping[str, str], libraries: Mapping[str, int]) -> str:
    """Return the section of docs/performance.md."""
    lines = [
        "## Six models beside their peers",
        "",
        "Batch 1, one thread, one pinned core, p50: the lowest of the medians of several repeats, peers and",
        "alcove by turns, each in a process of its own. *call* is x + 1 through the C interface. The floor is",
        "arithmetic at this core's measured peak or weights at its bandwidth, whichever is longer. Cold load",
        "is from the path to the first answer, without the weights' digest. Memory is all that the process of",
        "a C program has resident at its peak; allowed are the program's bytes and 4 MiB; the peers' least is that of",
        "the ones that need no Python.",
        "",
        *table_lines(COLUMNS, map(cells, rows)),
    ]
    names = sorted({name for row in rows for name in row.peers})
    if names:
        lines += ["![time of each peer beside alcove](plots/models.svg)", ""]
        lines += ["Each peer, p50:", ""]
        lines += table_lines(
            ["model", *names],
            ([row.case, *(micros(row.peers[name]) if name in row.peers else "–" for name in names)] for row in rows),
        )
    lines += ["Libraries that an app links, stripped:", ""]
    lines += table_lines(["library", "bytes"], ([name, f"{size:,}"] for name, size in libraries.items()))
    lines += untimed_lines(absent, {row.case: row.failed for row in rows})
    return "\n".join(lines)


def plots(rows: Sequence[Row]) -> dict[str, str]:
    """Return the picture of how many times as long each peer takes, by file name; none if no peer was timed."""
    ratios = {row.case: {name: row.peers[name] / row.times.call_us for name in sorted(row.peers)} for row in rows}
    timed = {case: those for case, those in ratios.items() if those}
    title = "time of each peer, in times of alcove's (logarithmic)"
    return {"models.svg": bars(title, timed)} if timed else {}
