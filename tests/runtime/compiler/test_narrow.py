"""Slices move before the operators whose results they slice; answers stay, and so does what has to be whole."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import InputError, export, load
from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.fuse import fuse
from alcove.runtime.compiler.graph import Graph
from alcove.runtime.compiler.layout import layout
from alcove.runtime.compiler.legalize import legalize
from alcove.runtime.compiler.lower import lower
from alcove.runtime.compiler.narrow import narrow
from torch import Tensor, nn
from torch.export import Dim

from tests.selection import quick_every

WIDTH = 8


class Block(nn.Module):
    """A transformer's block of two heads."""

    def __init__(self, *, is_causal: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(3 * WIDTH, WIDTH)
        self.is_causal = is_causal

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        batch, length, width = x.shape
        y = self.first(x)
        heads = [each(y).view(batch, length, 2, width // 2).transpose(1, 2) for each in (self.q, self.k, self.v)]
        mixed = F.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=self.is_causal)
        x = x + self.o(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Read(nn.Module):
    """Blocks, and a head that reads some positions."""

    def __init__(self, pick: Callable[[Tensor], Tensor], *, blocks: int = 2, is_causal: bool = False) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(is_causal=is_causal) for _ in range(blocks)))
        self.norm, self.head, self.pick = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 5), pick

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        result: Tensor = self.head(self.pick(self.norm(self.blocks(x))))
        return result


class Of(nn.Module):
    """A function of its inputs and a layer."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.layer, self.function = nn.Linear(WIDTH, WIDTH), function

    def forward(self, *inputs: Tensor) -> Tensor:
        """Run."""
        return self.function(self.layer, *inputs)


def graphs(module: nn.Module, *inputs: Tensor) -> tuple[Graph, Graph]:
    """The graph before and after the pass."""
    before = fuse(layout(legalize(eliminate_dead_code(lower(capture(module.eval(), inputs, None))))))
    return before, narrow(before)


def elements(graph: Graph, op: str) -> int:
    """How many elements all results of an operator have."""
    return sum(int(np.prod(graph.values[node.outputs[0]].shape)) for node in graph.nodes if node.op == op)


def same(module: nn.Module, *inputs: Tensor, shapes: object = None, sizes: tuple[Tensor, ...] = ()) -> None:
    """A program of a module answers as torch does, at the sizes given and at those of `sizes`."""
    model = load(bytes(export(module.eval(), inputs, dynamic_shapes=shapes)))
    for given in (inputs, *((each,) for each in sizes)):
        with torch.no_grad():
            expected = module(*given)
        np.testing.assert_allclose(model(*(x.numpy() for x in given))[0], expected.numpy(), rtol=1e-4, atol=1e-5)


PICKS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "first": (lambda x: x[:, 0], 1),
    "last": (lambda x: x[:, -1:], 1),
    "two from the middle": (lambda x: x[:, 3:5], 2),
    "every fourth": (lambda x: x[:, 1::4], 3),
}


@pytest.mark.parametrize("name", PICKS)
def test_a_head_that_reads_some_positions_has_its_last_block_computed_for_those_alone(name: str) -> None:
    """Keys and values of the last block are whole, as the blocks before it are; all else is as long as what is read."""
    pick, count = PICKS[name]
    before, after = graphs(Read(pick), x := torch.randn(2, 10, WIDTH))
    rows = 2 * WIDTH
    whole = 10 * rows * (4 + 3 + 1)  # q, k, v, o, up and down of a block
    kept = whole + 10 * rows * 2 + count * rows * (2 + 3 + 1)
    assert elements(before, "linear") == 2 * whole + count * 2 * 5
    assert elements(after, "linear") == kept + count * 2 * 5
    assert elements(after, "attention") == rows * (10 + count)
    same(Read(pick), x)


@pytest.mark.parametrize(
    ("pick", "rows"),
    [(lambda x: x[:, -1], 1), (lambda x: x[:, 0], 6), (lambda x: x[:, -2:], 6)],
    ids=["the last", "the first", "the last two"],
)
def test_causal_attention_is_narrowed_to_its_last_row_alone(pick: Callable[[Tensor], Tensor], rows: int) -> None:
    """The last position sees all; for any other, its mask counts from the first row."""
    module, x = Read(pick, blocks=1, is_causal=True), torch.randn(1, 6, WIDTH)
    _, after = graphs(module, x)
    assert elements(after, "attention") == rows * WIDTH
    same(module, x)


MASK = torch.randn(10, 10)

FUNCTIONS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...], str, int]] = {
    "rows of a product": (lambda f, x: f(x)[:, :2], ((3, 10, WIDTH),), "linear", 3 * 2 * WIDTH),
    "a batch": (lambda f, x: f(x)[1:2], ((3, 10, WIDTH),), "linear", 10 * WIDTH),
    "a batch and rows": (lambda f, x: f(x)[1:, 2], ((4, 10, WIDTH),), "linear", 3 * WIDTH),
    "a slice of a slice": (lambda f, x: f(x)[:, ::2][:, 1:3], ((3, 10, WIDTH),), "linear", 3 * 2 * WIDTH),
    "behind a reshape": (lambda f, x: f(x).view(3, 10, 2, 4)[:, 7], ((3, 10, WIDTH),), "linear", 3 * WIDTH),
    "behind a permute": (lambda f, x: torch.relu(f(x).permute(1, 2, 0))[4], ((3, 10, WIDTH),), "linear", 3 * WIDTH),
    "of an operand that is repeated": (lambda f, x, y: (f(x) * y)[:, 3], ((3, 10, WIDTH), (1, WIDTH)), "binary", 24),
    "of one among those joined": (lambda f, x, y: torch.cat([y, f(x)], 1)[:, 5], ((3, 10, WIDTH),) * 2, "linear", 0),
    "of all that are joined": (lambda f, x, y: torch.cat([f(x), y], 2)[:, 5], ((3, 10, WIDTH),) * 2, "linear", 24),
    "of a softmax": (lambda f, x: torch.softmax(f(x), -1)[:, 0], ((3, 10, WIDTH),), "softmax", 3 * WIDTH),
    "rows of a matmul": (lambda _, x, y: (x @ y)[:, 1], ((3, 10, WIDTH), (3, WIDTH, 4)), "matmul", 3 * 4),
    "a batch of a matmul": (lambda _, x, y: (x @ y)[1], ((3, 10, WIDTH), (3, WIDTH, 4)), "matmul", 10 * 4),
    "scores with a mask": (
        lambda f, x: (torch.softmax(f(x) @ x.mT * 0.5 + MASK, -1) @ x)[:, 4],
        ((3, 10, WIDTH),),
        "attention",
        3 * WIDTH,
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_operator_computes_what_is_read_of_it(name: str) -> None:
    """Each of those that work by rows; answers are torch's."""
    function, shapes, op, count = FUNCTIONS[name]
    module, inputs = Of(function), tuple(torch.randn(shape) for shape in shapes)
    before, after = graphs(module, *inputs)
    assert elements(after, op) == count < elements(before, op)
    same(module, *inputs)


