"""A program whose sizes vary runs at every size within its bounds and gives what torch gives, or is not made."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, _native, export, load
from alcove.runtime.compiler.capture import Captured, Symbol, capture
from alcove.runtime.compiler.codegen import generate_dynamic_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.dynamic_shapes import Dynamic, infer_symbolic_shapes
from alcove.runtime.compiler.every_size import first_refused, first_wrong_constant, first_wrong_shape, with_room
from alcove.runtime.compiler.expressions import Expression
from alcove.runtime.compiler.grown_constants import GrownConstants
from alcove.runtime.compiler.layout import layout
from alcove.runtime.compiler.lower import lower
from alcove.runtime.compiler.pack import pack
from alcove.runtime.compiler.ranges import rows_of
from torch import Tensor, nn
from torch.export import Dim

from tests.selection import quick_every

TOLERANCE = 1e-4
MOST = 40


class Of(nn.Module):
    """A module made of a function of tensors."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> object:
        """Run."""
        return self.function(x)


class Classifier(nn.Module):
    """A token for the class before a sequence, then an encoder layer: spans are one longer than the input."""

    def __init__(self, tokens: int = 1, width: int = 16) -> None:
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, tokens, width))
        self.layer = nn.TransformerEncoderLayer(width, 2, 24, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [batch, tokens + n, width] of f32 [batch, n, width]."""
        result: Tensor = self.layer(torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1))
        return result


def check_at(module: nn.Module, dims: dict[int, Any], example: Tensor, inputs: Sequence[Tensor]) -> None:
    """Export once; every input gives what torch gives."""
    module = module.eval()
    session = load(bytes(export(module, (example,), dynamic_shapes=(dims,)))).session()
    for x in inputs:
        with torch.no_grad():
            expected = module(x)
        (seen,) = session(x.numpy())
        assert seen.shape == tuple(expected.shape)
        np.testing.assert_allclose(seen, expected.numpy(), TOLERANCE, TOLERANCE, err_msg=str(tuple(x.shape)))


RANGES = [pytest.param(*each) for each in ((1, 3, 50), (1, 1, 33), (2, 2, 40), (5, 7, 90), (0, 1, 35))]


@pytest.mark.parametrize(("tokens", "low", "high"), quick_every(RANGES, 2))
def test_tokens_before_a_sequence_run_at_every_length(tokens: int, low: int, high: int) -> None:
    """The room that attention works in rounds the length with its tokens up to 16, and not the length without."""
    dims = {1: Dim("n", min=low, max=high)}
    inputs = [torch.randn(1, n, 16) for n in range(low, high + 1)]
    check_at(Classifier(tokens), dims, torch.randn(1, 9, 16), inputs)


@pytest.mark.thorough
def test_tokens_before_a_sequence_run_at_every_batch_and_length() -> None:
    """Both vary: all pairs."""
    dims = {0: Dim("b", min=1, max=3), 1: Dim("n", min=1, max=34)}
    inputs = [torch.randn(b, n, 16) for b in range(1, 4) for n in range(1, 35)]
    check_at(Classifier(), dims, torch.randn(2, 9, 16), inputs)


BETWEEN: dict[str, Callable[[Tensor], object]] = {
    "a number at some sizes": lambda x: x + (x.shape[1] % 37) // 36,
    "a factor at some sizes": lambda x: x * ((x.shape[1] % 37) // 36 + 1),
    "a constant at some sizes": lambda x: x + torch.arange(x.shape[1]) % ((x.shape[1] % 37) // 36 + 5),
    "a square's remainder": lambda x: x + (x.shape[1] * x.shape[1]) % 17,
    "a sum of positions": lambda x: x + torch.arange(x.shape[1]).sum() % 37 // 36,
    "an equal position": lambda x: x + (torch.arange(x.shape[1]) == (x.shape[1] * 7) % 31),
    "a root": lambda x: x / x.shape[1] ** 0.5,
    "the first half": lambda x: x[:, : x.shape[1] // 2] + 1,
    "a third": lambda x: x[:, x.shape[1] // 3 :] * 2,
    "every third": lambda x: x[:, ::3] + 1,
    "twice as long": lambda x: F.interpolate(x[None], scale_factor=2),
    "four means": lambda x: F.adaptive_avg_pool1d(x[None], 4),
    "ones summed up": lambda x: x + torch.ones_like(x).cumsum(1),
    "windows": lambda x: F.avg_pool1d(x[None], 3, 2),
    "a size that falls": lambda x: (x[:, :1] * torch.ones(x.shape[1] % 7 + 2)).exp() + 1,
    "a triangle": lambda x: torch.tril(torch.ones(x.shape[1], x.shape[1])) @ x.mT,
}


@pytest.mark.parametrize("case", BETWEEN)
def test_quotients_and_remainders_are_right_at_every_size(case: str) -> None:
    """What has floors, remainders and bounds: every size of the range, those between the samples too."""
    dims = {1: Dim("n", min=8, max=120)}
    check_at(Of(BETWEEN[case]), dims, torch.randn(1, 60), [torch.randn(1, n) for n in range(8, 121)])


FEW: dict[str, tuple[Callable[[Tensor], object], int, Sequence[int]]] = {
    "a slice that is all at most sizes": (lambda x: x[:, (x.shape[1] % 37) // 36 :] + 1, 120, range(2, 121)),
    "a bound": (lambda x: x[:, : max(x.shape[1] - 100, 1)], 120, range(2, 121)),
    "a slice at few of many sizes": (
        lambda x: x[:, (x.shape[1] % 5000) // 4999 :] + 1,
        100_000,
        (2, 4998, 4999, 5000, 14_999, 99_998, 99_999, 100_000),
    ),
}


@pytest.mark.parametrize("case", FEW)
def test_what_is_different_at_few_sizes_is_right_there(case: str) -> None:
    """One size of thirty-seven, or of five thousand."""
    function, most, sizes = FEW[case]
    check_at(Of(function), {1: Dim("n", min=2, max=most)}, torch.randn(1, 60), [torch.randn(1, n) for n in sizes])


def test_number_beyond_the_table_is_refused() -> None:
    """It would take a table of a hundred thousand numbers."""
    dims = {1: Dim("n", min=2, max=100_000)}
    with pytest.raises(ExportError, match="a size of more than 16384 values"):
        export(Of(lambda x: x + (x.shape[1] % 5000) // 4999).eval(), (torch.randn(1, 60),), dynamic_shapes=(dims,))


def found_at(function: Callable[[Tensor], object]) -> tuple[Captured, Dynamic]:
    """Return what is captured of a function of f32 [1, n], and what the samples show of it."""
    captured = capture(Of(function).eval(), (torch.randn(1, 9),), ({1: Dim("n", min=2, max=MOST)},))
    return captured, infer_symbolic_shapes(
        captured, lambda sizes: pack(layout(eliminate_dead_code(lower(captured, sizes))))
    )


def only_at(size: int, expression: Expression, more: int) -> Expression:
    """Return an expression that gives `more` at one size, and the same elsewhere."""
    beyond = Expression("sub", Expression("symbol", 0), Expression("constant", size))
    is_other = Expression("min", Expression("mul", beyond, beyond), Expression("constant", 1))
    is_it = Expression("sub", Expression("constant", 1), is_other)
    return Expression("add", expression, Expression("mul", is_it, Expression("constant", more)))


def wrong_at(dynamic: Dynamic, key: str, more: int) -> tuple[Dynamic, int]:
    """Return `dynamic` with a size that is wrong at one size, which is no sample, and that size."""
    size = next(size for size in range(MOST - 2, 2, -1) if (size,) not in dynamic.samples)
    (axis,) = (axis for name, axis in dynamic.dims if name == key)
    dims = {**dynamic.dims, (key, axis): only_at(size, dynamic.dims[key, axis], more)}
    return replace(dynamic, dims=dims), size


def test_wrong_rule_of_a_shape_is_found_at_its_one_size() -> None:
    """Torch's own expression says otherwise there."""
    captured, dynamic = found_at(lambda x: torch.cat([x, x], 1) + 1)
    assert first_wrong_shape(captured, dynamic, rows_of(captured.symbols)) is None
    wrong, size = wrong_at(dynamic, dynamic.graph.outputs[0].value, 1)
    failure = first_wrong_shape(captured, wrong, rows_of(captured.symbols))
    assert failure is not None
    assert failure.sizes == {"n": size}
    assert f"is {2 * size}, the rule found gives {2 * size + 1}" in failure.error().findings[0].suggestion


def test_too_little_room_is_found_at_its_one_size() -> None:
    """The devices' own check, before any run: the scratch of an operator, by its key."""
    captured, dynamic = found_at(lambda x: x.sort(-1).values)
    rows = rows_of(captured.symbols)
    assert first_refused(generate_dynamic_program(dynamic), dynamic, rows) is None
    scratch = dynamic.graph.nodes[0].outputs[-1]
    wrong, size = wrong_at(dynamic, scratch, -MOST)
    failure = first_refused(generate_dynamic_program(wrong), wrong, rows)
    assert failure is not None
    assert (failure.sizes, failure.scratch) == ({"n": size}, scratch)


def test_room_without_a_rule_has_its_largest_size_everywhere() -> None:
    """The last resort: a constant that no size exceeds."""
    captured, dynamic = found_at(lambda x: x.sort(-1).values)
    scratch = dynamic.graph.nodes[0].outputs[-1]
    constant = infer_symbolic_shapes(
        captured, lambda sizes: pack(layout(eliminate_dead_code(lower(captured, sizes)))), constant_scratch=[scratch]
    )
    assert not any(key == scratch for key, _ in constant.dims)
    assert {graph.values[scratch].shape for _, graph in constant.buckets} == {constant.graph.values[scratch].shape}
    assert first_refused(generate_dynamic_program(constant), constant, rows_of(captured.symbols)) is None


def test_bucket_has_room_for_what_is_larger_at_smaller_sizes() -> None:
    """A size that falls where the symbol rises: its place has its most elements, not those at the bounds."""
    _, dynamic = found_at(lambda x: x + 1)
    key = dynamic.graph.outputs[0].value
    falls = Expression("sub", Expression("constant", MOST + 1), dynamic.dims[key, 1])
    roomy = with_room(replace(dynamic, dims={**dynamic.dims, (key, 1): falls}))
    assert all(math.prod(graph.values[key].shape) >= MOST - 1 for _, graph in roomy.buckets)
    same = with_room(dynamic)
    assert [graph.values[key].shape for _, graph in same.buckets] == [(1, bound[0]) for bound, _ in dynamic.buckets]


def test_constant_that_is_no_beginning_at_one_size_is_found() -> None:
    """Torch's own operators at every size; the samples don't show it."""
    captured, dynamic = found_at(lambda x: x + torch.arange(x.shape[1]).sum() % 211 // 210)
    failure = first_wrong_constant(GrownConstants(captured), dynamic, rows_of(captured.symbols))
    assert failure is not None
    (size,) = failure.sizes.values()
    assert size * (size - 1) // 2 % 211 == 210
    assert "test_every_size.py" in failure.origin.source


def test_beginnings_of_the_largest_constant_pass() -> None:
    """Positions and masks."""
    captured, dynamic = found_at(
        lambda x: x + torch.arange(x.shape[1]) + torch.tril(torch.ones(x.shape[1], x.shape[1])).sum(1)
    )
    assert first_wrong_constant(GrownConstants(captured), dynamic, rows_of(captured.symbols)) is None


def symbols(*bounds: tuple[int, int]) -> list[Symbol]:
    """Return symbols with these bounds."""
    return [Symbol(f"s{place}", low, high, "x", place, None) for place, (low, high) in enumerate(bounds)]


def test_constants_of_operators_with_several_results_pass() -> None:
    """`logsigmoid` gives a pair: what it is of is ones, as many as there are rows (found by random modules)."""
    captured, dynamic = found_at(lambda x: x + F.logsigmoid(x.new_zeros(x.shape) + 1))
    assert first_wrong_constant(GrownConstants(captured), dynamic, rows_of(captured.symbols)) is None


@pytest.mark.parametrize("bounds", [(1, 1), (3, 50), (1, 4096), (100, 4195)])
def test_short_range_is_taken_whole(bounds: tuple[int, int]) -> None:
    """Up to 4,096 sizes: each of them, in order."""
    assert rows_of(symbols(bounds))[:, 0].tolist() == list(range(bounds[0], bounds[1] + 1))


def test_few_pairs_are_taken_whole() -> None:
    """Up to 8,192 pairs."""
    assert len(np.unique(rows_of(symbols((1, 64), (3, 130))), axis=0)) == 64 * 128


@pytest.mark.parametrize("bounds", [[(1, 2**20)], [(7, 5000)], [(1, 300), (1, 4096)], [(2, 99), (1, 99), (5, 2**30)]])
def test_sample_of_a_long_range_has_its_ends_and_borders(bounds: list[tuple[int, int]]) -> None:
    """Within the bounds, both ends of each symbol, the sizes around a border; never more than some ten thousand."""
    found = symbols(*bounds)
    border = [min(60, high) for _, high in bounds]
    rows = rows_of(found, [border])
    assert 1000 < len(rows) < 50_000
    assert len(np.unique(rows, axis=0)) == len(rows)
    for place, (low, high) in enumerate(bounds):
        column = set(rows[:, place].tolist())
        assert (min(column), max(column)) == (low, high)
        assert {size for size in range(border[place] - 3, border[place] + 4) if low <= size <= high} <= column
    assert np.array_equal(rows, rows_of(found, [border]))


def test_rows_of_another_width_are_refused_by_the_runtime() -> None:
    """The native check takes a size for each symbol."""
    _, dynamic = found_at(lambda x: x + 1)
    native = _native.open_bytes(generate_dynamic_program(dynamic))
    with pytest.raises(ValueError, match="a size for each symbol"):
        native.first_refused(np.ones((3, 2), np.uint32))
    refused = native.first_refused(np.array([[5], [1]], np.uint32))
    assert refused is not None
    assert refused[0] == 1
    assert "symbol 0 is 1, allowed are 2 to 40" in refused[3]
