"""Exported resizing and grid sampling agree with torch: every mode, sizes up and down, explicit scales."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import export, load
from torch import Tensor, nn

from tests.selection import quick_among

Agrees = Callable[..., None]
TARGETS: list[dict[str, Any]] = [
    {"size": (5, 11)},
    {"size": (40, 14)},
    {"size": (20, 1)},
    {"scale_factor": 2},
    {"scale_factor": (2.05, 1.3)},
    {"scale_factor": (0.4, 3.0)},
]


def resize_cases(mode: str, align_corners: bool | None, **more: Any) -> dict[str, Callable[[Tensor], Tensor]]:
    """Return interpolations to all targets."""

    def to(target: Any) -> Callable[[Tensor], Tensor]:
        return lambda x: F.interpolate(x, mode=mode, align_corners=align_corners, **target, **more)

    return {f"{mode} {align_corners} {target}": to(target) for target in TARGETS}


def test_nearest_and_exact(agrees: Agrees) -> None:
    """Torch's two roundings, its shortcut for twice the size included; many channels and one."""
    functions = resize_cases("nearest", None) | resize_cases("nearest-exact", None)
    agrees(functions, torch.randn(2, 3, 20, 7), rtol=0, atol=0)
    agrees(functions, torch.randn(1, 1, 20, 7), rtol=0, atol=0)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smooth(agrees: Agrees, mode: str) -> None:
    """Corners aligned or not, channels around a vector."""
    for channels in (1, 35):
        agrees(resize_cases(mode, False) | resize_cases(mode, True), torch.randn(2, channels, 20, 7))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_smooth_with_antialiasing(agrees: Agrees, mode: str) -> None:
    """A constant matrix a dimension."""
    functions = resize_cases(mode, False, antialias=True) | resize_cases(mode, True, antialias=True)
    agrees(functions, torch.randn(2, 3, 20, 7))


def test_one_dimension(agrees: Agrees) -> None:
    """A row: nearest, exact and linear."""
    functions: dict[str, Any] = {}
    targets: list[dict[str, Any]] = [{"size": 5}, {"size": 40}, {"scale_factor": 2.05}, {"scale_factor": 0.7}]
    for number, target in enumerate(targets):
        for mode, align in (("nearest", None), ("nearest-exact", None), ("linear", False), ("linear", True)):
            functions[f"{mode} {align} {number}"] = lambda x, mode=mode, align=align, target=target: F.interpolate(
                x, mode=mode, align_corners=align, **target
            )
    agrees(functions, torch.randn(2, 3, 20))


def test_an_infinity_spreads_as_in_eager(agrees: Agrees) -> None:
    """To those that read it, not to those that would multiply it with nothing."""
    x = torch.randn(1, 2, 6, 6)
    x[0, 0, 2, 2], x[0, 1, 4, 1] = float("inf"), float("nan")
    agrees({"2d": lambda x: F.interpolate(x, size=(9, 11), mode="bilinear")}, x)
    agrees({"1d": lambda x: F.interpolate(x, size=11, mode="linear")}, x[0])


@pytest.mark.parametrize("mode", quick_among(["bilinear", "nearest", "bicubic"], ["bilinear", "nearest"]))
def test_grid_sample(agrees: Agrees, mode: str) -> None:
    """Every padding, points within and far outside, points that are no numbers."""
    functions: dict[str, Any] = {
        f"{padding} {align}": lambda x, g, padding=padding, align=align: F.grid_sample(
            x, g, mode=mode, padding_mode=padding, align_corners=align
        )
        for padding, align in product(("zeros", "border", "reflection"), (False, True))
    }
    for channels, spread in ((3, 1.0), (40, 3.0)):
        grid = (torch.rand(2, 6, 5, 2) * 2 - 1) * spread
        agrees(functions, torch.randn(2, channels, 7, 9), grid, atol=1e-4)
    odd = torch.tensor([float("nan"), float("inf"), float("-inf"), 1e20, -1e20, -1.0, 1.0, 0.0]).reshape(1, 2, 2, 2)
    agrees(functions, torch.randn(1, 3, 7, 9), odd, atol=1e-4)
    agrees(functions, torch.randn(1, 3, 1, 1), torch.rand(1, 2, 2, 2) * 4 - 2, atol=1e-4)


