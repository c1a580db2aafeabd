"""Frames of any size, and scenes: what is mixed, what is put behind, and what is refused by name."""

from typing import Any

import numpy as np
import pytest
from alcove.features.background import Background, Blur, Replacement, Stage
from alcove.features.background.composition import cover, mix, put
from alcove.features.background.config import HEIGHT, WIDTH
from alcove.features.background.drawn import draw_clip
from alcove.features.background.frames import grow, place_of, shrink, to_bytes
from alcove.features.errors import FieldError
from alcove.features.picture import PictureError
from numpy.typing import NDArray


def picture(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    """Return a picture of noise."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3)).astype(np.uint8)


def left_half() -> NDArray[np.float32]:
    """Return a matte of somebody who covers the left half."""
    matte = np.zeros((HEIGHT, WIDTH), np.float32)
    matte[:, : WIDTH // 2] = 1
    return matte


def test_mixing_rounds_to_the_nearest_level_for_all_bytes() -> None:
    """Every alpha with every pair of 52 levels is what exact arithmetic gives; one row more than a strip."""
    levels = np.arange(0, 256, 5)
    alpha, front, behind = (x.ravel() for x in np.meshgrid(np.arange(256), levels, levels, indexing="ij"))
    rows = 17
    whole = len(alpha) // (3 * rows) * 3 * rows
    arrays = [each[:whole].astype(np.uint8).reshape(rows, -1, 3) for each in (front, alpha, behind)]
    exact = front[:whole] * alpha[:whole] + behind[:whole] * (255 - alpha[:whole])
    np.testing.assert_array_equal(mix(arrays[0], arrays[1], arrays[2]).ravel(), (2 * exact + 255) // 510)


@pytest.mark.parametrize("shape", [(288, 512), (200, 300), (90, 160), (720, 1280)])
def test_people_are_put_as_if_the_whole_frame_were_mixed(shape: tuple[int, int]) -> None:
    """Nothing is lost at the edges of the part that is computed, and nothing is written outside of it."""
    own = np.zeros((HEIGHT, WIDTH), np.uint8)
    own[40:90, 100:131] = np.random.default_rng(1).integers(0, 256, (50, 31))
    frame, behind = picture(*shape, 1), picture(*shape, 2)
    np.testing.assert_array_equal(put(frame, own, behind.copy()), mix(frame, grow(own, *shape), behind))
    np.testing.assert_array_equal(put(frame, 0 * own, behind.copy()), behind)


def test_matte_near_its_ends_is_its_ends() -> None:
    """A hundredth of the hidden room is not shown; a half stays a half."""
    assert to_bytes(np.array([0.0, 0.04, 0.5, 0.96, 1.0, -0.001, 1.001], np.float32)).tolist() == [
        0,
        0,
        128,
        255,
        255,
        0,
        255,
    ]


def test_mixing_arrays_of_different_shapes_is_refused() -> None:
    """Nothing is spread silently."""
    with pytest.raises(ValueError, match="one shape"):
        mix(picture(4, 4), picture(4, 4), picture(4, 5))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((720, 1280), (0, 0, 144, 256)),
        ((480, 640), (0, 32, 144, 192)),
        ((1280, 720), (0, 87, 144, 81)),
        ((1, 1), (0, 56, 144, 144)),
        ((100, 1), (0, 127, 144, 1)),
        ((1, 10_000), (71, 0, 1, 256)),
    ],
)
def test_frame_keeps_its_shape_in_the_middle(shape: tuple[int, int], expected: tuple[int, int, int, int]) -> None:
    """4:3, upright, one pixel, one row: the longer side fills the program's picture."""
    place = place_of(*shape)
    assert (place.top, place.left, place.height, place.width) == expected
    assert shrink(np.full((*shape, 3), 77, np.uint8)).tolist() == np.full((HEIGHT, WIDTH, 3), 77).tolist()


def test_array_with_strides_is_read_as_its_copy() -> None:
    """Every second pixel, mirrored, or turned: what numpy shows counts, not how it lies in memory."""
    whole = picture(40, 60)
    for view in (whole[::2, ::-1], whole[:, :, ::-1], whole.transpose(1, 0, 2)):
        np.testing.assert_array_equal(Background().prepare(view)[0], Background().prepare(view.copy())[0])


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((0, 0, 3), np.uint8),
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.broadcast_to(np.uint8(0), (10_000, 10_000, 3)),
        "photo.jpg",
    ],
    ids=["no pixels", "gray", "alpha", "floats", "too large", "text"],
)
def test_what_is_no_frame_is_refused(pixels: Any) -> None:
    """A typed error, by the feature, the framing and the scenes."""
    for take in (Background().prepare, Background().framing().encode_frame, Replacement, Stage):
        with pytest.raises(PictureError):
            take(pixels)


