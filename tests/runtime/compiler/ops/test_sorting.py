"""Exported sorts, top-k, medians and quantiles agree with torch: every dimension and type, ties, NaN."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import export, load
from torch import Tensor, nn

Agrees = Callable[..., None]
TYPES = (torch.float32, torch.int64, torch.int32, torch.uint8, torch.int8)


def distinct(dtype: torch.dtype, *shape: int) -> Tensor:
    """Numbers that all differ, in no order; of both signs where the type has them."""
    count = torch.Size(shape).numel()
    values = torch.randperm(count) - (0 if dtype is torch.uint8 else count // 2)
    return values.reshape(shape).to(dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_sorts_along_every_dimension(agrees: Agrees, dtype: torch.dtype) -> None:
    """Rising and falling, stable, the order alone."""
    functions: dict[str, Any] = {
        "argsort": lambda x: (x.argsort(), x.argsort(0, descending=True)),
        "msort": torch.msort,
    }
    for dim in (0, 1, -1):
        functions[f"{dim}"] = lambda x, d=dim: (*x.sort(d), *x.sort(d, descending=True), *x.sort(dim=d, stable=True))
    agrees(functions, distinct(dtype, 3, 5, 8))


@pytest.mark.parametrize("count", [1, 16, 17, 33, 4097])
def test_ties_stay_in_order(agrees: Agrees, count: int) -> None:
    """Stable sorts of few values, zeros of both signs and NaN among them, around the runs of the merge."""
    pool = torch.tensor([0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan")])
    functions = {
        "rising": lambda x: x.sort(dim=-1, stable=True),
        "falling": lambda x: x.sort(dim=-1, stable=True, descending=True),
    }
    agrees({name: lambda x, f=f: tuple(f(x)) for name, f in functions.items()}, pool[torch.randint(0, 7, (2, count))])
    integers = torch.randint(-(2**62), 2**62, (2, count)) // 2**60
    agrees({name: lambda x, f=f: tuple(f(x)) for name, f in functions.items()}, integers)
    agrees({"bool": lambda x: tuple(x.sort(dim=0, stable=True))}, torch.rand(count, 3) < 0.5)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_along_every_dimension(agrees: Agrees, dtype: torch.dtype, *, largest: bool) -> None:
    """Every k, of distinct values."""
    functions: dict[str, Any] = {}
    for dim in (0, 1, -1):
        for k in (1, 2, 3):
            functions[f"{dim} {k}"] = lambda x, d=dim, k=k: tuple(x.topk(k, d, largest=largest))
    agrees(functions, distinct(dtype, 3, 5, 8))
    many: dict[str, Any] = {f"{k}": lambda x, k=k: tuple(x.topk(k, largest=largest)) for k in (1, 5, 63, 64, 199, 200)}
    agrees(many, distinct(torch.int64, 200).to(dtype) if dtype in TYPES[:3] else distinct(torch.int32, 200))


class Top(nn.Module):
    """The three greatest."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Run."""
        values, indices = x.topk(3)
        return values, indices


def test_topk_takes_ties_by_index_and_nan_first() -> None:
    """What eager leaves open is fixed; NaN is torch's greatest."""
    program = load(bytes(export(Top().eval(), (torch.zeros(6),))))
    values, indices = program(np.array([1, 2, 2, 0, 2, 2], np.float32))
    assert (values.tolist(), indices.tolist()) == ([2, 2, 2], [1, 2, 4])
    values, indices = program(np.array([np.inf, np.nan, 5, np.nan, 0, 0], np.float32))
    assert indices.tolist() == [1, 3, 0]
    assert np.isnan(values[:2]).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_values_of_a_rank(agrees: Agrees, dtype: torch.dtype) -> None:
    """The k-th, the lower median, of rows of even and odd length."""
    functions: dict[str, Any] = {"all": lambda x: (x.median(), x[:, 1:].median())}
    for dim in (0, 1, -1):
        functions[f"{dim}"] = lambda x, d=dim: (
            *x.kthvalue(1, d),
            *x.kthvalue(3, d, keepdim=True),
            *x.median(d),
            *x.median(d, keepdim=True),
            *x.nanmedian(d),
        )
    agrees(functions, distinct(dtype, 3, 5, 8))


def test_medians_of_rows_with_nan(agrees: Agrees) -> None:
    """The first NaN wins, or all are left out; rows of nothing else too."""
    x = torch.randn(6, 9)
    x[0, 4] = x[1, 0] = x[2, 8] = float("nan")
    x[3, 2:5] = float("nan")
    x[4, 1:] = float("nan")
    agrees(
        {"median": lambda x: (*x.median(1), x.median(), *x.median(0)), "numbers": lambda x: x.nanmedian(1).values}, x
    )
    agrees({"all": lambda x: (x.nanmedian(), x[:, 5:].nanmedian()), "places": lambda x: x[:4].nanmedian(1).indices}, x)
    x[5] = float("nan")
    agrees({"nothing": lambda x: x.nanmedian(1).values}, x)


def test_a_scalar_is_sorted(agrees: Agrees) -> None:
    """Tensors of rank 0."""
    agrees({"sort": lambda x: (*x.sort(), *x.topk(1), x.median(), *x.median(0), x.argsort())}, torch.tensor(2.5))


def test_quantiles(agrees: Agrees) -> None:
    """By composition: sorted rows and a mix of two neighbours."""
    agrees(
        {
            "quantile": lambda x: (x.quantile(0.3, dim=1), x.quantile(torch.tensor([0.0, 0.5, 1.0]), dim=0)),
            "all": lambda x: x.quantile(0.25),
        },
        torch.randn(5, 12),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool])
def test_the_most_frequent_value_and_its_last_place(agrees: Agrees, dtype: torch.dtype) -> None:
    """The least of several; of one element, of every dimension and type."""
    functions = {
        f"{axis} {keeps}": lambda x, axis=axis, keeps=keeps: tuple(torch.mode(x, axis, keeps))
        for axis in (0, 1, -1)
        for keeps in (False, True)
    }
    for shape in ((5, 12, 3), (4, 1, 1), (1, 16, 2)):
        agrees(functions, torch.randint(0, 4, shape).to(dtype))
    agrees({"row": lambda x: tuple(x.mode())}, torch.tensor([2, 1, 1, 2, 0]).to(dtype))


def test_the_most_frequent_of_long_and_odd_rows(agrees: Agrees) -> None:
    """Zeros of both signs are one value, infinities are values; a NaN is as frequent as one."""
    inf, nan = float("inf"), float("nan")
    agrees({"long": lambda x: x.mode(1).values}, torch.randint(0, 9, (4, 300)).float())
    odd = torch.tensor([[0.0, -0.0, 1.0, 2.0], [inf, -inf, inf, 0.0], [nan, 1.0, 2.0, 2.0]])
    agrees({"odd": lambda x: x.mode(1).values}, odd)
    agrees({"scalar": lambda x: tuple(torch.mode(x, 0))}, torch.tensor(3.0))


class Mode(nn.Module):
    """The most frequent values."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Run."""
        return *x.mode(0), *x.mode(1)


def test_the_most_frequent_of_rows_of_any_number() -> None:
    """At every size."""
    module = Mode().eval()
    rows = torch.export.Dim("rows", min=1, max=7)
    model = load(bytes(export(module, (torch.zeros(3, 4),), dynamic_shapes=({0: rows},))))
    for count in range(1, 8):
        x = torch.randint(0, 3, (count, 4)).float()
        for found, wanted in zip(model(x.numpy()), module(x), strict=True):
            np.testing.assert_array_equal(found, wanted.numpy())
