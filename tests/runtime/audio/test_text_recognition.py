"""Published networks read drawn text inside a program that ends in CTC and text; needs ../shared/data/pretrained."""

from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import nn

from tests.runtime.audio.recognizers import LINE, PLATE, Line, Plate

needs_line = pytest.mark.skipif(not LINE.is_dir(), reason=f"the weights of others are not there: {LINE}")
needs_plate = pytest.mark.skipif(not PLATE.is_dir(), reason=f"the weights of others are not there: {PLATE}")


def draw_line(text: str, width: int = 360) -> NDArray[np.uint8]:
    """Black on white, in Pillow's own font."""
    picture = Image.new("L", (width, 36), 255)
    ImageDraw.Draw(picture).text((6, 0), text, fill=0, font=ImageFont.load_default(size=26))
    return np.asarray(picture)


def draw_plate(text: str) -> NDArray[np.uint8]:
    """White on blue, drawn large and made small, blue first; the place of the first character is left empty."""
    picture = Image.new("RGB", (400, 100), (140, 60, 20))
    ImageDraw.Draw(picture).text((8, -6), text, fill=(255, 255, 255), font=ImageFont.load_default(size=88))
    return np.asarray(picture.resize((94, 24), Image.Resampling.BILINEAR))


def read(module: nn.Module, picture: NDArray[np.uint8]) -> list[tuple[str, str]]:
    """Greedy and beam texts, in eager mode and of the program, whose sizes and bytes must be the same."""
    pixels = torch.from_numpy(picture.copy())
    with torch.no_grad():
        eager: Any = [each.numpy() for each in module.eval()(pixels)]
    ours = load(bytes(export(module, (pixels,))))(picture)
    return [
        (found[0][: found[1][0]].tobytes().decode(), found[2][: found[3][0]].tobytes().decode())
        for found in (eager, ours)
    ]


@needs_line
@pytest.mark.parametrize("text", ["The quick brown fox"])
def test_a_printed_line_is_read_by_a_program(text: str) -> None:
    """Letter by letter; spaces, and marks that the network sees in the empty border, are not compared."""
    eager, ours = read(Line(), draw_line(text))
    assert ours == eager
    assert [each.replace(" ", "").strip("—") for each in ours] == [text.replace(" ", "")] * 2


@needs_plate
@pytest.mark.thorough  # the line says the same
def test_the_digits_of_a_plate_are_read_by_a_program() -> None:
    """Behind whatever province it sees where none is drawn."""
    eager, ours = read(Plate(), draw_plate(" A12345"))
    assert ours == eager
    assert all(each.endswith("12345") for each in ours)
