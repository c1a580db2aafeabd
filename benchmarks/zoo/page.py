"""Formats the zoo as the section of docs/performance.md: families, networks and a picture."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Final

from alcove.runtime.profile.work import PRODUCTS

from benchmarks.sections import Section, micros, table_lines, untimed_lines
from benchmarks.svg import bars
from benchmarks.zoo.networks import FAMILIES
from benchmarks.zoo.table import BOUND, ENOUGH, Row, median_ratio

SECTION: Final = Section("zoo", "python -m benchmarks.zoo --write docs/performance.md")

COLUMNS: Final = ("network", "pixels", "alcove", "best peer", "which", "ratio", "of the rounds", "time goes to")
_NAMES: Final = {"ort": "ONNX Runtime", "litert": "LiteRT", "et": "ExecuTorch"}
FAMILY_COLUMNS: Final = ("family", "networks", "median", "worst", "slower than the best peer")


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row, in the order of `COLUMNS`."""
    is_timed = "alcove" in row.times_us
    return (
        row.name,
        str(row.size),
        micros(row.times_us["alcove"]) if is_timed else "–",
        micros(row.times_us[row.best]) if row.best else "–",
        row.best or "–",
        f"{row.ratio:.2f}×" if row.best else "–",
        f"{row.lowest:.2f} to {row.highest:.2f}" if row.best else "–",
        reason(row) if row.best and row.ratio < ENOUGH else "",
    )


def reason(row: Row) -> str:
    """Return the operators that take most of the time."""
    return ", ".join(f"{op} {share:.0%}" for op, share in list(row.shares.items())[:3] if share >= 0.1)


def summary(rows: Sequence[Row]) -> str:
    """Return one sentence about all networks."""
    timed = [row for row in rows if row.best]
    if not timed:
        return f"{len(rows)} networks, none beside a peer."
    worst = min(timed, key=lambda row: row.ratio)
    slower = sum(row.is_slower for row in timed)
    wrong = [row.name for row in timed if row.is_wrong]
    return (
        f"{len(timed)} networks: median {median_ratio(timed):.2f}×, worst {worst.ratio:.2f}× ({worst.name}); "
        f"{slower} are slower than the best peer in every round. "
        + (f"Answers differ from eager: {', '.join(wrong)}." if wrong else f"All answers are eager's within {BOUND:g}.")
    )


def export_summary(rows: Sequence[Row]) -> str:
    """Return one sentence about the time of exports; empty if none was measured."""
    measured = [row for row in rows if row.export_s]
    if not measured:
        return ""
    worst = max(measured, key=lambda row: row.export_ratio)
    median = statistics.median(row.export_ratio for row in measured)
    packing = statistics.median(row.packing_ratio for row in measured)
    return (
        f"Exports of {len(measured)} networks took a median of {median:.2f} times torch.export's own time on the same "
        f"processor, {packing:.2f} of it for packing and writing weights; the slowest {worst.export_ratio:.2f} times "
        f"({worst.name}, {worst.packing_ratio:.2f} of it for those)."
    )


def products_summary(rows: Sequence[Row]) -> str:
    """Return one sentence about the share of dense products, which no layout or fusion makes fewer."""
    shares = [sum(share for op, share in row.shares.items() if op in PRODUCTS) for row in rows if row.shares]
    if not shares:
        return ""
    return (
        f"Operators of products take {statistics.mean(shares):.0%} of the mean network's time "
        f"({min(shares):.0%} to {max(shares):.0%}); the rest is what only moves numbers or applies functions to them."
    )


def peers_summary(rows: Sequence[Row]) -> str:
    """Return one sentence about how many networks each peer was timed on: some take minutes to convert each."""
    counts = {engine: sum(engine in row.times_us for row in rows) for engine in _NAMES}
    refused = {engine: sum(engine in row.failed for row in rows) for engine in _NAMES}
    return "; ".join(
        f"{_NAMES[engine]} on {counts[engine]} networks, {refused[engine]} refused, "
        f"{len(rows) - counts[engine] - refused[engine]} not tried"
        for engine in _NAMES
    ).join(("Timed: ", "."))


def family_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Return the cells of each family, in the order of `FAMILY_COLUMNS`."""
    found: list[tuple[str, ...]] = []
    for family, those in _by_family(rows).items():
        worst = min(those, key=lambda row: row.ratio)
        slower = str(sum(row.is_slower for row in those))
        found.append(
            (family, str(len(those)), f"{median_ratio(those):.2f}×", f"{worst.ratio:.2f}× {worst.name}", slower)
        )
    return found


def as_markdown(rows: Sequence[Row], absent: Mapping[str, str], where: str = "") -> str:
    """Return the section of docs/performance.md; `where` names the machine."""
    engines = [engine for engine in _NAMES if any(engine in row.times_us for row in rows)]
    lines = [
        "## A zoo of image networks beside the peers",
        "",
        *([f"On {where}.", ""] if where else []),
        "timm's networks with random weights, float32, batch 1, one thread, one pinned core. All engines run in",
        "one process, blocks of calls by turns. Times are the medians of the rounds; the ratio is the median of those",
        "of each round, the lowest and the highest beside it. Where it is below",
        f"{ENOUGH:g}×, the operators are named that most of alcove's time goes to.",
        "",
        summary(rows),
        "",
        peers_summary(rows),
        "",
        *(line for text in (products_summary(rows), export_summary(rows)) if text for line in (text, "")),
        "![ratio to the best peer, by family](plots/zoo.svg)",
        "",
        *table_lines(FAMILY_COLUMNS, family_rows(rows)),
    ]
    for family, those in _by_family(rows).items():
        lines += [f"### {family}", ""]
        lines += table_lines(COLUMNS, (cells(row) for row in sorted(those, key=lambda row: row.ratio)))
    if len(engines) > 1:
        lines += ["Where there is more than one peer:", ""]
        lines += table_lines(
            ("network", *engines),
            (
                (row.name, *(micros(row.times_us[e]) if e in row.times_us else "–" for e in engines))
                for row in rows
                if sum(engine in row.times_us for engine in engines) > 1
            ),
        )
    return "\n".join(lines + untimed_lines(absent, {row.name: row.failed for row in rows if row.failed}))


def plots(rows: Sequence[Row]) -> dict[str, str]:
    """Return the picture of the ratios by family, by file name; none if no peer was timed."""
    groups = {}
    for family, those in _by_family(rows).items():
        ratios = [row.ratio for row in those]
        groups[family] = {"worst": min(ratios), "median": median_ratio(those), "best": max(ratios)}
    title = "time of the best peer, in times of alcove's (logarithmic)"
    return {"zoo.svg": bars(title, groups)} if groups else {}


def _by_family(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found = {family: [row for row in rows if row.family == family and row.best] for family in FAMILIES}
    return {family: those for family, those in found.items() if those}
