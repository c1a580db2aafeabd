"""Exported indexed reads and writes agree with torch, and indices out of range are typed errors."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn
from torch.export import Dim

Agrees = Callable[..., None]
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def places(bound: int, *shape: int, least: int = 0) -> Tensor:
    """Return indices in [least, bound)."""
    return torch.randint(least, bound, shape)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.uint8, torch.bool])
def test_rows_are_read(agrees: Agrees, dtype: torch.dtype) -> None:
    """index_select, take, take_along_dim, gather and embedding, of every type, along every dimension."""
    x = (torch.randn(4, 3, 6) * 20).to(dtype)
    agrees(
        {
            "select": lambda x, i, j: tuple(x.index_select(axis, i[0] % x.shape[axis]) for axis in range(3)),
            "scalar": lambda x, i, j: (x[0, 0, 0].index_select(0, i[0, :1] * 0), x.index_select(1, i[0, 0] % 3)),
            "take": lambda x, i, j: (x.take(i * 10), x.take(i - 7), torch.take_along_dim(x, j, 2)),
            "gather": lambda x, i, j: (x.gather(2, j), x.gather(1, j[:, :2] % 3), x.gather(0, j[:1] % 4)),
            "flat": lambda x, i, j: (
                torch.take_along_dim(x, i),
                x[0, 0].gather(0, i[1]),
                x[0, 0, 0].gather(0, i[0, 0] * 0),
            ),
        },
        x,
        places(4, 2, 5),
        places(6, 4, 3, 6),
    )


def test_tables_are_read(agrees: Agrees) -> None:
    """A table of weights and a computed one, ids of any shape and of both types."""
    table = torch.randn(9, 5)
    agrees(
        {
            "weights": lambda i, w: (F.embedding(i, table), F.embedding(i[0], table, padding_idx=2)),
            "narrow ids": lambda i, w: F.embedding(i.int(), table),
            "computed": lambda i, w: (F.embedding(i, w.relu()), F.embedding(i[0, 0, 0], w)),
        },
        places(9, 2, 3, 4),
        torch.randn(9, 5),
    )


def test_indices_in_brackets(agrees: Agrees) -> None:
    """One tensor, several, with gaps, broadcast, negative, together and apart, beside slices."""
    agrees(
        {
            "one": lambda x, i, j: (x[i], x[:, i], x[..., i], x[-i - 1], x[i.int()], x[:, :, i[0, 0]]),
            "two": lambda x, i, j: (x[i, i], x[:, i, i % 3], x[:, :, i, -i - 1], x[i, 1], x[i[:1], i[:, :1]]),
            "apart": lambda x, i, j: (x[i, :, i], x[:, i, :, i], x[i, None, :, i], x[i[0], :, :, j]),
            "many": lambda x, i, j: (x[i, i, i, i], x[1:, i, i, 2:4], x[::2, :, j], x[i][:, j % 2]),
            "constant": lambda x, i, j: (x[:, [0, 2]], x[[1, 3, -1]]),
        },
        torch.randn(4, 4, 4, 5),
        places(3, 2, 3),
        places(4, 3),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32, torch.uint8])
def test_places_in_brackets_are_written(agrees: Agrees, dtype: torch.dtype) -> None:
    """index_put with and without accumulation, values broadcast; each place named once where the last would win."""
    i = torch.tensor([2, 0, 3])
    values = (torch.randn(3, 4, 5) * 9).to(dtype)

    def put(x: Tensor, indices: tuple[Any, ...], value: Tensor, add: bool) -> Tensor:
        result: Tensor = torch.ops.aten.index_put(x, indices, value, add)
        return result

    functions: dict[str, Any] = {}
    for add in (False, True):
        functions[f"add {add}"] = lambda x, i, v, add=add: (
            put(x, (i,), v, add),
            put(x, (i,), v[0, 0], add),
            put(x, (None, i), v[:1].mT[:, :3, :1], add),
            put(x, (i, i), v[0, :3], add),
            put(x, (i, None, i), v[:, :, 0], add),
            put(x, (i[:, None], -i - 1), v[:, :3], add),
            put(x, (None, None, i), v[0, 0, 0], add),
        )
    functions["flat"] = lambda x, i, v: (x.put(i * 7, v[:, 0, 0]), x.put(i - 5, v[0, :3, 1], accumulate=True))
    agrees(functions, (torch.randn(4, 4, 5) * 9).to(dtype), i, values)


def test_masks_choose(agrees: Agrees) -> None:
    """A mask as index: one value for all its places; the source's elements in order."""
    agrees(
        {
            "number": lambda x, m: (_put(x, m, 3.0), _put(x, m[:, 0], 2.0), _put(x, ~m, -1.0)),
            "row": lambda x, m: torch.ops.aten.index_put(x, (m[:, 0],), x[0]),
            "added": lambda x, m: torch.ops.aten.index_put(x, (m,), x[0, 0], True),
            "fill": lambda x, m: (x.masked_fill(m, 4), torch.where(m, x, -x)),
            "scatter": lambda x, m: (x.masked_scatter(m, x.flip(0)), x.masked_scatter(m[0], x * 2)),
            "spread": lambda x, m: (
                x[0].masked_scatter(m, x.flip(0)),
                torch.ops.aten.index_put(m, (m,), m[0, 0], True),
            ),
        },
        torch.randn(4, 5),
        torch.rand(4, 5) < 0.4,
    )


