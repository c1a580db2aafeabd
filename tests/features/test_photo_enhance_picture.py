"""Pixels that an app gives are a picture or a typed error, and resizing is the mean of areas."""

from pathlib import Path

import numpy as np
import pytest
from alcove.features.photo_enhance.contract import PhotoEnhance
from alcove.features.photo_enhance.drawn import png_of, scene
from alcove.features.picture import (
    MissingPictureError,
    NotAPictureError,
    PictureTooLargeError,
    WrongPixelsError,
    check_pixels,
    read_picture,
    resize,
    write_picture,
)


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((0, 0, 3), np.uint8),
        np.zeros((5, 0, 3), np.uint8),
        np.zeros((4, 4, 3), np.uint16),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((1, 4, 4, 3), np.uint8),
        np.zeros(12, np.uint8),
        [[1, 2, 3]],
        None,
    ],
)
def test_what_is_no_picture_is_refused(pixels: object) -> None:
    """No pixels, 16 bits, floats, two channels, another number of axes, no array."""
    with pytest.raises(WrongPixelsError):
        check_pixels(pixels)


def test_ten_thousand_squared_is_refused_before_a_byte_is_read() -> None:
    """The bound is in the message; the array here takes no memory."""
    large = np.broadcast_to(np.zeros(3, np.uint8), (10_000, 10_000, 3))
    with pytest.raises(PictureTooLargeError, match="64,000,000"):
        PhotoEnhance().prepare(large)


@pytest.mark.parametrize("size", [(1, 1), (7, 300), (128, 128), (401, 3)])
def test_every_size_becomes_the_two_inputs_of_the_program(size: tuple[int, int]) -> None:
    """Also one pixel, whose color fills both."""
    pixels = np.full((*size, 3), 9, np.uint8)
    small, detail = PhotoEnhance().prepare(pixels)
    assert (small.shape, detail.shape) == ((256, 256, 3), (128, 128, 3))
    assert (small == 9).all()
    assert (detail == 9).all()


def test_detail_is_the_middle_in_its_own_size() -> None:
    """Noise is measured there, so that nothing is resized; a small picture goes on with its border."""
    pixels = np.random.default_rng(0).integers(0, 256, (200, 300, 3), np.uint8)
    _, detail = PhotoEnhance().prepare(pixels)
    assert np.array_equal(detail, pixels[36:164, 86:214])
    _, small = PhotoEnhance().prepare(pixels[:50, :60])
    assert np.array_equal(small[:50, :60], pixels[:50, :60])
    assert (small[50:, :60] == pixels[49, :60]).all()


def test_smaller_is_the_mean_of_areas_and_larger_lies_between_pixels() -> None:
    """A quarter of each side is the mean of four by four; twice is linear, with the border kept."""
    pixels = np.random.default_rng(1).integers(0, 256, (64, 48, 3), np.uint8)
    means = pixels.reshape(16, 4, 12, 4, 3).mean((1, 3))
    assert np.abs(resize(pixels, 16, 12) - means).max() <= 0.5 + 1e-3
    row = np.array([[[0] * 3, [100] * 3]], np.uint8)
    assert resize(row, 1, 4)[0, :, 0].tolist() == [0, 25, 75, 100]


def test_files_are_read_and_written_with_their_alpha(tmp_path: Path) -> None:
    """A PNG comes back as it was; other files are typed errors."""
    (tmp_path / "scene.png").write_bytes(png_of(scene(20, 30)))
    assert np.array_equal(read_picture(tmp_path / "scene.png"), scene(20, 30))
    alpha = np.dstack([scene(9, 9), np.arange(81, dtype=np.uint8).reshape(9, 9)])
    write_picture(alpha, tmp_path / "alpha.png")
    assert np.array_equal(read_picture(tmp_path / "alpha.png", keeps_alpha=True), alpha)
    assert np.array_equal(read_picture(tmp_path / "alpha.png"), alpha[..., :3])
    with pytest.raises(MissingPictureError):
        read_picture(tmp_path / "none.png")
    for data in (b"", b"text", png_of(scene(20, 30))[:90]):
        (tmp_path / "bad.png").write_bytes(data)
        with pytest.raises(NotAPictureError):
            read_picture(tmp_path / "bad.png")
    for name in ("picture", "picture.txt"):
        with pytest.raises(NotAPictureError):
            write_picture(scene(9, 9), tmp_path / name)
    with pytest.raises(NotAPictureError):
        write_picture(alpha, tmp_path / "alpha.jpg")
    with pytest.raises(MissingPictureError):
        write_picture(scene(9, 9), tmp_path / "none" / "a.png")


@pytest.mark.parametrize("line", [b"", b"  ", b"\xff\xfe", b"/no/such/file.png"])
def test_a_line_that_names_no_picture_is_a_typed_error(line: bytes) -> None:
    """As from a file of paths."""
    with pytest.raises(MissingPictureError):
        PhotoEnhance().parse(line)