WHOLE: dict[str, Callable[..., Tensor]] = {
    "more than half is read": lambda f, x: f(x)[:, 1:],
    "another reads all": lambda f, x: (y := f(x))[:, :1] + y.sum(),
    "another slice is read": lambda f, x: (y := f(x))[:, 0] * y[:, 1],
    "columns are read": lambda f, x: f(x)[..., :2],
    "it is mirrored": lambda f, x: f(x).flip(1),
    "it is repeated": lambda f, x: f(x)[:, :1].expand(-1, 9, -1),
}


@pytest.mark.parametrize("name", list(WHOLE)[:-1])
def test_an_operator_stays_whole(name: str) -> None:
    """Where as much is needed, or another part."""
    module, x = Of(WHOLE[name]), torch.randn(3, 10, WIDTH)
    before, after = graphs(module, x)
    assert elements(after, "linear") == elements(before, "linear")
    same(module, x)


def test_a_part_that_is_repeated_is_computed_once() -> None:
    """One row, then as often as it is wanted."""
    module, x = Of(WHOLE["it is repeated"]), torch.randn(3, 10, WIDTH)
    _, after = graphs(module, x)
    assert elements(after, "linear") in (3 * WIDTH, 3 * 10 * WIDTH)
    same(module, x)


def test_an_output_stays_whole_though_a_part_of_it_is_read_too() -> None:
    """Both leave the program."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(WIDTH, WIDTH)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = self.layer(x)
            return y, torch.relu(y[:, 0])

    module, x = Both(), torch.randn(2, 10, WIDTH)
    model = load(bytes(export(module.eval(), (x,))))
    with torch.no_grad():
        for seen, expected in zip(model(x.numpy()), module(x), strict=True):
            np.testing.assert_allclose(seen, expected.numpy(), rtol=1e-5, atol=1e-6)


READ = [pytest.param(*each) for each in product(["first", "last", "two from the middle"], [False, True])]


@pytest.mark.parametrize(("name", "is_causal"), quick_every(READ, 3))
def test_a_length_that_varies_is_narrowed_at_every_size(name: str, is_causal: bool) -> None:
    """From where what is read is all of it."""
    module = Read(PICKS[name][0], is_causal=is_causal)
    sizes = tuple(torch.randn(1, length, WIDTH) for length in range(5, 13))
    same(module, sizes[2], shapes=({1: Dim("length", min=5, max=12)},), sizes=sizes)


@pytest.mark.parametrize("quantize", ["int8", "int8_dynamic"])
def test_a_narrowed_model_is_quantized(quantize: str) -> None:
    """As near to eager as the whole one would be."""
    torch.manual_seed(0)
    module, x = Read(PICKS["last"][0]).eval(), torch.randn(1, 10, WIDTH)
    options: dict[str, Any] = {"calibration": [(x,)]} if quantize == "int8" else {}
    program = export(module, (x,), quantize=quantize, **options)
    with torch.no_grad():
        expected = module(x).numpy()
    assert np.abs(load(bytes(program))(x.numpy())[0] - expected).max() < 0.1 * np.abs(expected).max()


def test_an_index_that_does_not_exist_is_refused_though_its_row_is_not_read() -> None:
    """What is looked up is checked whole, as torch does."""

    class Lookup(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, WIDTH)

        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(self.table(x))[:, -1]

    model = load(bytes(export(Lookup().eval(), (torch.tensor([[1, 2, 3]]),))))
    model(np.array([[6, 0, 6]], np.int64))
    with pytest.raises(InputError):
        model(np.array([[7, 0, 1]], np.int64))


def test_a_division_by_zero_ends_the_run_though_its_quotient_is_not_read() -> None:
    """As in torch."""

    class Quotient(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            return (x // y)[:, -1]

    given = torch.tensor([[4, 5, 6]]), torch.tensor([[2, 2, 4]])
    model = load(bytes(export(Quotient().eval(), given)))
    assert model(*(x.numpy() for x in given))[0].tolist() == [1]
    with pytest.raises(InputError, match="divided by zero"):
        model(np.array([[4, 5, 6]], np.int64), np.array([[0, 2, 4]], np.int64))
