"""Parses shares of devices, "25%" or a bare count of 1/10 000 such as "2500", spreads of them, and segments."""

import re
from fractions import Fraction
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from alcove.platform.client import Segment

__all__ = ["parts_of", "segment_of", "share_basis_points"]

_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)\s*%", re.ASCII)
_PART = re.compile(r"\d{1,3}(?:\.\d{1,6})?", re.ASCII)
_SEGMENT = re.compile(r"([^:]{1,64}):(\d{1,5})-(\d{1,5})", re.ASCII)
_COUNT = re.compile(r"\d{1,5}", re.ASCII)


def share_basis_points(text: str) -> int:
    """Return a share in 1/10 000, in [0, 10 000].

    Raises:
        typer.BadParameter: `text` is no share.
    """
    if match := _PERCENT.fullmatch(text.strip()):
        share = int(Fraction(match[1]) * 100)
    elif _COUNT.fullmatch(text.strip()):
        share = int(text)
    else:
        share = -1
    if not 0 <= share <= 10_000:
        raise typer.BadParameter(f"a share is written 25% or 2500 (1/10 000), at most 100%; got {text!r}")
    return share


def parts_of(text: str) -> tuple[float, ...]:
    """Return the parts of the devices that "57%,24%,19%" means; "" means none.

    Raises:
        typer.BadParameter: `text` reads otherwise.
    """
    parts = [part.strip() for part in text.split(",")] if text else []
    if not all(part.endswith("%") and _PART.fullmatch(part[:-1].strip()) for part in parts):
        raise typer.BadParameter(f"parts of the devices are written 57%,24%,19%; got {text!r}")
    return tuple(float(part[:-1]) / 100.0 for part in parts)


def segment_of(text: str) -> "Segment":
    """Return the part of a layer that "search:0-2500" names: buckets [0, 2500) of layer `search`.

    Raises:
        typer.BadParameter: `text` names none.
    """
    from alcove.platform.client import Segment  # noqa: PLC0415 - loads gRPC

    match = _SEGMENT.fullmatch(text.strip())
    first, end = (int(match[2]), int(match[3])) if match else (0, 0)
    if match is None or not first < end <= 10_000:
        raise typer.BadParameter(f"a segment is written LAYER:FIRST-END within 0-10000, first below end; got {text!r}")
    return Segment(layer=match[1], first=first, count=end - first)
