"""Reads the values of options of `alcove model import`, before anything large is loaded."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import typer

IMAGENET: Final = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Means and deviations that most public models were trained with."""
CHANNELS: Final = {"rgb": 3, "bgr": 3, "gray": 1}
FITS: Final = ("crop", "center", "stretch", "letterbox")
"""crop: the middle of the picture at 256/224 of the size, as image models are evaluated; center: as much of its middle
as has the size's proportions; stretch: the whole, in other proportions; letterbox: the whole, with gray beside it."""
LARGEST_SIDE: Final = 2048
LEAST_STD: Final = 1e-6


@dataclass(frozen=True)
class Pictures:
    """Size and normalization of a model's pictures.

    Attributes:
        size: height and width of what the program takes, in pixels.
        mean: of each channel in the model's order, for pixels in [0, 1].
        std: of each channel.
        channels: in the order in which the model takes them: `rgb`, `bgr` or `gray`.
        fit: how a picture of the folder gets that size, one of `FITS`; an app does it by itself.
    """

    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    channels: str = "rgb"
    fit: str = "crop"


def parse_options(given: Sequence[str]) -> dict[str, Any]:
    """Return the arguments in NAME=VALUE pairs; a value that is JSON is taken as that, any other as text.

    Raises:
        typer.BadParameter: one is no such pair, or a name is given twice.
    """
    options: dict[str, Any] = {}
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or not name.isidentifier() or name in options:
            raise typer.BadParameter(f"--option is NAME=VALUE, each name once; got {pair!r}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def parse_shapes(given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes in NAME=1x3x224x224.

    Raises:
        typer.BadParameter: one is none, or a name is given twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for pair in given:
        name, equals, text = pair.rpartition("=")
        if not equals or not name or not re.fullmatch(r"\d{1,9}(x\d{1,9})*|", text) or name in found:
            raise typer.BadParameter(f"--input is NAME=1x3x224x224, each name once; got {pair!r}")
        found[name] = tuple(int(size) for size in text.split("x")) if text else ()
        if 0 in found[name]:
            raise typer.BadParameter(f"--input {pair}: a size of 0")
    return found


def parse_constants(given: Sequence[str]) -> dict[str, Any]:
    """Return the values in NAME=VALUE: numbers, or lists of them in JSON.

    Raises:
        typer.BadParameter: one is none, or a name is given twice.
    """
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.rpartition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        if not equals or not name or name in found or not _is_number(value):
            raise typer.BadParameter(
                f"--constant is NAME=VALUE, a number or a list as [1, 2], each name once; got {pair!r}"
            )
        found[name] = value
    return found


def _is_number(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_is_number, value))
    return isinstance(value, int | float)


def parse_size(text: str | None) -> tuple[int, int] | None:
    """Return height and width in "224" or "192x320".

    Raises:
        typer.BadParameter: it is neither, or a side is below 8 or above 2048.
    """
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,6}(x\d{1,6})?", text):
        raise typer.BadParameter(f"--size is pixels, as 224, or height and width, as 192x320; got {text!r}")
    sides = [int(side) for side in text.split("x")]
    if not all(8 <= side <= LARGEST_SIDE for side in sides):
        raise typer.BadParameter(f"--size {text}: sides are 8 to {LARGEST_SIDE} pixels")
    return sides[0], sides[-1]


def parse_normalization(
    mean: str | None, std: str | None, channels: str, white: int | None
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return means and deviations of the channels in the model's order, for pixels from 0 to 1.

    Args:
        mean: as given, with commas between; None for none.
        std: likewise.
        channels: `rgb`, `bgr` or `gray`.
        white: what white is before them, 1 or 255; None to find out: 255 if one of the numbers is above 1.

    Raises:
        typer.BadParameter: these are no numbers, not as many as channels, negative, or a deviation is 0.
    """
    if channels not in CHANNELS:
        raise typer.BadParameter(f"--channels is {', '.join(CHANNELS)}; got {channels!r}")
    if white not in {None, 1, 255}:
        raise typer.BadParameter(f"--white is 1 or 255; got {white}")
    count = CHANNELS[channels]
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    if mean is None and std is None:
        means, deviations = IMAGENET if count == 3 else ((0.0,), (1.0,))
        if channels == "bgr":
            means, deviations = means[::-1], deviations[::-1]
        if white == 255:
            means, deviations = (0.0,) * count, (1.0,) * count
    else:
        means, deviations = _numbers("--mean", mean, count, 0.0), _numbers("--std", std, count, 1.0)
    if white == 255 or (white is None and max(*means, *deviations) > 1):
        return tuple(each / 255 for each in means), tuple(each / 255 for each in deviations)
    return tuple(means), tuple(deviations)


def _numbers(option: str, text: str | None, count: int, default: float) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in text.split(",")) if text is not None else (default,)
    except ValueError:
        numbers = ()
    least = LEAST_STD if option == "--std" else 0.0
    if len(numbers) not in {1, count} or not all(least <= number <= 255 for number in numbers):
        many = "one number or three, such as 0.5,0.5,0.5" if count == 3 else "one number, such as 0.5"
        raise typer.BadParameter(f"{option} is {many}, {least:g} to 255; got {text!r}")
    return numbers * (count if len(numbers) == 1 else 1)