def _put(x: Tensor, mask: Tensor, number: float) -> Tensor:
    x = x.clone()
    x[mask] = number
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32])
def test_elements_are_scattered(agrees: Agrees, dtype: torch.dtype) -> None:
    """scatter, scatter_add and scatter_reduce, along each dimension, with and without what was there."""
    x, source = ((torch.randn(4, 5) * 9).to(dtype) for _ in range(2))
    unique = torch.stack([torch.randperm(5)[:3] for _ in range(4)])
    functions: dict[str, Any] = {
        "set": lambda x, s, i, u: (x.scatter(1, u, s), x.scatter(1, u, 7), x.mT.scatter(0, u.mT, s.mT)),
        "add": lambda x, s, i, u: (x.scatter_add(1, i, s), x.scatter_add(0, i % 4, s), x.scatter_add(0, i[:2] % 4, s)),
        "old": lambda x, s, i, u: x.scatter(1, i, 2, reduce="multiply"),
        "vector": lambda x, s, i, u: (x[0].scatter_add(0, i[0], s[0]), x[0, 0].scatter_add(0, i[0, 0] * 0, s[0, 0])),
        "itself": lambda x, s, i, u: x.scatter_add(1, i, x),
    }
    for reduce in REDUCTIONS:
        for is_in in (True, False):
            functions[f"{reduce} {is_in}"] = lambda x, s, i, u, reduce=reduce, is_in=is_in: (
                x.scatter_reduce(1, i, s, reduce, include_self=is_in),
                x.scatter_reduce(0, i % 4, s, reduce, include_self=is_in),
            )
    agrees(functions, x, source, places(5, 4, 3), unique)


def test_maxima_of_not_a_number_are_not_a_number(agrees: Agrees) -> None:
    """NaN and infinities in scatters are torch's."""
    special = torch.tensor([[float("nan"), float("inf"), -float("inf"), 1.0], [2.0, float("nan"), 0.0, float("inf")]])
    functions = {
        reduce: lambda x, i, reduce=reduce: x[:1].scatter_reduce(1, i, x[1:], reduce, include_self=True)
        for reduce in ("sum", "prod", "amax", "amin")
    }
    agrees(functions, special, torch.tensor([[1, 1, 0, 3]]))


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.int32])
def test_rows_are_written(agrees: Agrees, dtype: torch.dtype) -> None:
    """index_add, index_copy, index_fill and index_reduce along each dimension."""
    x, source = ((torch.randn(4, 4, 4) * 9).to(dtype) for _ in range(2))
    functions: dict[str, Any] = {
        "fill": lambda x, s, i: (x.index_fill(1, i, 3), x.index_fill(2, i - 4, 5), x.index_fill(0, i[:1], x[0, 0, 0])),
        "scalar": lambda x, s, i: (x[0, 0, 0].index_add(0, i[0] * 0, s[0, 0, 0]), x.index_copy(1, i[1], s[:, :1])),
    }
    for axis in range(3):
        functions[f"add {axis}"] = lambda x, s, i, axis=axis: (
            x.index_add(axis, i.repeat(2)[:4], s),
            x.index_add(axis, i.repeat(2)[:4], s, alpha=2),
        )
        functions[f"copy {axis}"] = lambda x, s, i, axis=axis: x.index_copy(axis, i, s.narrow(axis, 0, 3))
        for reduce in ("prod", "mean", "amax", "amin"):
            for is_in in (True, False):
                functions[f"{reduce} {axis} {is_in}"] = lambda x, s, i, axis=axis, reduce=reduce, is_in=is_in: (
                    x.index_reduce(axis, i.repeat(2)[:4], s, reduce, include_self=is_in)
                )
    agrees(functions, x, source, torch.tensor([2, 0, 3]))


