"""Draws figures as small SVG: curves, bars and shares, the same bytes for the same figures."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Final

COLOURS: Final = ("#c0392b", "#1f618d", "#b9770e", "#1e8449", "#7d3c98", "#5d6d7e", "#af601a", "#2e86c1", "#717d7e")
LEFT, TOP, WIDTH, HEIGHT = 64, 28, 420, 240
LEGEND: Final = 150
BAR: Final = 9


def curves(
    title: str,
    across: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    label: Callable[[float], str] | None = None,
) -> str:
    """Return lines of microseconds over sizes, both axes logarithmic; the first line is the one that matters.

    Args:
        title: above.
        across: what the sizes are.
        lines: name and points (size, microseconds) of each.
        label: of a value on the axis, where the values are something else than microseconds.
    """
    sizes = sorted({size for points in lines.values() for size, _ in points})
    times = [time for points in lines.values() for _, time in points]
    low, high = 10 ** math.floor(math.log10(min(times))), 10 ** math.ceil(math.log10(max(times)))
    first, last = math.log(sizes[0]), math.log(sizes[-1])

    def x(size: float) -> float:
        return LEFT + WIDTH * (math.log(size) - first) / ((last - first) or 1)

    def y(time: float) -> float:
        return TOP + HEIGHT * (1 - math.log(time / low) / math.log(high / low))

    parts = [_text(LEFT, 14, title, "start")]
    tick = low
    while tick <= high * 1.001:
        parts.append(_rule(LEFT, y(tick), LEFT + WIDTH, y(tick)))
        parts.append(_text(LEFT - 6, y(tick) + 3, (label or _micros)(tick), "end"))
        tick *= 10
    for size in sizes:
        parts.append(_rule(x(size), TOP, x(size), TOP + HEIGHT))
        parts.append(_text(x(size), TOP + HEIGHT + 14, f"{size:g}", "middle"))
    parts.append(_text(LEFT + WIDTH / 2, TOP + HEIGHT + 30, across, "middle"))
    for row, ((name, points), colour) in enumerate(zip(lines.items(), COLOURS, strict=False)):
        thick = 2.5 if row == 0 else 1.2
        places = " ".join(f"{x(size):.1f},{y(time):.1f}" for size, time in points)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{thick}"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(t):.1f}" r="{thick + 0.8:.1f}" fill="{colour}"/>' for s, t in points]
        parts += _legend(row, name, colour)
    return _picture(LEFT + WIDTH + LEGEND, TOP + HEIGHT + 40, parts)


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """Return a row of bars for each group: how many times as long each takes; a line marks 1.

    Args:
        title: above.
        groups: name of the group, and the ratio of each name.
    """
    names = list(dict.fromkeys(name for ratios in groups.values() for name in ratios))
    most = max(2.0, *(ratio for ratios in groups.values() for ratio in ratios.values()))
    decades = math.ceil(math.log10(most * 2))

    def x(ratio: float) -> float:
        return LEFT + WIDTH * max(0.0, math.log10(ratio * 2)) / decades  # the axis begins at a half

    parts, y = [_text(LEFT, 14, title, "start")], TOP
    for group, ratios in groups.items():
        parts.append(_text(LEFT - 6, y + BAR * len(ratios) / 2 + 3, group, "end"))
        for name, ratio in ratios.items():
            colour = COLOURS[names.index(name) % len(COLOURS)]
            parts.append(f'<rect x="{LEFT}" y="{y}" width="{x(ratio) - LEFT:.1f}" height="{BAR - 1}" fill="{colour}"/>')
            parts.append(_text(x(ratio) + 4, y + BAR - 2, f"{ratio:.2f}", "start"))
            y += BAR
        y += BAR
    parts.append(f'<line x1="{x(1):.1f}" y1="{TOP - 4}" x2="{x(1):.1f}" y2="{y}" stroke="black"/>')
    for row, name in enumerate(names):
        parts += _legend(row, name, COLOURS[row % len(COLOURS)])
    return _picture(LEFT + WIDTH + LEGEND, max(y, TOP + 16 * len(names)) + 8, parts)


def shares(title: str, across: str, lines: Mapping[str, Sequence[tuple[float, float]]], mark: float) -> str:
    """Return lines of shares in [0, 1] over numbers, both axes linear; a line marks one share.

    Args:
        title: above.
        across: what the numbers are.
        lines: name and points (number, share) of each.
        mark: the share that matters.
    """
    numbers = [number for points in lines.values() for number, _ in points]
    first, last = min(numbers), max(numbers)

    def x(number: float) -> float:
        return LEFT + WIDTH * (number - first) / ((last - first) or 1)

    def y(share: float) -> float:
        return TOP + HEIGHT * (1 - share)

    parts = [_text(LEFT, 14, title, "start")]
    for tick in range(0, 101, 20):
        parts += [
            _rule(LEFT, y(tick / 100), LEFT + WIDTH, y(tick / 100)),
            _text(LEFT - 6, y(tick / 100) + 3, f"{tick} %", "end"),
        ]
    for number in sorted({first, (first + last) // 2, last}):
        parts.append(_text(x(number), TOP + HEIGHT + 14, f"{number:g}", "middle"))
    parts.append(_text(LEFT + WIDTH / 2, TOP + HEIGHT + 30, across, "middle"))
    marked = f'x1="{LEFT}" y1="{y(mark):.1f}" x2="{LEFT + WIDTH}" y2="{y(mark):.1f}"'
    parts.append(f'<line {marked} stroke="#000" stroke-dasharray="4 3"/>')
    for row, ((name, points), colour) in enumerate(zip(lines.items(), COLOURS, strict=False)):
        places = " ".join(f"{x(number):.1f},{y(share):.1f}" for number, share in points)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
        parts += _legend(row, name, colour)
    return _picture(LEFT + WIDTH + LEGEND + 40, TOP + HEIGHT + 40, parts)


def _legend(row: int, name: str, colour: str) -> Iterator[str]:
    x, y = LEFT + WIDTH + 40, TOP + 8 + 16 * row
    yield f'<rect x="{x}" y="{y - 8}" width="10" height="8" fill="{colour}"/>'
    yield _text(x + 16, y, name, "start")


def _picture(width: float, height: float, parts: Sequence[str]) -> str:
    begin = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}">'
    style = "<style>text { font: 10px sans-serif }</style>"
    return "\n".join([begin, style, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>", ""])


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def _micros(value: float) -> str:
    return f"{value / 1000:g} ms" if value >= 1000 else f"{value:g} µs"
