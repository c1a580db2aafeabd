"""Pictures of every format and size become the input of a feature; damaged and oversized ones are typed errors."""

import io
import sys
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from alcove.features import picture
from alcove.features.picture import (
    MissingPictureError,
    NotAPictureError,
    PictureTooLargeError,
    TruncatedPictureError,
    WrongPixelsError,
    fit,
    picture_of,
    read_picture,
)
from alcove.features.scene_tags.drawn import drawings, png_of
from numpy.typing import NDArray

Image = pytest.importorskip("PIL.Image", reason="most formats need Pillow: make setup")


def noise(height: int, width: int, seed: int = 1) -> NDArray[np.uint8]:
    """Return a picture of independent pixels."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def file_of(pixels: NDArray[np.uint8], kind: str, mode: str = "RGB", **options: object) -> bytes:
    """Return a picture as a file's bytes."""
    out = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(out, kind, **options)
    return out.getvalue()


def ppm_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a picture as binary PPM."""
    return b"P6\n# a comment\n%d %d\n255\n" % (pixels.shape[1], pixels.shape[0]) + pixels.tobytes()


@pytest.mark.parametrize(("height", "width"), [(64, 64), (70, 91), (224, 224), (301, 65)])
def test_smaller_is_the_mean_of_the_area_that_each_pixel_covers(height: int, width: int) -> None:
    """Said another way: each pixel 64 times, then means of whole blocks."""
    pixels = noise(height, width)
    rows = np.repeat(pixels, 64, axis=0).reshape(64, height, width, 3).mean(axis=1)
    area = np.repeat(rows, 64, axis=1).reshape(64, 64, width, 3).mean(axis=2)
    assert np.abs(fit(pixels, 64) - area).max() <= 0.51


@pytest.mark.parametrize(("height", "width"), [(64, 64), (128, 192), (640, 64)])
def test_whole_factors_are_as_pillow_has_them(height: int, width: int) -> None:
    """Its box filter is another's arithmetic of the same rule; it rounds twice."""
    pixels = noise(height, width)
    theirs = np.asarray(Image.fromarray(pixels).resize((64, 64), Image.Resampling.BOX), np.int32)
    assert np.abs(fit(pixels, 64).astype(np.int32) - theirs).max() <= 1


def test_whole_factor_is_the_mean_of_blocks() -> None:
    """Exact up to rounding; red stays red."""
    pixels = noise(192, 128)
    blocks = pixels.reshape(64, 3, 64, 2, 3).mean(axis=(1, 3))
    assert np.abs(fit(pixels, 64) - blocks).max() <= 0.501
    assert (fit(pixels, 64) != fit(pixels[:, :, ::-1].copy(), 64))[..., 0].mean() > 0.9


def test_larger_is_linear_between_pixels() -> None:
    """Two columns: their values at the sides, a ramp between, no row differs."""
    pixels = np.array([[[0, 0, 0], [200, 100, 50]]], np.uint8)
    out = fit(pixels, 64).astype(int)
    assert out[0, 0].tolist() == [0, 0, 0]
    assert out[0, -1].tolist() == [200, 100, 50]
    assert (np.diff(out[0, :, 0]) >= 0).all()
    assert (out == out[0]).all()
    assert abs(out[0, 32, 0] - 100) <= 5


def test_one_pixel_is_a_square_of_its_colour() -> None:
    """The defined answer for the least picture there is."""
    assert (fit(np.array([[[10, 200, 30]]], np.uint8), 64) == [10, 200, 30]).all()


def test_picture_of_48_million_pixels_is_taken_and_its_halves_stay_apart() -> None:
    """8000 x 6000: left dark, right light; no float copy of all of it is made (a band of rows at a time)."""
    pixels = np.zeros((6000, 8000, 3), np.uint8)
    pixels[:, 4000:] = 200
    out = fit(pixels, 64)
    assert (out[:, :32] == 0).all()
    assert (out[:, 32:] == 200).all()


def test_part_of_a_picture_and_its_copy_give_the_same_bytes() -> None:
    """Rows with others between them, upside down, every second column."""
    pixels = noise(301, 203)
    for part in (pixels[10:200, 5:90], pixels[::-1], pixels[:, ::2]):
        assert fit(part, 64).tobytes() == fit(part.copy(), 64).tobytes()


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros((5, 5), np.uint8),
        np.zeros((5, 5, 4), np.uint8),
        np.zeros((5, 5, 1), np.uint8),
        np.zeros((3, 5, 5), np.uint8),
        np.zeros((5, 5, 3), np.float32),
        np.zeros((1, 5, 5, 3), np.uint8),
        np.zeros((0, 5, 3), np.uint8),
        np.zeros((5, 0, 3), np.uint8),
        [[[1, 2, 3]]],
        None,
    ],
)
def test_arrays_of_other_shapes_and_types_are_refused(wrong: object) -> None:
    """Grey, with alpha, planes first, floats, batches, without pixels, no array at all."""
    with pytest.raises(WrongPixelsError):
        fit(wrong, 64)  # type: ignore[arg-type]


