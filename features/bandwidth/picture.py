"""Draws the card's curves as SVG, over a grid with a legend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Points = Sequence[tuple[float, float]]

COLOURS: Final = ("#c0392b", "#1f618d", "#b9770e", "#1e8449", "#7d3c98")
LEFT, TOP, WIDTH, HEIGHT = 48, 30, 460, 200
LEGEND: Final = 150
"""Places and sizes in pixels."""


@dataclass(frozen=True)
class Axis:
    """One direction of a picture.

    Attributes:
        first: value at the left or lower end.
        last: value at the other end.
        marks: values with a line of the grid, and what is written there.
    """

    first: float
    last: float
    marks: Mapping[float, str]

    def share(self, value: float) -> float:
        """Return where a value is, 0 to 1; values beyond an end are drawn at it."""
        return min(max((value - self.first) / (self.last - self.first), 0.0), 1.0)


def picture(title: str, across: Axis, up: Axis, curves: Mapping[str, Points], *, reference: Points, bold: str) -> str:
    """Return an SVG of curves by name.

    Args:
        title: above the picture.
        across: of the points' first values.
        up: of their second values.
        curves: at most as many as there are `COLOURS`.
        reference: what they are compared with, thin and black.
        bold: name of the curve that is drawn thicker.
    """

    def place(point: tuple[float, float]) -> tuple[float, float]:
        return LEFT + WIDTH * across.share(point[0]), TOP + HEIGHT * (1 - up.share(point[1]))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + LEGEND}" height="{TOP + HEIGHT + 40}">',
        "<style>text { font: 10px sans-serif }</style>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{LEFT}" y="14">{title}</text>',
    ]
    for value, text in up.marks.items():
        _, y = place((across.first, value))
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 3:.1f}" text-anchor="end">{text}</text>')
    for value, text in across.marks.items():
        x, _ = place((value, up.first))
        parts.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{TOP + HEIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x:.1f}" y="{TOP + HEIGHT + 14}" text-anchor="middle">{text}</text>')
    parts.append(_line([place(point) for point in reference], "black", 1.0))
    for row, ((name, points), colour) in enumerate(zip(curves.items(), COLOURS, strict=False)):
        parts.append(_line([place(point) for point in points], colour, 2.5 if name == bold else 1.3))
        y = TOP + 8 + 16 * row
        parts.append(f'<rect x="{LEFT + WIDTH + 14}" y="{y - 8}" width="10" height="8" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + WIDTH + 30}" y="{y}">{name}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _line(points: Points, colour: str, width: float) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>'
