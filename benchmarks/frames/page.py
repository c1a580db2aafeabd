"""Formats the rows as the section of docs/performance.md: tables and curves of frames a second."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from benchmarks.frames.cases import FORMS, NETWORKS
from benchmarks.frames.run import Row
from benchmarks.sections import Section, table_lines, untimed_lines
from benchmarks.svg import curves

SECTION: Final = Section("frames", "python -m benchmarks.frames --write docs/performance.md")
TITLES: Final = {"style": "Style transfer", "people": "People in a frame"}
ABOUT: Final = {
    "style": "The network of `style_transfer` (width 32): bytes of a frame in and out.",
    "people": "DeepLab v3 on MobileNetV2, the encoder that `cutouts` began with: bytes of a frame in, how likely each"
    " pixel is of a person out.",
}
COLUMNS: Final = ("frame", "form", "threads", "alcove", "best peer", "which", "ratio", "all peers")
INTRODUCTION: Final = """Whole networks with random weights, batch 1. Engines take turns in blocks of
calls, each in a process of its own, pinned to as many cores as it has threads. Frames a second are those of the
median of the rounds; the ratio is the median of those of each round, above 1 where alcove is faster. A peer's int8 is
its own converter's."""


def cells(row: Row) -> tuple[str, ...]:
    """Return the cells of a row, in the order of `COLUMNS`."""
    peers = {engine: row.frames_per_s(engine) for engine in sorted(row.times_us) if engine != "alcove"}
    return (
        f"{row.columns} x {row.rows}",
        row.form,
        f"{row.threads}",
        f"{row.frames_per_s('alcove'):,.1f}/s" if "alcove" in row.times_us else "–",
        f"{peers[row.best]:,.1f}/s" if row.best else "–",
        row.best or "–",
        f"{row.ratio:.2f}×" if row.best else "–",
        ", ".join(f"{name} {speed:,.1f}" for name, speed in peers.items()) or "–",
    )


def sentences(rows: Sequence[Row], absent: Mapping[str, str]) -> list[str]:
    """Return how far answers agree, and who was not timed on what and why."""
    differences = [each for row in rows if row.form == "f32" for each in row.differences.values()]
    failed = {
        f"{row.network} {row.columns} x {row.rows} {row.form}": row.failed for row in rows if row.failed
    }  # of each number of threads the same
    lines = (
        [f"Answers of f32 differ by at most {max(differences):.2g} of the largest element.", ""] if differences else []
    )
    return [*lines, *untimed_lines(absent, failed)]


def as_markdown(rows: Sequence[Row], absent: Mapping[str, str], machine: str) -> str:
    """Return the section."""
    lines = ["## Frames of video", "", machine, "", INTRODUCTION, ""]
    for name, those in groupby(rows, key=lambda row: row.network):
        own = list(those)
        lines += [f"### {TITLES[name]}", "", ABOUT[name], ""]
        lines += [f"![{_title(name, count)}](plots/{_file(name, count)})" for count in _threads(own)]
        lines += ["", *table_lines(COLUMNS, map(cells, own))]
    return "\n".join([*lines, *sentences(rows, absent)])


def plots(rows: Sequence[Row]) -> dict[str, str]:
    """Return a picture for each network and number of threads: frames a second over the size of a frame."""
    found = {}
    for name in NETWORKS:
        own = [row for row in rows if row.network == name]
        for count in _threads(own):
            lines: dict[str, list[tuple[float, float]]] = {}
            engines = sorted({engine for row in own for engine in row.times_us})  # alcove is the first
            for engine in engines:
                for form in reversed(FORMS):
                    points = [
                        (row.columns * row.rows / 1000, row.frames_per_s(engine))
                        for row in own
                        if (row.threads, row.form) == (count, form) and engine in row.times_us
                    ]
                    if points:
                        lines[f"{engine} {form}"] = points
            found[_file(name, count)] = curves(_title(name, count), "thousand pixels", lines, lambda fps: f"{fps:g}/s")
    return found


def _threads(rows: Sequence[Row]) -> list[int]:
    return sorted({row.threads for row in rows})


def _title(network: str, threads: int) -> str:
    return f"{TITLES[network]}: frames a second, {threads} {'thread' if threads == 1 else 'threads'}"


def _file(network: str, threads: int) -> str:
    return f"frames_{network}_{threads}.svg"
