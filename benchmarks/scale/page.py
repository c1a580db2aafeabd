"""Formats the curves as the section of docs/performance.md: tables, notes and pictures."""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.scale.layers import CURVES, Curve
from benchmarks.scale.measure import Point
from benchmarks.sections import Section, micros, table_lines, untimed_lines
from benchmarks.svg import curves

SECTION: Final = Section("scale", "python -m benchmarks.scale --write")

COLUMNS: Final = ("alcove", "GFLOP/s", "best peer", "which", "ratio")
"""Between the size and each peer."""


def plots(points: Sequence[Point]) -> dict[str, str]:
    """Return the pictures of the curves that were timed, by file name."""
    return {f"{curve.name}.svg": _plot(curve, found) for curve, found in _by_curve(points)}


def as_markdown(points: Sequence[Point], absent: Mapping[str, str]) -> str:
    """Return the section of docs/performance.md."""
    lines = [
        "## How time grows with the size of the work",
        "",
        "One layer each, float32, one thread, one pinned core, p50: the lowest of the medians of several repeats,",
        "alcove (through C) and the peers by turns at each point. Of the peers `et` is called from Python, which costs",
        "it some microseconds. Where the axis is threads, alcove and the peers have as many, and as many cores. Two",
        "threads share one core while another process has the other, so the table says how many cores each kept busy.",
        "",
    ]
    for curve, found in _by_curve(points):
        names = sorted({name for point in found for name in point.peers})
        columns = [curve.axis, *COLUMNS, *names]
        lines += [f"### {curve.title}", "", f"![{curve.title}](plots/{curve.name}.svg)", ""]
        lines += table_lines(columns, (cells(point, names) for point in found))
    return "\n".join(lines + notes(points, absent))


def _by_curve(points: Sequence[Point]) -> list[tuple[Curve, list[Point]]]:
    found = [(curve, [point for point in points if point.curve == curve.name]) for curve in CURVES]
    return [(curve, theirs) for curve, theirs in found if theirs]


def notes(points: Sequence[Point], absent: Mapping[str, str]) -> list[str]:
    """Return how many cores each kept busy where several threads ran, and who gave no time."""
    lines = []
    for point in points:
        kept = ", ".join(f"{name} {cores:.1f}" for name, cores in sorted(point.busy.items()))
        lines += [f"Cores kept busy on {point.curve} {point.size}: {kept}.", ""] if kept else []
    return lines + untimed_lines(absent, {f"{point.curve} {point.size}": point.failed for point in points})


def cells(point: Point, names: Sequence[str] = ()) -> list[str]:
    """Return the size, the cells of `COLUMNS`, and the times of the peers of these names."""
    which, best = point.best or ("–", 0.0)
    beside = [micros(best), which, f"{best / point.alcove_us:.2f}×"] if point.peers else ["–", "–", "–"]
    each = [micros(point.peers[name]) if name in point.peers else "–" for name in names]
    return [str(point.size), micros(point.alcove_us), f"{point.gflops:.1f}", *beside, *each]


def _plot(curve: Curve, points: Sequence[Point]) -> str:
    lines = {"alcove": [(float(point.size), point.alcove_us) for point in points]}
    for name in sorted({name for point in points for name in point.peers}):
        lines[name] = [(float(point.size), point.peers[name]) for point in points if name in point.peers]
    return curves(curve.title, curve.axis, lines)