def test_classes_and_boundaries(agrees: Agrees) -> None:
    """one_hot, bucketize and searchsorted: both sides, many dimensions, computed boundaries, int32 results."""
    edges = torch.tensor([-1.0, -0.25, 0.0, 0.0, 0.5, 2.0])
    agrees(
        {
            "one_hot": lambda x, r, i: (F.one_hot(i, 7), F.one_hot(i[0, 0], 8)),
            "bucketize": lambda x, r, i: (torch.bucketize(x, edges), torch.bucketize(x, edges, right=True)),
            "numbers": lambda x, r, i: (torch.bucketize(i, edges.long().sort().values), torch.searchsorted(r[0], 0.1)),
            "rows": lambda x, r, i: (torch.searchsorted(r, x), torch.searchsorted(r, x, side="right", out_int32=True)),
            "shared": lambda x, r, i: (torch.searchsorted(r[1], x), torch.bucketize(x, r[1], out_int32=True)),
            "sorter": lambda x, r, i: torch.searchsorted(
                r.flip(1), x, sorter=torch.arange(5, -1, -1).expand(3, 6).clone()
            ),
        },
        torch.tensor([[-2.0, 0.0, 0.5, 3.0], [float("nan"), float("inf"), 0.25, -0.25], [1.0, 2.0, -1.0, 0.1]]),
        torch.randn(3, 6).sort().values,
        places(7, 2, 3),
    )


@pytest.mark.parametrize("ids", [torch.int64, torch.int32])
def test_bags(agrees: Agrees, ids: torch.dtype) -> None:
    """Fixed and given bags, empty ones, every mode, weights, padding, the offset after the last."""
    table = torch.randn(12, 17)
    functions: dict[str, Any] = {}
    for mode in ("sum", "mean", "max"):
        functions[mode] = lambda i, o, w, mode=mode: (
            F.embedding_bag(i, table, o, mode=mode),
            F.embedding_bag(i, table, o, mode=mode, include_last_offset=True),
            F.embedding_bag(i, table, o, mode=mode, padding_idx=3),
            F.embedding_bag(i.view(4, 3), table, mode=mode),
            F.embedding_bag(i.view(4, 3), table, mode=mode, padding_idx=-4),
            F.embedding_bag(i, table.abs() + w.sum() * 0, o[:1], mode=mode),
        )
    functions["weights"] = lambda i, o, w: (
        F.embedding_bag(i, table, o, mode="sum", per_sample_weights=w),
        F.embedding_bag(i.view(4, 3), table, mode="sum", per_sample_weights=w.view(4, 3), padding_idx=3),
    )
    indices = torch.tensor([3, 0, 11, 3, 3, 3, 8, 1, 8, 8, 2, 5], dtype=ids)
    agrees(functions, indices, torch.tensor([0, 3, 3, 6, 12], dtype=ids), torch.randn(12))