def test_affine_grid(agrees: Agrees) -> None:
    """The grid of a matrix that is an input, then sampling on it."""

    def warp(x: Tensor, theta: Tensor) -> Tensor:
        return F.grid_sample(x, F.affine_grid(theta, [2, 3, 6, 5], align_corners=False), align_corners=False)

    agrees({"warped": warp}, torch.randn(2, 3, 7, 9), torch.randn(2, 2, 3) * 0.4)


def space_cases(mode: str) -> dict[str, Any]:
    """Return samples of volumes with every padding, corners aligned and not."""
    return {
        f"{padding} {align}": lambda x, g, padding=padding, align=align: F.grid_sample(
            x, g, mode=mode, padding_mode=padding, align_corners=align
        )
        for padding, align in product(("zeros", "border", "reflection"), (False, True))
    }


@pytest.mark.parametrize("mode", [pytest.param("bilinear", marks=pytest.mark.thorough), "nearest"])
def test_grid_sample_of_volumes(agrees: Agrees, mode: str) -> None:
    """Points within and far outside, on voxels and between, that are no numbers; voxels that are none."""
    functions = space_cases(mode)
    x = torch.randn(2, 3, 3, 4, 5)
    for spread in (1.0, 4.0):
        agrees(functions, x, (torch.rand(2, 3, 2, 4, 3) * 2 - 1) * spread)
    lattice = torch.stack(torch.meshgrid(*[torch.linspace(-1.5, 1.5, 7)] * 3, indexing="ij"), -1)[None]
    agrees(functions, torch.randn(1, 2, 3, 4, 7), lattice)
    inf, nan = float("inf"), float("nan")
    odd = torch.tensor([nan, inf, -inf, 1e20, -1e20, -1.0, 1.0, 0.0, 5.0, -1e6])
    places = torch.stack([odd, odd.roll(3), odd.roll(5)], -1).reshape(1, 1, 2, 5, 3)
    agrees(functions, x[:1], places)
    agrees(functions, torch.randn(1, 2, 1, 3, 1), places)
    x[0, 0, 1, 1, 1], x[1, 2, 0, 0, 0] = inf, nan
    agrees(functions, x, torch.rand(2, 3, 2, 4, 3) * 3 - 1.5)


class Warp(nn.Module):
    """Samples of volumes."""

    def forward(self, x: Tensor, grid: Tensor) -> Tensor:
        """Run."""
        return F.grid_sample(x, grid, align_corners=False)


def test_batches_and_grids_of_volumes_may_vary() -> None:
    """At every size."""
    module = Warp().eval()
    batch, rows = torch.export.Dim("batch", min=1, max=4), torch.export.Dim("rows", min=1, max=3)
    example = torch.randn(2, 3, 3, 4, 5), torch.rand(2, 3, 2, 4, 3)
    model = load(bytes(export(module, example, dynamic_shapes=({0: batch}, {0: batch, 2: rows}))))
    for many, high in product(range(1, 5), range(1, 4)):
        x, grid = torch.randn(many, 3, 3, 4, 5), torch.rand(many, 3, high, 4, 3) * 3 - 1.5
        (found,) = model(x.numpy(), grid.numpy())
        np.testing.assert_allclose(found, module(x, grid).numpy(), rtol=1e-4, atol=1e-5)


def test_volumes_of_sizes_that_vary_are_sampled() -> None:
    """At every depth."""
    depth = torch.export.Dim("depth", min=1, max=4)
    module, grid = Warp().eval(), torch.rand(2, 3, 2, 4, 3) * 3 - 1.5
    model = load(bytes(export(module, (torch.randn(2, 3, 3, 4, 5), grid), dynamic_shapes=({2: depth}, None))))
    for deep in range(1, 5):
        x = torch.randn(2, 3, deep, 4, 5)
        (found,) = model(x.numpy(), grid.numpy())
        np.testing.assert_allclose(found, module(x, grid).numpy(), rtol=1e-4, atol=1e-5)
