"""Taps, boxes and lines of cutouts: what is taken, and what is refused by name."""

from pathlib import Path

import numpy as np
import pytest
from alcove.features.cutouts.config import TAPS
from alcove.features.cutouts.request import Box, Request, Tap, read_line
from alcove.features.errors import FieldError


@pytest.mark.parametrize(("across", "down"), [(-0.01, 0.5), (0.5, 1.01), (float("nan"), 0.5), (0.5, float("inf"))])
def test_tap_outside_the_picture_is_refused(across: float, down: float) -> None:
    """Shares of the picture, and no other number."""
    with pytest.raises(FieldError, match="expected 0 to 1"):
        Tap(across, down)


@pytest.mark.parametrize(
    ("box", "field"),
    [((0.6, 0.1, 0.4, 0.9), "right"), ((0.1, 0.9, 0.4, 0.2), "bottom"), ((0.2, 0.2, 0.2, 0.4), "right")],
)
def test_inverted_or_empty_box_is_refused(box: tuple[float, float, float, float], field: str) -> None:
    """The edge that is on the wrong side is named."""
    with pytest.raises(FieldError) as refused:
        Box(*box)
    assert refused.value.field == field


def test_arrays_hold_taps_in_order_and_the_box() -> None:
    """1 to add, -1 to remove, 0 for no tap; no box is all 0."""
    taps, box = Request(taps=(Tap(0.25, 0.5), Tap(0.75, 1, adds=False)), box=Box(0, 0.125, 0.5, 1)).arrays()
    assert taps.shape == (TAPS, 3)
    assert taps[:3].tolist() == [[0.25, 0.5, 1], [0.75, 1, -1], [0, 0, 0]]
    assert box.tolist() == [0, 0.125, 0.5, 1]
    assert not np.any(Request().arrays()[1])


def test_one_tap_too_many_is_refused() -> None:
    """The bound is named."""
    assert len(Request(taps=(Tap(0.5, 0.5),) * TAPS).taps) == TAPS
    with pytest.raises(FieldError, match=f"at most {TAPS}"):
        Request(taps=(Tap(0.5, 0.5),) * (TAPS + 1))


def test_line_is_a_path_or_json_with_taps() -> None:
    """A path alone asks for what stands out."""
    assert read_line(b"some/photo.jpg\n") == (Path("some/photo.jpg"), Request())
    line = b'{"photo": "p.png", "add": [[0.5, 0.4]], "remove": [[0.1, 0.9]], "box": [0.2, 0.1, 0.8, 0.9]}'
    path, request = read_line(line)
    assert path == Path("p.png")
    assert request.taps == (Tap(0.5, 0.4), Tap(0.1, 0.9, adds=False))
    assert request.box == Box(0.2, 0.1, 0.8, 0.9)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "empty"),
        (b"\xff\xfe", "UTF-8"),
        (b'{"photo": ', "begins like JSON"),
        (b'{"add": [[0.5, 0.5]]}', "photo: expected the path"),
        (b'{"photo": "p", "tap": [0.5, 0.5]}', "tap: expected a field of"),
        (b'{"photo": "p", "add": [0.5, 0.5]}', "add.0: expected 2 numbers"),
        (b'{"photo": "p", "add": {"x": 1}}', "add: expected a list"),
        (b'{"photo": "p", "add": [["a", 0.5]]}', "across: expected 0 to 1"),
        (b'{"photo": "p", "add": [[true, 0.5]]}', "across: expected 0 to 1"),
        (b'{"photo": "p", "box": [0.2, 0.1, 0.8]}', "box: expected 4 numbers"),
        (b'{"photo": "p", "box": [0.8, 0.1, 0.2, 0.9]}', "right: expected more than left"),
    ],
)
def test_bad_line_says_what_was_expected(line: bytes, said: str) -> None:
    """One error a line, for people."""
    with pytest.raises(ValueError, match=said):
        read_line(line)
