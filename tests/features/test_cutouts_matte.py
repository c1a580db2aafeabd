"""Alpha at a photo's size, the sticker and the measures of cutouts, without a program."""

import struct
import zlib

import numpy as np
import pytest
from alcove.features.cutouts.matte import STRIP, Edges, bounds_of, make_sticker, outline, png_of
from alcove.features.cutouts.metrics import boundary_f, depth, inner_point, iou, next_tap


def edges_of(slope: float, offset: float, cells: int = 4) -> Edges:
    """Coefficients that are the same everywhere."""
    return Edges(np.full((cells, cells), slope, np.float32), np.full((cells, cells), offset, np.float32))


def test_alpha_is_linear_in_gray_and_kept_within_bounds() -> None:
    """Slope times gray plus offset, in [0, 1], at the photo's size."""
    pixels = np.zeros((2, 3, 3), np.uint8)
    pixels[0, 1], pixels[1, 2] = 255, (255, 0, 0)
    alpha = edges_of(0.5, 0.25).alpha(pixels)
    assert alpha.shape == (2, 3)
    np.testing.assert_allclose(alpha, [[0.25, 0.75, 0.25], [0.25, 0.25, 0.25 + 0.5 * 0.299]], atol=1e-6)
    assert edges_of(3, -0.5).alpha(pixels)[:, 1].tolist() == [1, 0]


def test_alpha_between_cells_is_linear_and_the_same_in_strips() -> None:
    """A photo of many strips is cut as one of a single strip; between the middles of cells alpha is straight."""
    offset = np.linspace(0, 1, 4, dtype=np.float32)[:, None] * np.ones(4, np.float32)
    edges = Edges(np.zeros((4, 4), np.float32), offset)
    height = 2 * (STRIP // 512) + 7
    alpha = edges.alpha(np.zeros((height, 512, 3), np.uint8))
    place = np.clip((np.arange(height) + 0.5) * 4 / height - 0.5, 0, 3) / 3
    np.testing.assert_allclose(alpha[:, 100], place, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 700), (700, 1)])
def test_alpha_of_a_photo_of_one_row_or_pixel_is_defined(shape: tuple[int, int]) -> None:
    """As large as the photo."""
    alpha = edges_of(0, 0.5).alpha(np.zeros((*shape, 3), np.uint8))
    assert alpha.shape == shape
    assert (alpha == 0.5).all()


def test_bounds_are_those_of_what_is_half_covered() -> None:
    """Left, top, right, bottom; None where nothing is."""
    alpha = np.zeros((10, 20), np.float32)
    assert bounds_of(alpha) is None
    alpha[2:5, 3:9] = 0.5
    alpha[0, 0] = 0.49
    assert bounds_of(alpha) == (3, 2, 9, 5)


def test_outline_is_as_wide_as_asked_for() -> None:
    """A disk around a point: reached at its distance, not beyond."""
    alpha = np.zeros((21, 21), np.float32)
    alpha[10, 10] = 1
    wide = outline(alpha, 4)
    assert wide[10, 14] == wide[6, 10] == 1
    assert wide[10, 15] == wide[14, 14] == 0


def test_sticker_is_transparent_outside_white_around_and_the_photo_within() -> None:
    """No larger than cutout and outline."""
    pixels = np.full((30, 40, 3), (200, 10, 20), np.uint8)
    alpha = np.zeros((30, 40), np.float32)
    alpha[10:20, 15:31] = 1
    sticker = make_sticker(pixels, alpha, 3)
    assert sticker.shape == (10 + 8, 16 + 8, 4)
    assert sticker[9, 12].tolist() == [200, 10, 20, 255]
    assert sticker[9, 2].tolist() == [255, 255, 255, 255]
    assert sticker[0, 0, 3] == 0
    with pytest.raises(ValueError, match="nothing is cut out"):
        make_sticker(pixels, 0 * alpha, 3)


def test_png_keeps_pixels_and_transparency() -> None:
    """Every byte comes back, by the rules of the format."""
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 4)).astype(np.uint8)
    data = png_of(pixels)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    assert struct.unpack(">IIBB", data[16:26]) == (7, 5, 8, 6)
    start = data.index(b"IDAT")
    size = struct.unpack(">I", data[start - 4 : start])[0]
    rows = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + size]), np.uint8).reshape(5, 29)
    assert (rows[:, 1:].reshape(5, 7, 4) == pixels).all()


def test_measures_of_masks_are_those_by_hand() -> None:
    """IoU of halves is a third; a boundary one pixel off is still right, one far off is not."""
    one, other = np.zeros((40, 40), bool), np.zeros((40, 40), bool)
    one[10:20, 10:30], other[10:20, 20:40] = True, True
    assert iou(one, other) == pytest.approx(1 / 3)
    assert iou(one & other & ~one, one & ~one) == 1
    moved = np.roll(one, 1, axis=0)
    assert boundary_f(one, one) == 1
    assert boundary_f(moved, one) > 0.99
    assert boundary_f(np.roll(one, 12, axis=0), one) < 0.3
    assert boundary_f(one & ~one, one) == 0


def test_next_tap_is_where_most_is_wrong() -> None:
    """Adds what is missing, removes what is too much, the deeper error first; nothing where all is right."""
    truth, found = np.zeros((40, 40), bool), np.zeros((40, 40), bool)
    truth[5:20, 5:20] = True
    found[30:35, 30:35] = True
    across, down, adds = next_tap(found, truth) or (0, 0, False)
    assert adds
    assert (across, down) == (12.5 / 40, 12.5 / 40)
    across, down, adds = next_tap(found | truth, truth) or (0, 0, True)
    assert not adds
    assert (across, down) == (32.5 / 40, 32.5 / 40)
    assert next_tap(truth, truth) is None


def test_depth_and_inner_point_of_a_ring_are_on_the_ring() -> None:
    """The middle of a ring is no part of it."""
    y, x = np.mgrid[0:41, 0:41]
    away = np.hypot(x - 20, y - 20)
    ring = (away > 10) & (away < 19)
    across, down = inner_point(ring)
    assert ring[int(down * 41), int(across * 41)]
    assert depth(ring).max() >= 4
    with pytest.raises(ValueError, match="empty mask"):
        inner_point(ring & ~ring)
