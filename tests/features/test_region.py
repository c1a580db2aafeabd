"""Parts of pictures: shares of the sides, checked once for all features."""

from typing import Any

import numpy as np
import pytest
from alcove.features.cutouts.contract import Bounds
from alcove.features.cutouts.request import Box
from alcove.features.errors import FieldError
from alcove.features.region import Region
from alcove.features.scene_tags.crop import Crop


@pytest.mark.parametrize("kind", [Region, Crop, Bounds, Box])
@pytest.mark.parametrize("wrong", [-0.1, 1.1, float("nan"), True, "0.5", None])
def test_side_that_is_no_share_is_refused_by_name(kind: type[Region], wrong: object) -> None:
    """Each kind of region refuses each side."""
    for at, field in enumerate(("left", "top", "right", "bottom")):
        sides: list[Any] = [0.1, 0.2, 0.8, 0.9]
        sides[at] = wrong
        with pytest.raises(FieldError) as refusal:
            kind(*sides)
        assert refusal.value.field == field


def test_pixels_of_a_region_are_never_empty_and_never_outside() -> None:
    """Also of a region without extent, at the far corner, and of numpy's shares."""
    assert Region(0.25, 0.5, 0.75, 1).pixels(8, 6) == (2, 3, 6, 6)
    assert Region(1, 1, 1, 1).pixels(8, 6) == (7, 5, 8, 6)
    half: Any = np.float32(0.5)
    assert Crop(half, 0, half, 0).pixels(8, 6) == (4, 0, 5, 1)


def test_regions_of_two_kinds_are_not_the_same_answer() -> None:
    """A crop that a picture deserves is no cutout's bounds, though the shares agree; each says what it is."""
    crop: Region = Crop(0, 0, 1, 1)
    assert crop != Bounds(0, 0, 1, 1)
    assert repr(Box(0, 0, 1, 1)).startswith("Box(left=0, ")
