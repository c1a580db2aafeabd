"""Filters, tables, turns and compositions answer as their formulas say, in torch and in programs alike."""

import io
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load, vision
from numpy.typing import NDArray
from torch import Tensor, nn


class Run(nn.Module):
    """A module of a function."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Any:
        """Return its answer."""
        return self.function(*inputs)


def as_program(function: Any, *inputs: Tensor) -> NDArray[Any]:
    """Return what the exported function gives."""
    return load(bytes(export(Run(function), inputs)))(*[each.numpy() for each in inputs])[0]


def windows(values: NDArray[np.float64], radius: int) -> NDArray[np.float64]:
    """The mean of each window, as plainly as can be."""
    height, width = values.shape
    means = np.empty_like(values)
    for y in range(height):
        for x in range(width):
            means[y, x] = values[max(0, y - radius) : y + radius + 1, max(0, x - radius) : x + radius + 1].mean()
    return means


def apply_filter(
    guide: NDArray[np.float64], image: NDArray[np.float64], radius: int, eps: float
) -> NDArray[np.float64]:
    """He's filter by its definition: a least-squares fit for each window, colors first, then the mean of the fits."""
    colors, height, width = guide.shape
    slopes, offsets = np.empty_like(guide), np.empty((height, width))
    for y in range(height):
        for x in range(width):
            place = np.s_[max(0, y - radius) : y + radius + 1, max(0, x - radius) : x + radius + 1]
            inside, target = guide[(slice(None), *place)].reshape(colors, -1), image[place].ravel()
            centered = inside - inside.mean(1, keepdims=True)
            variance = centered @ centered.T / target.size + eps * np.eye(colors)
            slopes[:, y, x] = np.linalg.solve(variance, centered @ (target - target.mean()) / target.size)
            offsets[y, x] = target.mean() - slopes[:, y, x] @ inside.mean(1)
    means = np.stack([windows(slope, radius) for slope in slopes])
    return np.asarray((means * guide).sum(0) + windows(offsets, radius))


@pytest.mark.parametrize("colors", [1, 3])
def test_guided_filter_is_the_least_squares_fit_of_each_window(colors: int) -> None:
    """Against the definition in float64, solved window by window."""
    torch.manual_seed(colors)
    guide, image = torch.rand(1, colors, 13, 17), torch.rand(1, 1, 13, 17)
    module = vision.GuidedFilter(3, 1e-2)
    expected = apply_filter(guide[0].numpy().astype(np.float64), image[0, 0].numpy().astype(np.float64), 3, 1e-2)
    assert np.allclose(module(guide, image)[0, 0], expected, atol=2e-5)
    assert np.allclose(as_program(module, guide, image)[0, 0], expected, atol=2e-5)


def test_coarse_mask_takes_the_edges_of_its_guide() -> None:
    """A step that the mask has five pixels too far to the left moves to where the guide has it."""
    guide = torch.zeros(1, 1, 32, 64)
    guide[..., 32:] = 1
    mask = torch.zeros(1, 1, 32, 64)
    mask[..., 27:] = 1
    found = vision.GuidedFilter(8, 1e-4)(guide, mask)[0, 0, 16]
    steps = (found[1:] - found[:-1]).abs()
    assert int(steps.argmax()) == 31
    assert steps[31] > 3 * steps[26]


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (5, 2)])
def test_smallest_pictures_are_filtered(size: tuple[int, int]) -> None:
    """A window beyond the picture has the pixels that there are; a flat picture stays as it is."""
    flat = torch.full((1, 1, *size), 0.25)
    radius = max(1, min(size) - 1)
    assert torch.allclose(vision.box_mean(flat, radius), flat)
    assert torch.allclose(vision.GuidedFilter(radius, 1e-3)(flat, flat), flat, atol=1e-6)


def test_subsampled_filter_is_near_the_full_one_where_masks_are_smooth() -> None:
    """The fast filter keeps the guide's edges; coarse masks are spread over the guide."""
    rows, columns = torch.meshgrid(torch.linspace(0, 3, 64), torch.linspace(0, 5, 96), indexing="ij")
    guide = ((rows.sin() + columns.cos()) / 2)[None, None]
    mask = torch.sigmoid(4 * (rows - columns / 2))[None, None]
    full = vision.GuidedFilter(8, 1e-2)(guide, mask)
    fast = vision.GuidedFilter(2, 1e-2, subsampling=4)(guide, nn.functional.avg_pool2d(mask, 4))
    assert fast.shape == full.shape
    assert (full - fast).abs().max() < 0.05


@pytest.mark.parametrize(
    ("radius", "eps", "subsampling"), [(0, 1e-3, 1), (2, 0.0, 1), (2, float("nan"), 1), (2, 1.0, 0)]
)
def test_filters_without_meaning_are_refused(radius: int, eps: float, subsampling: int) -> None:
    """Radius, eps and subsampling have bounds."""
    with pytest.raises(ValueError, match=r"must be"):
        vision.GuidedFilter(radius, eps, subsampling=subsampling)