def test_more_pixels_than_allowed_are_refused_by_the_bound() -> None:
    """Without touching them: the array is one pixel that is repeated."""
    huge = np.broadcast_to(np.zeros((1, 1, 3), np.uint8), (8001, 8000, 3))
    with pytest.raises(PictureTooLargeError, match="64,000,000"):
        fit(huge, 64)


def test_png_jpeg_and_ppm_give_their_pixels(tmp_path: Path) -> None:
    """The lossless ones exactly; JPEG nearly."""
    pixels = drawings()["oranges"]
    for name, data in (("a.png", file_of(pixels, "PNG")), ("b.ppm", ppm_of(pixels)), ("c.png", png_of(pixels))):
        (tmp_path / name).write_bytes(data)
        assert (read_picture(tmp_path / name) == pixels).all(), name
    seen = picture_of(file_of(pixels, "JPEG", quality=95)).astype(int)
    assert np.abs(seen - pixels).mean() < 4


@pytest.mark.parametrize(
    ("mode", "kind"), [("L", "PNG"), ("P", "PNG"), ("RGBA", "PNG"), ("CMYK", "JPEG"), ("1", "PNG")]
)
def test_grey_palette_alpha_and_cmyk_become_rgb(mode: str, kind: str) -> None:
    """Three channels, and the picture is still to be made out."""
    pixels = drawings()["lemon"]
    seen = picture_of(file_of(pixels, kind, mode))
    assert seen.shape == pixels.shape
    assert seen.dtype == np.uint8
    grey = [np.asarray(Image.fromarray(each).convert("L")) for each in (seen, pixels)]
    blocks = [each.reshape(28, 8, 36, 8).mean(axis=(1, 3)).ravel() for each in grey]
    assert np.corrcoef(*blocks)[0, 1] > 0.9


def test_turned_pictures_are_turned_back() -> None:
    """EXIF orientation 6: a camera held upright."""
    pixels = drawings()["lemon"]
    exif = Image.Exif()
    exif[0x0112] = 6
    seen = picture_of(file_of(pixels, "PNG", exif=exif))
    assert (seen == np.rot90(pixels, -1)).all()


@pytest.mark.parametrize("data", [b"", b"hello", b"P6", b"P6 5 5", b"\x89PNG\r\n\x1a\n", b"{}" * 500, b"\0" * 4096])
def test_what_is_no_picture_is_reported(data: bytes) -> None:
    """Empty, text, a signature alone."""
    with pytest.raises((NotAPictureError, TruncatedPictureError)):
        picture_of(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "PPM"])
def test_cut_short_at_any_place_is_an_error_of_its_kind(kind: str) -> None:
    """Never a half picture, never another error."""
    data = ppm_of(noise(20, 30)) if kind == "PPM" else file_of(noise(20, 30), kind)
    # The last bytes of PNG and JPEG say only that this was all.
    for size in range(0, len(data) - (0 if kind == "PPM" else 20), 7):
        with pytest.raises((TruncatedPictureError, NotAPictureError)):
            picture_of(data[:size])


def test_flipped_bytes_give_a_picture_or_a_picture_error() -> None:
    """Whatever the decoder says of damage, one kind of error comes out."""
    for kind in ("PNG", "JPEG", "GIF", "BMP", "TIFF"):
        data = bytearray(file_of(noise(9, 11), kind))
        for at in range(0, len(data), 5):
            data[at] ^= 0xFF
            with suppress(picture.PictureError):
                assert picture_of(bytes(data)).shape[2] == 3
            data[at] ^= 0xFF


def test_sizes_in_headers_are_believed_only_within_bounds() -> None:
    """A small file that claims a billion pixels, in either reader."""
    header = b"P6 100000 100000 255\n"
    with pytest.raises(PictureTooLargeError, match="100000 x 100000"):
        picture_of(header)
    for width, height in ((9000, 9000), (60000, 60000)):
        claims = bytearray(png_of(np.zeros((1, 1, 3), np.uint8)))
        claims[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        claims[29:33] = zlib.crc32(claims[12:29]).to_bytes(4, "big")
        with pytest.raises(PictureTooLargeError):
            picture_of(bytes(claims))
    with pytest.raises(WrongPixelsError, match="0 x 7"):
        picture_of(b"P6 0 7 255\n")


def test_files_too_large_missing_or_unreadable_are_reported_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder, a name that cannot be, a long one in part."""
    for path in (tmp_path / "none.png", tmp_path, Path("a\0b"), Path("x" * 5000)):
        with pytest.raises(MissingPictureError) as refusal:
            read_picture(path)
        assert len(str(refusal.value)) < 500
    monkeypatch.setattr(picture, "MAX_FILE_BYTES", 100)
    (tmp_path / "big.png").write_bytes(bytes(101))
    with pytest.raises(PictureTooLargeError, match=r"big\.png"):
        read_picture(tmp_path / "big.png")


def test_without_pillow_ppm_is_read_and_others_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """An app's install has none."""
    monkeypatch.setitem(sys.modules, "PIL", None)
    pixels = noise(3, 4)
    assert (picture_of(ppm_of(pixels)) == pixels).all()
    with pytest.raises(NotAPictureError, match="pip install pillow"):
        picture_of(png_of(pixels))
    with pytest.raises(NotAPictureError, match="up to 255"):
        picture_of(b"P6 1 1 65535\n" + bytes(6))
