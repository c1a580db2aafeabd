"""Defines charts: what a picture shows, drawn by a script in the browser and given as a table beside it.

A page makes a `Chart` of what it has read; `components/charts.html` shows it.  Without scripts the table is what there
is, and a screen reader reads it either way.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

__all__ = ["MARKS", "Axis", "Chart", "Line", "Point", "Series"]

MARKS: Final = (
    "M1 0A1 1 0 1 1 -1 0A1 1 0 1 1 1 0Z",  # disc
    "M-.9 -.9H.9V.9H-.9Z",  # square
    "M0 -1.15L1.1 .85H-1.1Z",  # triangle
    "M0 -1.3L1.2 0L0 1.3L-1.2 0Z",  # diamond
    "M0 1.15L1.1 -.85H-1.1Z",  # triangle on its tip
    "M-.4 -1.2H.4V-.4H1.2V.4H.4V1.2H-.4V.4H-1.2V-.4H-.4Z",  # cross
    "M0 -1.2L1.2 -.3L.75 1.1H-.75L-1.2 -.3Z",  # pentagon
)
"""Tell series apart beside their colors: outlines round (0, 0), as SVG writes paths, in the order of the series."""


@dataclass(frozen=True)
class Point:
    """A value at a place, with its interval.

    Attributes:
        x: place on the horizontal axis: seconds since 1970-01-01 UTC where its kind is "time", else a number.
        y: value, in the unit of the vertical axis; None: unknown.
        low: lower end of its interval; None: unbounded, or the value has none.
        high: upper end; None: as `low`.
    """

    x: float
    y: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Series:
    """Values of one thing, from left to right.

    Attributes:
        name: what it is, in the legend and the table.
        points: in rising order of `x`.
        style: "intervals": a marker with its interval at each point; "steps": a value that stays until the next point;
            "curve": a line through the points.
    """

    name: str
    points: Sequence[Point]
    style: Literal["intervals", "steps", "curve"] = "intervals"


@dataclass(frozen=True)
class Line:
    """A horizontal line to compare with.

    Attributes:
        name: what it means, such as "margin".
        value: where it lies, in the unit of the vertical axis.
        is_bound: whether crossing it decides something; else it only helps the eye, as the line of no difference.
    """

    name: str
    value: float
    is_bound: bool = True


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        title: what it shows.
        unit: of its numbers, such as "percentage points"; "": none.
        kind: "time" (seconds since 1970-01-01 UTC, shown in the viewer's zone) or "number".
    """

    title: str
    unit: str = ""
    kind: Literal["time", "number"] = "number"

    @property
    def words(self) -> str:
        """Title and unit."""
        return f"{self.title} ({self.unit})" if self.unit else self.title


@dataclass(frozen=True)
class Chart:
    """A picture.

    Attributes:
        name: its id on the page, of a-z, digits and "-".
        title: what it shows, in words; those who hear the page hear it.
        x: the horizontal axis.
        y: the vertical axis.
        series: what is drawn; in the order of the colors.
        lines: to compare with.
        empty: what to say where no series has a point.
    """

    name: str
    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    lines: Sequence[Line] = ()
    empty: str = "No reports yet."

    @property
    def marks(self) -> Sequence[str]:
        """Outlines of the series' marks, as SVG writes paths; a series past the last has the first again."""
        return MARKS

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(point.y is not None for series in self.series for point in series.points)

    def to_json(self) -> dict[str, Any]:
        """Return what the script draws, and programs read; an end that is infinite is unbounded, None."""
        found = asdict(self)
        for series in found["series"]:
            for point in series["points"]:
                for name in ("y", "low", "high"):
                    if point[name] is not None and not math.isfinite(point[name]):
                        point[name] = None
        for axis in ("x", "y"):
            found[axis]["words"] = getattr(self, axis).words
        return found
