"""Exported reductions agree with torch: every set of dimensions, every type, NaN and infinity, ties."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import export, load
from torch import Tensor, nn
from torch.export import Dim

Agrees = Callable[..., None]
INTEGERS = (torch.int64, torch.int32, torch.uint8, torch.int8)
TYPES = (torch.float32, *INTEGERS)
DIMS: "list[tuple[int, ...]]" = [dims for count in (1, 2, 3, 4) for dims in combinations(range(4), count)]


def numbers(dtype: torch.dtype, *shape: int) -> Tensor:
    """Small numbers with ties; of both signs where the type has them."""
    least = 0 if dtype is torch.uint8 else -4
    values = torch.randint(least, 5, shape)
    return values.to(dtype) if dtype is not torch.float32 else values + 0.25 * torch.randint(0, 2, shape)


def strange(*shape: int) -> Tensor:
    """Numbers among which some are infinite and some NaN."""
    x = torch.randn(shape)
    pick = torch.rand(shape)
    x[pick < 0.1] = float("inf")
    x[pick < 0.06] = float("-inf")
    x[pick < 0.03] = float("nan")
    return x


@pytest.mark.parametrize("dtype", TYPES)
def test_sums_and_extremes_over_every_set_of_dimensions(agrees: Agrees, dtype: torch.dtype) -> None:
    """Adjacent, apart, all; sums of integers are int64."""
    functions: dict[str, Any] = {}
    for dims in DIMS:
        functions[f"sum {dims}"] = lambda x, d=dims: x.sum(d, keepdim=len(d) % 2 == 0)
        functions[f"amax {dims}"] = lambda x, d=dims: x.amax(d)
        functions[f"amin {dims}"] = lambda x, d=dims: x.amin(d, keepdim=True)
    agrees(functions, numbers(dtype, 3, 5, 4, 18))


@pytest.mark.parametrize("dtype", TYPES)
def test_one_dimension_or_all(agrees: Agrees, dtype: torch.dtype) -> None:
    """Products, extremes with the first of equal places, negative dimensions, dtypes asked for."""
    functions: dict[str, Any] = {
        "sum": lambda x: (x.sum(), x.sum(-1), x.sum([]), x.sum(0, dtype=torch.float32), x.sum(dtype=torch.int32)),
        "mean": lambda x: (x.mean(dtype=torch.float32), x.mean((0, 2), dtype=torch.float32)),
        "prod": lambda x: (x[:1, :3, :4].prod(), x[:, :, :9].prod(-1), x.prod(0, keepdim=True), x.prod(1)),
        "max": lambda x: (x.max(), x.min(), *torch.aminmax(x), *torch.aminmax(x, dim=1, keepdim=True)),
        "places": lambda x: (x.argmax(), x.argmin(), x.argmax(keepdim=True), x.argmin(-2), x.argmax(0, keepdim=True)),
    }
    for dim in (0, 1, 2, -1):
        functions[f"max of {dim}"] = lambda x, d=dim: (*x.max(d), *x.min(d, keepdim=True))
    agrees(functions, numbers(dtype, 3, 7, 33))


def test_any_and_all(agrees: Agrees) -> None:
    """Of bool and of numbers; sums of bool count."""
    functions = {
        "any": lambda x: (x.any(), x.any(0), x.any(-1, keepdim=True), torch.any(x, dim=(0, 2))),
        "all": lambda x: (x.all(), x.all(0), x.all(-1, keepdim=True), torch.all(x, dim=(0, 2))),
        "count": lambda x: (x.sum(), x.sum(1), torch.count_nonzero(x), torch.count_nonzero(x, dim=1)),
    }
    for share in (0.05, 0.5, 0.95):
        agrees(functions, torch.rand(3, 4, 20) < share)
    of_numbers = {key: functions[key] for key in ("any", "all")}
    agrees(of_numbers, numbers(torch.float32, 3, 4, 20))
    agrees(of_numbers, numbers(torch.uint8, 3, 4, 20))


@pytest.mark.parametrize("shape", [(1, 1), (1, 15), (3, 16), (2, 17), (5, 100), (100, 5), (70, 130), (2, 1000)])
def test_every_length(agrees: Agrees, shape: tuple[int, int]) -> None:
    """Rows and columns around the sixteen lanes and the blocks of columns."""
    functions: dict[str, Any] = {}
    for dim in (0, 1):
        functions[f"{dim}"] = lambda x, d=dim: (x.sum(d), x.mean(d), *x.max(d), *x.min(d), x.argmax(d), x.argmin(d))
    agrees(functions, torch.randn(shape))


def test_nan_and_infinity(agrees: Agrees) -> None:
    """A NaN wins, the first one is the place."""
    functions: dict[str, Any] = {"all": lambda x: (x.max(), x.argmin(), x.sum(), x.amin())}
    for dim in (0, 1, 2):
        functions[f"{dim}"] = lambda x, d=dim: (*x.max(d), *x.min(d), x.argmax(d), x.argmin(d), x.sum(d), x.amax(d))
        functions[f"so far {dim}"] = lambda x, d=dim: (*x.cummax(d), *x.cummin(d), x.cumsum(d))
    agrees(functions, strange(16, 9, 41))


def test_a_scalar_is_its_own_sum(agrees: Agrees) -> None:
    """Tensors of rank 0."""
    functions = {
        "sum": lambda x: (
            x.sum(),
            x.sum(0),
            x.mean(),
            x.prod(0),
            x.amax(),
            x.max(),
            *x.max(0),
            x.argmax(),
            x.cumsum(0),
        ),
        "spread": lambda x: (x.var(correction=0), x.norm(), *x.cummax(0), x.any()),
    }
    agrees(functions, torch.tensor(3.5))


@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_variances(agrees: Agrees, correction: float) -> None:
    """Any correction, any dimensions, alone and with the mean; a great mean costs no digits."""
    functions: dict[str, Any] = {"all": lambda x: (x.var(correction=correction), x.std(correction=correction))}
    for dims in [(0,), (2,), (0, 2), (1, 2), (-1, -2)]:
        functions[f"{dims}"] = lambda x, d=dims: (
            x.var(d, correction=correction),
            x.std(d, correction=correction, keepdim=True),
            *torch.var_mean(x, d, correction=correction, keepdim=True),
            *torch.std_mean(x, d, correction=correction),
        )
    agrees(functions, torch.randn(4, 5, 30))
    agrees(functions, torch.randn(4, 5, 30) + 1000, rtol=1e-3)
    if correction == 1:
        old = {"old": lambda x: (x.var(), x.std(1), x.var(0, unbiased=False), x.var(2, keepdim=True))}
        agrees(old, torch.randn(4, 5, 6))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
def test_the_variance_of_one_element_is_nan(agrees: Agrees) -> None:
    """Nothing divided by nothing."""
    agrees({"one": lambda x: (x.var(1), x.std(1), x.var(1, correction=0))}, torch.randn(3, 1))


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, -1, -2, float("inf"), float("-inf")])
def test_norms_of_every_order(agrees: Agrees, order: float) -> None:
    """Over every dimension and all; distances in that norm."""
    functions: dict[str, Any] = {
        "all": lambda x: (x.norm(order), torch.linalg.vector_norm(x, order)),
        "dims": lambda x: (torch.linalg.vector_norm(x, order, (0, 2)), x.norm(order, 1, keepdim=True)),
    }
    if order >= 0:
        functions["apart"] = lambda x: (torch.cdist(x, x + 1, p=order), torch.dist(x, x * 2, p=order))
        functions["pairs"] = lambda x: F.pdist(x[0], p=order)
    agrees(functions, torch.randn(3, 5, 7).abs() + 0.1)


def test_norms_by_composition(agrees: Agrees) -> None:
    """What torch writes with norms and sums."""
    agrees(
        {
            "normalize": lambda x: (F.normalize(x), F.normalize(x, p=1, dim=-1), F.normalize(x, dim=0)),
            "cosine": lambda x: (F.cosine_similarity(x, x.flip(0)), F.cosine_similarity(x, x + 1, dim=-1)),
            "pairwise": lambda x: F.pairwise_distance(x, x * 2),
            "matrix": lambda x: (torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 1), torch.linalg.norm(x)),
            "logsumexp": lambda x: (x.logsumexp(1), torch.logsumexp(x * 50, (0, 2), keepdim=True)),
            "nan": lambda x: (x.nansum(1), x.nanmean(0)),
            "trapezoid": torch.trapezoid,
        },
        torch.randn(4, 6, 5),
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_running_totals(agrees: Agrees, dtype: torch.dtype) -> None:
    """Sums, products, extremes and the last of equal places; types asked for."""
    functions: dict[str, Any] = {}
    for dim in (0, 1, -1):
        functions[f"{dim}"] = lambda x, d=dim: (x.cumsum(d), x[:, :3, :6].cumprod(d), *x.cummax(d), *x.cummin(d))
    functions["types"] = lambda x: (x.cumsum(0, dtype=torch.float32), x.cumsum(1, dtype=torch.int32))
    agrees(functions, numbers(dtype, 3, 7, 20))


def test_long_sums_are_close(agrees: Agrees) -> None:
    """A hundred thousand elements, no tolerance to speak of."""
    x = torch.rand(100_000)
    agrees({"sum": lambda x: (x.sum(), x.mean(), x.cumsum(0)), "max": lambda x: x.max()}, x, rtol=2e-6)


def test_running_logarithms_of_sums(agrees: Agrees) -> None:
    """Of numbers far apart, where exp itself would overflow; infinities, NaN."""
    functions: dict[str, Any] = {f"{dim}": lambda x, d=dim: x.logcumsumexp(d) for dim in (0, 1, 2)}
    agrees(functions, torch.randn(4, 9, 30) * 200)
    agrees(functions, strange(4, 9, 30))


class Varying(nn.Module):
    """What knows how many elements there are, over a dimension that varies."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Run."""
        folds = (x.sum(2), x.mean((0, 2)), x.amax(2), x.argmax(2), x.argmax(), x.var(2), x.std((1, 2), correction=0.5))
        ordered = (x.sort(2).values, x.median(2).indices, x.nanmedian(2).values, x.topk(2, 2).values, x.cumsum(2))
        normed = (x.softmax(2), torch.native_layer_norm(x, x.shape[2:], None, None, 1e-5)[2], F.instance_norm(x))
        return folds + ordered + normed


def test_sizes_that_vary() -> None:
    """One program for every size in the bounds."""
    module = Varying().eval()
    program = load(bytes(export(module, (torch.randn(2, 4, 9),), dynamic_shapes=({2: Dim("n", min=2, max=40)},))))
    for size in (2, 3, 16, 17, 40):
        x = torch.randn(2, 4, size)
        for got, wanted in zip(program(x.numpy()), module(x), strict=True):
            torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=1e-4, atol=1e-5)


def test_histograms_count_what_lies_within(agrees: Agrees) -> None:
    """Both ends belong to an interval, what lies outside to none."""
    agrees(
        {
            "some": lambda x: torch.histc(x, 5, -2, 2),
            "whole": lambda x: torch.histc(x.round(), 4, 0, 3),
            "ends": lambda x: torch.histc(torch.cat([x.reshape(-1), torch.tensor([-1.0, 0.5, 1.0])]), 4, -1, 1),
        },
        torch.randn(6, 5),
    )
