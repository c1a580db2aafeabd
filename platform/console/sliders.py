"""Puts a slider beside a number: which place on it a number has, and which of both somebody has moved.

A form sends the number, the slider's place, and the number that stood there when the page was made.  Whichever was
moved counts, so that sliders work without scripts; with one, both move together.
"""

import math
from collections.abc import Mapping
from typing import Final

from alcove.platform.console.sheets import Input

__all__ = ["PLACES", "SLIDER", "WAS", "number_at", "place_of", "settle"]

PLACES: Final = 200  # of a slider, from 0
SLIDER: Final = ".slider"
WAS: Final = ".was"
_DIGITS: Final = 2  # significant digits of a number at a place


def place_of(field: Input, text: str) -> int:
    """Return the place of a number on its slider; the middle where there is none."""
    try:
        value = min(max(float(text.replace(",", ".")), field.low), field.high)
    except ValueError:
        return PLACES // 2
    if field.is_logarithmic:
        return round(PLACES * math.log(value / field.low) / math.log(field.high / field.low))
    return round(PLACES * (value - field.low) / (field.high - field.low))


def number_at(field: Input, place: int) -> str:
    """Return the number at a place, with two significant digits."""
    part = min(max(place, 0), PLACES) / PLACES
    if field.is_logarithmic:
        value = field.low * (field.high / field.low) ** part
    else:
        value = field.low + (field.high - field.low) * part
    rounded = float(f"{value:.{_DIGITS}g}")
    return f"{min(max(rounded, field.low), field.high):.15g}"


def settle(fields: Mapping[str, Input], query: Mapping[str, str]) -> dict[str, str] | None:
    """Return the numbers that somebody means who has sent numbers and sliders; None: no slider was sent."""
    if not any(name.endswith(SLIDER) for name in query):
        return None
    found = {}
    for name, field in fields.items():
        text = query.get(name, "")
        place = query.get(name + SLIDER, "")
        is_untouched = text == query.get(name + WAS, "")
        if (
            is_untouched
            and place.isascii()
            and place.isdigit()
            and len(place) <= 3
            and int(place) != place_of(field, text)
        ):
            text = number_at(field, int(place))
        if text:
            found[name] = text
    return found
