"""How do the curves read as a page?"""

from collections.abc import Mapping, Sequence
from typing import Final

from benchmarks.models.page import micros
from benchmarks.scale.layers import CURVES, Curve
from benchmarks.scale.measure import Point
from benchmarks.sections import Section
from benchmarks.svg import curves

SECTION: Final = Section("scale", "python -m benchmarks.scale --write")


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
        "it some microseconds. Where the axis is threads, alcove and the peers have as many, and as many cores; what",
        "they win hangs on what else the machine does.",
        "",
    ]
    for curve, found in _by_curve(points):
        names = sorted({name for point in found for name in point.peers})
        columns = [curve.axis, "alcove", "GFLOP/s", "best peer", "which", "ratio", *names]
        lines += [f"### {curve.title}", "", f"![{curve.title}](plots/{curve.name}.svg)", ""]
        lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        lines += ["| " + " | ".join(_cells(point, names)) + " |" for point in found]
        lines.append("")
    if absent:
        lines += ["Not timed: " + "; ".join(f"{name}, {why}" for name, why in sorted(absent.items())) + ".", ""]
    failed = [f"{name} on {p.curve} {p.size} ({why})" for p in points for name, why in sorted(p.failed.items())]
    if failed:
        lines += ["Gave no time: " + "; ".join(failed) + ".", ""]
    return "\n".join(lines)


def _by_curve(points: Sequence[Point]) -> list[tuple[Curve, list[Point]]]:
    found = [(curve, [point for point in points if point.curve == curve.name]) for curve in CURVES]
    return [(curve, theirs) for curve, theirs in found if theirs]


def _cells(point: Point, names: Sequence[str]) -> list[str]:
    which, best = point.best or ("–", 0.0)
    beside = [micros(best), which, f"{best / point.alcove_us:.2f}×"] if point.peers else ["–", "–", "–"]
    each = [micros(point.peers[name]) if name in point.peers else "–" for name in names]
    return [str(point.size), micros(point.alcove_us), f"{point.gflops:.1f}", *beside, *each]


def _plot(curve: Curve, points: Sequence[Point]) -> str:
    lines = {"alcove": [(float(point.size), point.alcove_us) for point in points]}
    for name in sorted({name for point in points for name in point.peers}):
        lines[name] = [(float(point.size), point.peers[name]) for point in points if name in point.peers]
    return curves(curve.title, curve.axis, lines)
