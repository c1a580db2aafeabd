"""The native resampling of pictures does what its stub says, against the same sums in float64."""

from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native
from numpy.typing import NDArray


def axis(
    rng: np.random.Generator, length: int, count: int, taps: int
) -> tuple[NDArray[np.uint32], NDArray[np.float32]]:
    """Return first pixels and weights of one axis, drawn at random; the weights of a pixel add up to 1."""
    weights = rng.random((count, taps)).astype(np.float32)
    weights /= weights.sum(axis=1, keepdims=True)
    return rng.integers(0, length - taps + 1, count).astype(np.uint32), weights


def whole(first: NDArray[np.uint32], weights: NDArray[np.float32], length: int) -> NDArray[np.float64]:
    """Return the matrix that an axis stands for, [count, length]."""
    matrix = np.zeros((len(first), length))
    for row, (start, counts) in enumerate(zip(first, weights, strict=True)):
        matrix[row, start : start + len(counts)] = counts
    return matrix


@pytest.mark.parametrize("taps", range(1, 10))
@pytest.mark.parametrize(("height", "width"), [(9, 9), (11, 40), (33, 10)])
def test_each_pixel_is_the_weighted_sum_of_its_neighbors(taps: int, height: int, width: int) -> None:
    """Every number of weights that has code of its own, and more; up to the rounding of float32."""
    rng = np.random.default_rng(taps)
    pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
    rows, columns = axis(rng, height, 13, taps), axis(rng, width, 7, taps)
    exact = np.einsum("rh,hwc,kw->rkc", whole(*rows, height), pixels, whole(*columns, width))
    found = _native.resample(pixels, *rows, *columns)
    assert found.shape == (13, 7, 3)
    assert np.abs(found - exact).max() <= 0.501


def test_sums_beyond_a_byte_are_kept_in_it() -> None:
    """Above by weights that add up to more than 1; of nothing by none."""
    pixels = np.full((2, 2, 3), 200, np.uint8)
    first = np.zeros(1, np.uint32)
    for weight, value in ((1.0, 255), (0.0, 0), (-1.0, 0)):
        both = np.full((1, 2), weight, np.float32)
        assert (_native.resample(pixels, first, both, first, np.ones((1, 2), np.float32)) == value).all()


WRONG: dict[str, tuple[Any, ...]] = {
    "beyond": (np.array([1], np.uint32), np.ones((1, 5), np.float32)),
    "more weights than pixels": (np.array([0], np.uint32), np.ones((1, 6), np.float32)),
    "no weights": (np.array([0], np.uint32), np.ones((1, 0), np.float32)),
    "other counts": (np.array([0, 0], np.uint32), np.ones((1, 2), np.float32)),
    "near 2**32": (np.array([2**32 - 1], np.uint32), np.ones((1, 2), np.float32)),
}


@pytest.mark.parametrize("name", WRONG)
def test_weights_that_reach_beyond_the_picture_are_refused(name: str) -> None:
    """Of rows and of columns: no byte outside the picture is read."""
    pixels = np.zeros((5, 5, 3), np.uint8)
    good: tuple[Any, ...] = (np.zeros(1, np.uint32), np.ones((1, 1), np.float32))
    for rows, columns in ((WRONG[name], good), (good, WRONG[name])):
        with pytest.raises(ValueError, match="resample"):
            _native.resample(pixels, *rows, *columns)


def test_pictures_of_another_type_or_shape_are_refused() -> None:
    """Not three channels, not bytes."""
    good: tuple[Any, ...] = (np.zeros(1, np.uint32), np.ones((1, 1), np.float32))
    pictures: tuple[Any, ...] = (
        np.zeros((5, 5), np.uint8),
        np.zeros((5, 5, 4), np.uint8),
        np.zeros((5, 5, 3), np.float32),
    )
    for wrong in pictures:
        with pytest.raises(TypeError):
            _native.resample(wrong, *good, *good)