class Lambda(nn.Module):
    """A function of a tensor of numbers and one of indices."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        """Run."""
        return self.function(x, i)


Case = tuple[Callable[[Tensor, Tensor], Tensor], int, bool]
READS_AND_WRITES: Mapping[str, Case] = {  # x is [4, 6]; of each the bound, and whether negative indices wrap
    "index_select": (lambda x, i: x.index_select(1, i), 6, False),
    "embedding": (lambda x, i: F.embedding(i, x), 4, False),
    "gather": (lambda x, i: x.gather(0, i[None].expand(2, 3)), 4, False),
    "take": (lambda x, i: x.take(i), 24, True),
    "one index": (lambda x, i: x[:, i], 6, True),
    "one number": (lambda x, i: torch.stack([x[:, i[0]], x[:, i[1]], x[:, i[2]]]), 6, True),
    "first of two": (lambda x, i: x[i, i * 0], 4, True),
    "second of two": (lambda x, i: x[i * 0, i], 6, True),
    "index_put": (lambda x, i: torch.ops.aten.index_put(x, (i,), x[0]), 4, True),
    "index_put added": (lambda x, i: torch.ops.aten.index_put(x, (None, i), x[0, 0], True), 6, True),
    "scatter": (lambda x, i: x.scatter(1, i[None], x), 6, False),
    "scatter_add": (lambda x, i: x.scatter_add(0, i[None], x), 4, False),
    "scatter_reduce": (lambda x, i: x.scatter_reduce(0, i[None], x, "amax"), 4, False),
    "index_add": (lambda x, i: x.index_add(1, i, x[:, :3]), 6, False),
    "index_copy": (lambda x, i: x.index_copy(0, i, x[:3]), 4, False),
    "index_fill": (lambda x, i: x.index_fill(0, i, 1.0), 4, True),
    "put": (lambda x, i: x.put(i, x[0, :3]), 24, True),
    "one_hot": (lambda x, i: F.one_hot(i, 5), 5, False),
    "embedding_bag": (lambda x, i: F.embedding_bag(i[None], x), 4, False),
}


@pytest.mark.parametrize("name", READS_AND_WRITES)
def test_indices_out_of_range_are_reported(name: str) -> None:
    """At each position, just outside and far outside: a typed error with all numbers; then all is well."""
    function, bound, wraps = READS_AND_WRITES[name]
    x = torch.randn(4, 6)
    good = torch.tensor([1, 0, bound - 1])
    model = load(bytes(export(Lambda(function), (x, good))))
    least = -bound if wraps else 0
    for position in range(3):
        for bad in (bound, least - 1, 2**31 - 1, -(2**31), 2**40, -(2**40), 2**63 - 1, -(2**63)):
            if name in ("first of two", "second of two") and abs(bad) > 2**40:
                continue  # torch's own multiplication in the case overflows
            indices = good.clone()
            indices[position] = bad
            named = 0 if name == "one number" else position
            with pytest.raises(InputError, match=f"index {named} is {bad}, allowed are {least} to {bound - 1}"):
                model(x.numpy(), indices.numpy())
        (seen,) = model(x.numpy(), good.numpy())
        np.testing.assert_allclose(seen, function(x, good).numpy(), rtol=1e-6)
    if wraps:
        (seen,) = model(x.numpy(), (good - bound).numpy())
        np.testing.assert_allclose(seen, function(x, good).numpy(), rtol=1e-6)


def test_offsets_out_of_order_are_reported() -> None:
    """The first is 0, none falls, none passes the number of ids."""
    table = torch.randn(5, 3)
    ids = torch.tensor([1, 2, 3, 4])
    module = Lambda(lambda i, o: F.embedding_bag(i, table, o, mode="sum"))
    model = load(bytes(export(module, (ids, torch.tensor([0, 2, 4])))))
    for bad, position in (([1, 2, 3], 0), ([-1, 2, 3], 0), ([0, 3, 2], 2), ([0, 5, 5], 1), ([0, 1, 2**40], 2)):
        with pytest.raises(InputError, match=f"index {position} is {bad[position]},"):
            model(ids.numpy(), np.array(bad))
    for good in ([0, 0, 0], [0, 4, 4], [0, 1, 3]):
        (seen,) = model(ids.numpy(), np.array(good))
        np.testing.assert_allclose(seen, module(ids, torch.tensor(good)).numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, i: torch.ops.aten.index_put(x, (x > 0,), x), "one value for all places"),
        (lambda x, i: F.one_hot(i), "data-dependent|num_classes|depend on data"),
        (lambda x, i: x[x > 0], "depend"),
        (lambda x, i: x.masked_select(x > 0), "depend"),
        (lambda x, i: torch.repeat_interleave(x, i, 0), "depend|data"),
    ],
)
def test_sizes_that_depend_on_data_are_refused(function: Callable[[Tensor, Tensor], Tensor], reason: str) -> None:
    """With the reason."""
    with pytest.raises(ExportError, match=reason):
        export(Lambda(function), (torch.ones(4), torch.tensor([1, 0, 2, 1])))


class Sequences(nn.Module):
    """Ids of varying number: positions, masks, windows, padded and shifted parts, bags and classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 6), nn.Embedding(31, 6)

    def forward(self, ids: Tensor) -> tuple[Tensor, ...]:
        """Run."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        mask = torch.full((ids.shape[1], ids.shape[1]), -1.0).triu(1)
        return (
            x.transpose(1, 2).flip(2),
            torch.cat([x, x.roll(1, 1), torch.zeros_like(x)], -1),
            mask + x.sum(-1, keepdim=True),
            F.pad(x, (0, 0, 1, 2))[:, 1:, ::2],
            x[:, -1].repeat(2, 1),
            F.one_hot(ids, 20),
            x.reshape(ids.shape[0], -1),
            torch.zeros_like(x).scatter_add(1, ids[..., None].expand(-1, -1, 6) * 0, x),
            F.embedding_bag(ids, self.words.weight, mode="mean"),
        )


def test_numbers_of_ids_vary() -> None:
    """Within bounds, down to one row: one program, all sizes, each as eager."""
    module = Sequences().eval()
    sizes = ({0: Dim("rows", min=1, max=4), 1: Dim("ids", min=2, max=31)},)
    model = load(bytes(export(module, (places(20, 2, 8),), dynamic_shapes=sizes)))
    for shape in ((1, 2), (2, 8), (4, 31), (3, 17), (1, 31), (4, 2)):
        ids = places(20, *shape)
        with torch.no_grad():
            expected = module(ids)
        for wanted, seen in zip(expected, model(ids.numpy()), strict=True):
            np.testing.assert_allclose(seen, wanted.numpy(), rtol=1e-4, atol=1e-5)