def test_guides_of_two_channels_are_refused() -> None:
    """A guide is gray or has three colors."""
    with pytest.raises(ValueError, match="1 or 3 channels"):
        vision.GuidedFilter(1, 1e-3)(torch.zeros(1, 2, 4, 4), torch.zeros(1, 1, 4, 4))


def test_identity_table_changes_no_color() -> None:
    """To the last bits of float32; colors outside are held at the ends."""
    torch.manual_seed(3)
    image = torch.rand(1, 3, 5, 7)
    assert torch.allclose(vision.apply_lut(image, vision.identity_lut(17)), image, atol=1e-6)
    beyond = vision.apply_lut(image * 3 - 1, vision.identity_lut(17))
    assert torch.allclose(beyond, (image * 3 - 1).clamp(0, 1), atol=1e-6)


def test_table_is_read_as_cube_files_have_it() -> None:
    """Red runs fastest; what comes out at a table's own colors is its entry, between them the trilinear mean."""
    torch.manual_seed(4)
    table = torch.rand(3, 4, 4, 4)
    color = torch.tensor([1 / 3, 2 / 3, 1.0]).reshape(1, 3, 1, 1)
    assert torch.allclose(vision.apply_lut(color, table)[0, :, 0, 0], table[:, 3, 2, 1], atol=1e-6)
    between = torch.tensor([0.5, 0.5, 0.5]).reshape(1, 3, 1, 1)
    mean = table[:, 1:3, 1:3, 1:3].mean((1, 2, 3))
    assert torch.allclose(vision.apply_lut(between, table)[0, :, 0, 0], mean, atol=1e-6)
    image = torch.rand(1, 3, 6, 5)
    assert np.allclose(as_program(vision.apply_lut, image, table), vision.apply_lut(image, table), atol=2e-6)


@pytest.mark.parametrize("shape", [(3, 4, 4, 5), (2, 4, 4, 4), (3, 1, 1, 1)])
def test_tables_that_are_no_cubes_are_refused(shape: tuple[int, ...]) -> None:
    """The error names the shape."""
    with pytest.raises(ValueError, match="table must be"):
        vision.apply_lut(torch.rand(1, 3, 2, 2), torch.rand(shape))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_upright_as_pillow_turns_them(orientation: int) -> None:
    """All eight orientations, in torch and in programs."""
    image = pytest.importorskip("PIL.Image", reason="Pillow's answers are compared")
    ops = pytest.importorskip("PIL.ImageOps", reason="Pillow's answers are compared")
    pixels = np.arange(15, dtype=np.uint8).reshape(3, 5) * 16
    picture, file = image.fromarray(pixels), io.BytesIO()
    exif = picture.getexif()
    exif[274] = orientation
    picture.save(file, "png", exif=exif)
    expected = np.asarray(ops.exif_transpose(image.open(file)))
    turned = vision.orient(torch.from_numpy(pixels), orientation)
    assert np.array_equal(turned, expected)
    assert np.array_equal(as_program(lambda x: vision.orient(x, orientation), torch.from_numpy(pixels)), expected)


@pytest.mark.parametrize("orientation", [0, 9, -1])
def test_orientations_that_are_none_are_refused(orientation: int) -> None:
    """1 to 8."""
    with pytest.raises(ValueError, match="1 to 8"):
        vision.orient(torch.zeros(2, 2), orientation)


@pytest.mark.parametrize("radius", [1, 3, 24])
def test_blur_is_nearly_gaussian(radius: int) -> None:
    """A point becomes a bell whose deviation is near the radius, and whose sum stays."""
    point = torch.zeros(1, 1, 256, 256)
    point[0, 0, 128, 128] = 1
    bell = vision.blur(point, radius)[0, 0]
    assert float(bell.sum()) == pytest.approx(1, abs=0.01)
    places = torch.arange(256.0) - 128
    variance = float((bell.sum(0) * places**2).sum() / bell.sum())
    assert variance**0.5 == pytest.approx((radius * (radius + 1)) ** 0.5, rel=0.15)
    assert np.allclose(as_program(lambda x: vision.blur(x, radius), point)[0, 0], bell, atol=1e-6)


def test_composite_shows_people_before_the_background() -> None:
    """Alpha 1 is the frame, 0 the background, to the bit at 0; a coarse alpha is spread over the frame."""
    torch.manual_seed(8)
    frame, background = torch.rand(1, 3, 8, 12), torch.rand(1, 3, 8, 12)
    assert torch.equal(vision.composite(frame, torch.zeros(1, 1, 8, 12), background), background)
    assert torch.allclose(vision.composite(frame, torch.ones(1, 1, 4, 6), background), frame, atol=1e-6)
    with pytest.raises(ValueError, match="of one shape"):
        vision.composite(frame, torch.zeros(1, 1, 8, 12), background[..., :6])