def test_framing_takes_one_run_a_frame_and_keeps_nothing() -> None:
    """Any number of outputs but one is refused."""
    framing = Background().framing()
    [(given,)] = framing.encode_frame(picture(90, 160))
    assert given.shape == (HEIGHT, WIDTH, 3)
    framing.skip_frame()
    framing.reset()
    with pytest.raises(ValueError, match="one run"):
        framing.decode_frame([])
    assert framing.decode_frame([[left_half()]]).share == 0.5


def test_replacement_shows_people_before_the_picture() -> None:
    """The picture's middle where nobody is, the frame where somebody is, at the frame's size."""
    frame, behind = picture(288, 512, 1), picture(400, 512, 2)
    shown = Replacement(behind).show(frame, left_half())
    np.testing.assert_array_equal(shown[:, :250], frame[:, :250])
    np.testing.assert_array_equal(shown[:, 262:], behind[56:344, 262:])
    scene = Replacement(behind)
    scene.show(frame, left_half())
    small = scene.show(frame[::2, ::2], left_half())
    np.testing.assert_array_equal(small, Replacement(behind).show(frame[::2, ::2], left_half()))


def test_picture_that_covers_is_cut_on_two_sides_alone() -> None:
    """The middle in the shape that is asked for; of any size."""
    wide = np.repeat(np.arange(100, dtype=np.uint8)[None, :, None], 20, 0).repeat(3, 2)
    np.testing.assert_array_equal(cover(wide, 20, 20), wide[:, 40:60])
    assert cover(picture(1, 1), 9, 16).shape == (9, 16, 3)


def test_blur_softens_the_room_and_leaves_people_alone() -> None:
    """No color of the people is smeared into it, and a stronger blur is softer."""
    frame = picture(288, 512, 3)
    frame[:, :256] = (255, 0, 0)
    frame[:, 256:, 0] = 0
    weak, strong = (Blur(strength).show(frame, left_half()) for strength in (0.1, 1.0))
    np.testing.assert_array_equal(strong[:, :250], frame[:, :250])
    assert strong[:, 262:, 0].max() <= 2
    assert strong[:, 300:, 1:].std() < weak[:, 300:, 1:].std() < 0.5 * frame[:, 300:, 1:].std()
    assert strong[:, 300:, 1].mean() == pytest.approx(frame[:, 300:, 1].mean(), abs=2)


def test_blur_of_a_frame_without_room_is_the_frame() -> None:
    """Where all is somebody, nothing is divided by nothing."""
    frame = picture(90, 160)
    np.testing.assert_array_equal(Blur().show(frame, np.ones((HEIGHT, WIDTH), np.float32)), frame)


@pytest.mark.parametrize("shape", [(1, 1), (1, 300), (300, 1), (2, 3)])
def test_frames_of_few_pixels_are_shown(shape: tuple[int, int]) -> None:
    """In every scene; a stage keeps its own size."""
    frame = picture(*shape)
    for scene in (Blur(), Replacement(picture(5, 7))):
        assert scene.show(frame, left_half()).shape == frame.shape
    assert Stage(picture(5, 7)).show(frame, left_half()).shape == (5, 7, 3)


def test_stage_shows_people_smaller_at_its_lower_edge() -> None:
    """Where they are asked for; a part beyond the picture's side is cut off."""
    stage, frame = np.zeros((180, 320, 3), np.uint8), np.full((720, 1280, 3), 200, np.uint8)
    everyone = np.ones((HEIGHT, WIDTH), np.float32)
    shown = Stage(stage, height=0.5, across=0.5).show(frame, everyone)
    rows, columns = np.nonzero(shown[..., 0])
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (90, 179, 80, 239)
    half = Stage(stage, height=0.5, across=1.0).show(frame, everyone)
    assert np.nonzero(half.any(axis=(0, 2)))[0].min() == 240
    assert not stage.any()


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: Blur(0), "strength"),
        (lambda: Blur(1.5), "strength"),
        (lambda: Stage(picture(4, 4), height=0.05), "height"),
        (lambda: Stage(picture(4, 4), across=1.5), "across"),
    ],
)
def test_scene_out_of_its_bounds_is_refused(make: Any, field: str) -> None:
    """By the field's name."""
    with pytest.raises(FieldError) as refused:
        make()
    assert refused.value.field == field


def test_drawn_clip_is_still_but_for_noise_unless_somebody_sways() -> None:
    """What flicker is measured on changes nowhere by more than the camera's noise."""
    still, moving = draw_clip("dark shirt", 7), draw_clip("dark shirt", 7, sway=10)
    assert (still[0].truth == still[6].truth).all()
    assert np.abs(still[0].pixels.astype(int) - still[6].pixels).mean() < 4
    assert (moving[0].truth != moving[6].truth).any()
