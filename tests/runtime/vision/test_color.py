"""Camera frames become colors by the standards' formulas, in torch and in programs alike."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load, vision
from alcove.runtime.vision import YuvMatrix
from torch import Tensor, nn

KNOWN = [  # R, G, B and full-range Y, U, V by BT.601, from the equations of the Recommendation
    ((255, 0, 0), (76, 85, 255)),
    ((0, 255, 0), (150, 44, 21)),
    ((0, 0, 255), (29, 255, 107)),
    ((255, 255, 255), (255, 128, 128)),
    ((0, 0, 0), (0, 128, 128)),
]
BARS = [((255, 0, 0), (63, 102, 240)), ((0, 255, 0), (173, 42, 26)), ((0, 0, 255), (32, 240, 118))]
"""Of BT.709 in the range of studios, as HD color bars have it."""


class Run(nn.Module):
    """A module of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Return its answer."""
        return self.function(*inputs)


def as_program(function: Callable[..., Any], *inputs: Tensor) -> list[np.ndarray[Any, Any]]:
    """Return what the exported function gives."""
    return load(bytes(export(Run(function), inputs)))(*[each.numpy() for each in inputs])


def plane(value: float, *shape: int) -> Tensor:
    """Return uint8 of one value."""
    return torch.full(shape, value, dtype=torch.uint8)


@pytest.mark.parametrize(("rgb", "yuv"), KNOWN)
def test_colors_of_the_full_range_are_those_of_bt601(rgb: tuple[int, ...], yuv: tuple[int, ...]) -> None:
    """Within the rounding of eight bits, both ways."""
    y, u, v = yuv
    found = vision.i420_to_rgb(plane(y, 4, 6), plane(u, 2, 3), plane(v, 2, 3), is_full_range=True)
    assert found.shape == (1, 3, 4, 6)
    assert np.allclose(found[0, :, 0, 0], rgb, atol=2)
    image = torch.tensor(rgb, dtype=torch.float32).reshape(1, 3, 1, 1).expand(1, 3, 4, 6)
    planes = vision.rgb_to_i420(image, is_full_range=True)
    assert [int(each[0, 0]) for each in planes] == list(yuv)


@pytest.mark.parametrize(("rgb", "yuv"), BARS)
def test_colors_of_studio_range_are_those_of_bt709(rgb: tuple[int, ...], yuv: tuple[int, ...]) -> None:
    """Black is 16, white 235."""
    image = torch.tensor(rgb, dtype=torch.float32).reshape(1, 3, 1, 1).expand(1, 3, 2, 2)
    planes = vision.rgb_to_i420(image, matrix=YuvMatrix.BT709)
    assert [int(each[0, 0]) for each in planes] == list(yuv)
    back = vision.i420_to_rgb(*planes, matrix=YuvMatrix.BT709)
    assert np.allclose(back[0, :, 0, 0], rgb, atol=2)


@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (3, 5), (4, 6), (17, 16)])
def test_layouts_of_one_frame_give_the_same_picture_at_any_size(height: int, width: int) -> None:
    """NV12, NV21 and I420 differ in the place of chroma alone; odd sizes have a last row and column of their own."""
    torch.manual_seed(height * 31 + width)
    luma = torch.randint(0, 256, (height, width), dtype=torch.uint8)
    chroma = torch.randint(0, 256, ((height + 1) // 2, (width + 1) // 2, 2), dtype=torch.uint8)
    frame = vision.nv12_to_rgb(luma, chroma)
    assert torch.equal(frame, vision.nv21_to_rgb(luma, chroma.flip(2)))
    assert torch.equal(frame, vision.i420_to_rgb(luma, chroma[:, :, 0], chroma[:, :, 1]))
    y, uv = vision.rgb_to_nv12(frame)
    assert y.shape == luma.shape
    assert uv.shape == chroma.shape
    assert torch.equal(vision.rgb_to_nv21(frame)[1], uv.flip(2))
    (found,) = as_program(vision.nv12_to_rgb, luma, chroma)
    assert np.array_equal(found, frame.numpy())
    for got, wanted in zip(as_program(vision.rgb_to_nv12, frame), (y, uv), strict=True):
        assert np.array_equal(got, wanted.numpy())


def test_gray_frames_come_back_as_they_were() -> None:
    """No rounding moves a level of gray, in the range of studios."""
    luma = torch.arange(16, 236, dtype=torch.uint8).reshape(10, 22)
    frame = vision.nv12_to_rgb(luma, plane(128, 5, 11, 2))
    assert torch.equal(vision.rgb_to_nv12(frame)[0], luma)


def test_blue_first_pixels_keep_their_colors_and_opacity() -> None:
    """BGRA to RGB and back, in programs too."""
    torch.manual_seed(5)
    pixels = torch.randint(0, 256, (3, 7, 4), dtype=torch.uint8)
    rgb = vision.bgra_to_rgb(pixels)
    assert torch.equal(rgb[0].permute(1, 2, 0).to(torch.uint8), pixels[:, :, [2, 1, 0]])
    assert torch.equal(vision.rgb_to_bgra(rgb, pixels[None, None, :, :, 3] / 255), pixels)
    assert bool((vision.rgb_to_bgra(rgb)[:, :, 3] == 255).all())
    assert np.array_equal(as_program(vision.bgra_to_rgb, pixels)[0], rgb.numpy())


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        (vision.nv12_to_rgb, [(4, 6), (2, 2, 2)], "4 x 6 has chroma of"),
        (vision.nv21_to_rgb, [(5, 6), (2, 3, 2)], "5 x 6 has chroma of"),
        (vision.i420_to_rgb, [(4, 6), (4, 6), (4, 6)], "4 x 6 has chroma of"),
        (vision.bgra_to_rgb, [(4, 6, 3)], r"\[height, width, 4\]"),
        (vision.rgb_to_nv12, [(2, 3, 4, 4)], r"\[1, 3, height, width\]"),
        (vision.rgb_to_bgra, [(1, 1, 4, 4)], r"\[1, 3, height, width\]"),
    ],
)
def test_planes_of_other_sizes_are_refused(function: Any, shapes: list[tuple[int, ...]], message: str) -> None:
    """The error says what a frame of this size has."""
    with pytest.raises(ValueError, match=message):
        function(*[torch.zeros(shape, dtype=torch.uint8) for shape in shapes])
