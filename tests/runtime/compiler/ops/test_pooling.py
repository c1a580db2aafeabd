"""Exported pooling agrees with torch: values within the tolerance, indices exactly, NaN and infinities included."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, export
from torch import Tensor, nn

Agrees = Callable[..., None]
WINDOWS: list[Any] = [
    ((2, 2), (2, 2), (0, 0), (1, 1)),
    ((3, 2), (1, 2), (1, 1), (1, 1)),
    ((2, 3), (3, 1), (0, 1), (2, 1)),
    ((4, 4), (3, 3), (2, 2), (1, 2)),
]


def image(*shape: int) -> Tensor:
    """Numbers, a few of them NaN and infinite, and many equal."""
    x = torch.randint(-9, 10, shape).float() / 4
    x[torch.rand(shape) < 0.03] = float("nan")
    x[torch.rand(shape) < 0.03] = float("inf")
    x[torch.rand(shape) < 0.1] = float("-inf")
    return x


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (33, 7, 10)])
def test_greatest_of_every_window(agrees: Agrees, shape: tuple[int, ...]) -> None:
    """With indices: the first of equals, the last NaN; windows that hang over the end."""
    functions: dict[str, Any] = {
        f"{k} {s} {p} {d} {ceil}": lambda x, k=k, s=s, p=p, d=d, ceil=ceil: F.max_pool2d(
            x, k, s, p, d, ceil, return_indices=True
        )
        for (k, s, p, d), ceil in product(WINDOWS, (False, True))
    }
    agrees(functions, image(*shape))


@pytest.mark.parametrize("counts_padding", [False, True])
def test_mean_of_every_window(agrees: Agrees, counts_padding: bool) -> None:
    """With and without the padding in the count, and with a divisor."""
    functions: dict[str, Any] = {}
    for (kernel, stride, padding, _), ceil, divisor in product(WINDOWS, (False, True), (None, 3, -2)):
        functions[f"{kernel} {stride} {padding} {ceil} {divisor}"] = (
            lambda x, k=kernel, s=stride, p=padding, ceil=ceil, divisor=divisor: F.avg_pool2d(
                x, k, s, p, ceil, counts_padding, divisor
            )
        )
    agrees(functions, image(2, 35, 9, 8))


def test_one_dimension(agrees: Agrees) -> None:
    """A row."""
    functions: dict[str, Any] = {}
    for (kernel, stride, padding, dilation), ceil in product(WINDOWS, (False, True)):
        k, s, p, d = kernel[0], stride[0], padding[0], dilation[0]
        functions[f"greatest {k} {s} {p} {d} {ceil}"] = lambda x, k=k, s=s, p=p, d=d, ceil=ceil: F.max_pool1d(
            x, k, s, p, d, ceil, return_indices=True
        )
        functions[f"mean {k} {s} {p} {d} {ceil}"] = lambda x, k=k, s=s, p=p, ceil=ceil: F.avg_pool1d(x, k, s, p, ceil)
    for shape in ((2, 3, 17), (3, 12)):
        agrees(functions, image(*shape))


def test_three_dimensions(agrees: Agrees) -> None:
    """Greatest without indices; means with every count."""
    functions: dict[str, Any] = {
        "greatest": lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0), (2, 1, 1)),
        "ceil": lambda x: F.max_pool3d(x, 2, 2, ceil_mode=True),
        "adaptive": lambda x: F.adaptive_avg_pool3d(x, (2, 3, 4)),
        "adaptive greatest": lambda x: (F.adaptive_max_pool3d(x, (2, 3, 4)), F.adaptive_max_pool3d(x[0], (5, 1, 8))),
        "divisor": lambda x: F.avg_pool3d(x, 2, 1, 1, divisor_override=5),
    }
    for counts_padding, ceil in product((False, True), (False, True)):
        functions[f"mean {counts_padding} {ceil}"] = lambda x, c=counts_padding, ceil=ceil: F.avg_pool3d(
            x, (2, 3, 2), 2, 1, ceil, c
        )
    agrees(functions, torch.randn(2, 3, 5, 7, 6))


@pytest.mark.parametrize("shape", [(2, 3, 7, 10), (40, 5, 5)])
def test_adaptive_windows(agrees: Agrees, shape: tuple[int, ...]) -> None:
    """Smaller, larger, equal and single results."""
    functions: dict[str, Any] = {}
    for size in ((1, 1), (3, 4), (7, 5), (11, 13), (None, 2)):
        functions[f"mean {size}"] = lambda x, size=size: F.adaptive_avg_pool2d(x, size)
        functions[f"greatest {size}"] = lambda x, size=size: F.adaptive_max_pool2d(x, size, return_indices=True)
    agrees(functions, image(*shape))
    rows: dict[str, Any] = {f"mean {n}": lambda x, n=n: F.adaptive_avg_pool1d(x, n) for n in (1, 3, 9)}
    rows |= {f"greatest {n}": lambda x, n=n: F.adaptive_max_pool1d(x, n, return_indices=True) for n in (1, 3, 9)}
    agrees(rows, image(*shape[:-1]))


def test_power_average(agrees: Agrees) -> None:
    """lp_pool, which torch composes of a mean."""
    agrees(
        {"1d": lambda x: F.lp_pool1d(x[:, :, 0], 2, 3), "2d": lambda x: F.lp_pool2d(x, 2, (2, 3), 2)},
        torch.rand(2, 3, 8, 9) + 0.1,
    )


def test_places_in_volumes(agrees: Agrees) -> None:
    """Composed of the taps, as torch: the first of equals, the last NaN."""
    functions: dict[str, Any] = {
        "plain": lambda x: F.max_pool3d(x, 2, return_indices=True),
        "padded": lambda x: F.max_pool3d(x, (2, 3, 2), (1, 2, 1), (1, 1, 1), (1, 1, 3), True, return_indices=True),
    }
    agrees(functions, image(2, 3, 5, 6, 7))


def test_whole_numbers(agrees: Agrees) -> None:
    """Greatest of every type, means of int64 toward zero."""
    greatest: dict[str, Any] = {
        "2d": lambda x: F.max_pool2d(x, (3, 2), 2, 1, (1, 2), return_indices=True),
        "3d": lambda x: F.max_pool3d(x, 2, 1, 1, ceil_mode=True, return_indices=True),
    }
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8):
        agrees(greatest, torch.randint(-128, 128, (2, 3, 6, 7)).to(dtype))
    x = torch.randint(-(2**40), 2**40, (2, 3, 6, 7))
    means: dict[str, Any] = {
        "1d": lambda x: F.avg_pool1d(x[0], 3, 2, 1),
        "3d": lambda x: F.avg_pool3d(x, 2, 1, 1, True),
    }
    for counts_padding, divisor in product((False, True), (None, 5)):
        means[f"2d {counts_padding} {divisor}"] = lambda x, c=counts_padding, divisor=divisor: F.avg_pool2d(
            x, (3, 4), 2, 1, True, c, divisor
        )
    agrees(means, x)


def test_what_is_refused_says_what_is_taken() -> None:
    """Means of other whole numbers, and places in windows of hundreds of elements, where they are used."""

    class Places(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.max_pool3d(x, 7, return_indices=True)[1]

    with pytest.raises(ExportError, match="windows of at most 256 elements"):
        export(Places().eval(), (torch.randn(1, 2, 8, 8, 8),))
