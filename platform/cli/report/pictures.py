"""Draws the intervals of a report as SVG, with a title and a description for who does not see it."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

__all__ = ["Bar", "Row", "draw_chances", "draw_intervals"]

_WIDTH: Final = 640
_LEFT: Final = 190
_RIGHT: Final = 30
_STEP: Final = 34
_TICKS: Final = 4


@dataclass(frozen=True)
class Row:
    """One interval: a name, a value, and both ends; an end that is None reaches to the edge of the picture."""

    name: str
    value: float
    low: float | None
    high: float | None
    is_posterior: bool = False


@dataclass(frozen=True)
class Bar:
    """One bar: a name and a part of 1."""

    name: str
    part: float


def draw_intervals(
    name: str, title: str, rows: Sequence[Row], spell: Callable[[float], str], *, marks_zero: bool
) -> str:
    """Return intervals below each other over one axis.

    Args:
        name: of the picture, unique on its page.
        title: what is shown.
        rows: from top to bottom, at least one.
        spell: text of a number.
        marks_zero: whether the axis contains zero, with a line.
    """
    ends = [end for row in rows for end in (row.low, row.value, row.high) if end is not None]
    low, high = min(*ends, *([0.0] if marks_zero else [])), max(*ends, *([0.0] if marks_zero else []))
    margin = 0.06 * (high - low) or 0.01 * (abs(high) or 1.0)
    low, high = low - margin, high + margin

    def x(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (value - low) / (high - low)

    bottom = _STEP * len(rows) + 12
    parts = []
    for value in _ticks(low, high):
        parts.append(f'<line class="rule" x1="{x(value):.1f}" y1="6" x2="{x(value):.1f}" y2="{bottom}"/>')
        parts.append(_label(x(value), bottom + 16, spell(value), "middle"))
    if marks_zero:
        parts.append(f'<line class="zero" x1="{x(0.0):.1f}" y1="6" x2="{x(0.0):.1f}" y2="{bottom}"/>')
    for place, row in enumerate(rows):
        y = _STEP * place + 24
        left = x(low if row.low is None else row.low)
        right = x(high if row.high is None else row.high)
        kind = "posterior" if row.is_posterior else "interval"
        parts.append(_label(_LEFT - 12, y + 4, row.name, "end"))
        parts.append(f'<line class="{kind}" x1="{left:.1f}" y1="{y}" x2="{right:.1f}" y2="{y}"/>')
        parts.append(f'<circle class="{kind}" cx="{x(row.value):.1f}" cy="{y}" r="5"/>')
    described = "; ".join(f"{row.name}: {spell(row.value)}, {_spell_ends(row, spell)}" for row in rows)
    return _picture(name, title, described, bottom + 26, parts)


def draw_chances(name: str, title: str, bars: Sequence[Bar]) -> str:
    """Return bars of parts of 1 below each other; `name` is unique on its page."""
    width = _WIDTH - _LEFT - _RIGHT - 50
    parts = []
    for place, bar in enumerate(bars):
        y = _STEP * place + 10
        parts.append(_label(_LEFT - 12, y + 15, bar.name, "end"))
        parts.append(f'<rect class="frame" x="{_LEFT}" y="{y}" width="{width}" height="20"/>')
        parts.append(f'<rect class="bar" x="{_LEFT}" y="{y}" width="{width * bar.part:.1f}" height="20"/>')
        parts.append(_label(_LEFT + width + 8, y + 15, f"{bar.part:.1%}", "start"))
    described = "; ".join(f"{bar.name}: {bar.part:.1%}" for bar in bars)
    return _picture(name, title, described, _STEP * len(bars) + 10, parts)


def _ticks(low: float, high: float) -> list[float]:
    """Return four to eight numbers in a range, a power of ten apart, or a half, a quarter or an eighth of it."""
    step = 10.0 ** math.floor(math.log10(high - low))
    while (high - low) / step < _TICKS:
        step /= 2.0
    first = math.ceil(low / step)
    return [place * step for place in range(first, math.floor(high / step) + 1)]


def _picture(name: str, title: str, description: str, height: int, parts: Sequence[str]) -> str:
    return "\n".join(
        [
            "<figure>",
            f"<figcaption>{escape(title)}</figcaption>",
            f'<svg role="img" aria-labelledby="{name}-title {name}-text" viewBox="0 0 {_WIDTH} {height}">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<desc id="{name}-text">{escape(description)}</desc>',
            *parts,
            "</svg>",
            "</figure>",
        ]
    )


def _label(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _spell_ends(row: Row, spell: Callable[[float], str]) -> str:
    low, high = ("unbounded" if end is None else spell(end) for end in (row.low, row.high))
    return f"from {low} to {high}"
