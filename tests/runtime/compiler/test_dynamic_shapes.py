"""One program serves all sizes within its bounds, with the answers of torch; sizes outside are refused."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, InputError, export, load
from alcove.runtime.compiler.capture import capture
from alcove.runtime.compiler.dynamic_shapes import infer_symbolic_shapes
from alcove.runtime.compiler.lower import lower
from alcove.runtime.model import Model
from torch import Tensor, nn
from torch.export import Dim

from tests.selection import quick_every

Sizes = tuple[int, ...]
TOLERANCE = 1e-4


class Of(nn.Module):
    """A module made of a function of (its parts, x)."""

    def __init__(self, function: Callable[..., object], **parts: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, x: Tensor) -> object:
        """Run."""
        return self.function(self, x)


class Decoder(nn.Module):
    """Ids to scores: an embedding, positions up to the length, attention under a causal mask, a residual MLP."""

    def __init__(self, width: int = 16, heads: int = 4, longest: int = 64) -> None:
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(50, width)
        self.position = nn.Parameter(torch.randn(longest, width))
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest, dtype=torch.bool)))

    def forward(self, ids: Tensor) -> Tensor:
        """Return f32 [batch, length, width] of int64 [batch, length]."""
        batch, length = ids.shape
        x = self.embedding(ids) + self.position[:length]
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * 0.5
        scores = scores.masked_fill(~self.get_buffer("mask")[:length, :length], -math.inf).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(batch, length, -1))
        return x + self.mlp(x)


class ConvNet(nn.Module):
    """A picture to scores, with strides, a residual, a depthwise layer and means over all pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.Hardswish()
        )
        self.depth = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.point = nn.Conv2d(8, 8, 1)
        self.out = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [batch, 5]."""
        x = self.stem(x)
        x = x + self.point(F.relu(self.depth(x)))
        return self.out(F.max_pool2d(x, 2).mean((2, 3)))


class VisionTransformer(nn.Module):
    """Patches, a token for the class in every picture of the batch, two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, stride=4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return f32 [batch, 16]."""
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1)
        return self.layers(x)[:, 0]


class Gru(nn.Module):
    """Outputs and last state of a recurrent layer."""

    def __init__(self, *, both_ways: bool = False) -> None:
        super().__init__()
        self.gru = nn.GRU(4, 7, batch_first=True, bidirectional=both_ways)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return f32 [batch, length, units] and its last row."""
        y, _ = self.gru(x)
        return y, y[:, -1]


def fold_sizes(_: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return products of the sizes as a size, and back."""
    batch, length, _width = x.shape
    rows = x.reshape(batch * length, 4).softmax(-1)
    return rows.flatten(), rows.view(batch, length, 2, 2).transpose(1, 2).flatten(2)


def pad_to_quotients(_: nn.Module, x: Tensor) -> tuple[Tensor, ...]:
    """Return x padded to multiples, and parts of it, by quotients of real numbers: up, down, and to the nearest."""
    count = x.shape[0]
    return (
        F.pad(x, (0, 0, 0, 0, 0, math.ceil(count / 4) * 4 - count)),
        x[: math.ceil(count / 2.5)],
        x[: math.floor((count + 5) / 6)] * math.floor(count / 2),
        x[: math.ceil((count - 9) / 4) + 4],
        x[: round(count / 2) + 1],
        x[: round(count * 5 / 6)],
        x[: math.trunc(count / 3) + 1],
    )


def interleave(x: Tensor) -> Tensor:
    """Return even rows, then odd ones; there are none of these where there is one row."""
    return torch.cat([x[..., ::2, :], x[..., 1::2, :]], -2)


def image(batch: int, height: int, width: int) -> Tensor:
    """Return a picture for each of a batch."""
    return torch.randn(batch, 3, height, width)


def ids(batch: int, length: int) -> Tensor:
    """Return ids below 50."""
    return torch.randint(0, 50, (batch, length))


def rows(batch: int, length: int) -> Tensor:
    """Return f32 [batch, length, 4]."""
    return torch.randn(batch, length, 4)


def vary_batch(make: Callable[..., Tensor], *fixed: int) -> Callable[..., Tensor]:
    """Return `make` with its first size free and the others given."""
    return lambda batch: make(batch, *fixed)


def export_dynamic(module: nn.Module, example: Tensor, dims: dict[int, Any]) -> Model:
    """Return the model of a module of one input whose sizes vary."""
    return load(bytes(export(module.eval(), (example,), dynamic_shapes=(dims,))))


def eager(module: nn.Module, x: Tensor) -> list[Tensor]:
    """Return the module's own results."""
    with torch.no_grad():
        result = module(x)
    return list(result) if isinstance(result, tuple | list) else [result]


def check(module: nn.Module, model: Model, inputs: Sequence[Tensor]) -> None:
    """One session for all inputs in their order gives the bits of a fresh session, and what torch gives."""
    session = model.session()
    for x in inputs:
        seen = [out.copy() for out in session(x.numpy())]
        fresh = model.session()(x.numpy())
        assert [out.tobytes() for out in seen] == [out.tobytes() for out in fresh], tuple(x.shape)
        for out, expected in zip(seen, eager(module, x), strict=True):
            assert out.shape == tuple(expected.shape)
            np.testing.assert_allclose(out, expected.numpy(), rtol=TOLERANCE, atol=TOLERANCE, err_msg=str(x.shape))


MASK = torch.ones(20, 20).triu(1).bool()
LITTLE = Dim("little", min=1, max=13)
BATCH = {0: Dim("batch", min=1, max=8)}
BOTH = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=1, max=40)}
PIXELS = {2: Dim("height", min=8, max=40), 3: Dim("width", min=8, max=64)}
ALL = ((1, 1), (8, 40), (2, 10), (2, 11), (3, 2), (1, 40), (8, 1), (3, 9), (1, 1))
"""Batch and length: least, greatest, edges of buckets (2 and 8; 2, 10 and 40) and one beyond, up and down."""

CASES: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor], dict[int, Any], Sequence[Sizes]]] = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1)),
        lambda batch: torch.randn(batch, 4),
        BATCH,
        [(1,), (8,), (2,), (3,), (1,)],
    ),
    "mlp of one or two": (
        lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)),
        lambda batch: torch.randn(batch, 4),
        {0: Dim("batch", min=1, max=2)},
        [(1,), (2,), (1,)],
    ),
    "convolutions": (ConvNet, vary_batch(image, 16, 12), BATCH, [(1,), (8,), (2,), (3,), (1,)]),
    "transformer": (VisionTransformer, vary_batch(image, 8, 8), BATCH, [(1,), (8,), (2,), (3,), (1,)]),
    "transformer of one or two": (
        VisionTransformer,
        vary_batch(image, 8, 8),
        {0: Dim("batch", min=1, max=2)},
        [(1,), (2,), (1,)],
    ),
    "image size": (
        ConvNet,
        lambda height, width: image(1, height, width),
        PIXELS,
        [(8, 8), (40, 64), (10, 16), (11, 17), (9, 64), (40, 8), (8, 8)],
    ),
    "batch and image size": (
        ConvNet,
        image,
        {0: Dim("batch", min=1, max=3), **PIXELS},
        [(1, 8, 8), (3, 40, 64), (2, 10, 16), (1, 11, 9)],
    ),
    "attention": (Decoder, ids, BOTH, ALL),
    "length alone": (Decoder, lambda length: ids(3, length), {1: BOTH[1]}, [(40,), (1,), (10,), (11,), (2,), (40,)]),
    "gru": (Gru, rows, BOTH, ALL),
    "gru both ways": (lambda: Gru(both_ways=True), rows, BOTH, ALL),
    "bags": (lambda: nn.EmbeddingBag(50, 32, mode="max", padding_idx=0), ids, BOTH, ALL),
    "bags of one size": (lambda: nn.EmbeddingBag(50, 32), lambda n: ids(3, n), {1: BOTH[1]}, [(40,), (1,), (10,)]),
    "padded to a size": (lambda: Of(lambda _, x: F.pad(x, (0, 0, 40 - x.shape[1], 0), value=7.0)), rows, BOTH, ALL),
    "padded to a multiple": (
        lambda: Of(lambda _, x: F.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4), mode="reflect")),
        lambda height, width: image(1, height, width),
        PIXELS,
        [(8, 8), (40, 64), (10, 16), (11, 17), (9, 64), (40, 8), (8, 8)],
    ),
    "rounded quotients": (lambda: Of(pad_to_quotients), vary_batch(rows, 9), {0: LITTLE}, [(n,) for n in range(1, 14)]),
    "rounded quotients of two sizes": (
        lambda: Of(lambda _, x: F.pad(x, (0, 0, 0, math.ceil(x.shape[0] / x.shape[1]) * x.shape[1] - x.shape[0]))),
        rows,
        {0: LITTLE, 1: Dim("length", min=1, max=5)},
        [(batch, length) for batch in range(1, 14) for length in range(1, 6)],
    ),
    "classes as many as rows": (
        lambda: Of(lambda _, x: (F.one_hot(x.argmax(0), x.shape[0]), F.one_hot(x[:, 0].long() % 2, 2 * x.shape[0]))),
        vary_batch(torch.rand, 4),
        {0: LITTLE},
        [(n,) for n in range(1, 14)],
    ),
    "products of sizes": (lambda: Of(fold_sizes), rows, BOTH, ALL),
    "a multiple of a size": (
        lambda: Of(lambda _, x: (x.view(1, -1, 2).sum(-1), x[:, 1::2], x * x.shape[1], x + 1)),
        lambda half: torch.randn(1, 2 * half),
        {1: 2 * Dim("half", min=1, max=9)},
        [(1,), (9,), (2,), (5,)],
    ),
    "one more than a multiple": (
        lambda: Of(lambda _, x: (x[:, 1:].relu() - x[:, :-1], x[:, : x.shape[1] // 3])),
        lambda third: torch.randn(1, 3 * third + 1),
        {1: 3 * Dim("third", min=1, max=9) + 1},
        [(1,), (9,), (2,), (5,)],
    ),
    "a mask as long as the longest": (
        lambda: Of(lambda _, x: (x.transpose(1, 2) @ x).masked_fill(MASK[: x.shape[2], : x.shape[2]], -9.0)),
        lambda length: torch.randn(1, 3, length),
        {2: Dim("length", min=1, max=20)},
        [(20,), (1,), (2,), (19,)],
    ),
    "last of each": (lambda: Of(lambda _, x: (x[-1:], x[:, -1], x.flip(1))), rows, BOTH, ALL),
}


@pytest.mark.parametrize("case", quick_every(CASES, 3))
def test_one_program_serves_all_sizes(case: str) -> None:
    """Least, greatest, edges of buckets, growing and shrinking: a fresh session's bits, and what torch gives."""
    make, example, dims, all_sizes = CASES[case]
    module = make().eval()
    middle = [tuple(min(max(size, 3), 8) for size in sizes) for sizes in all_sizes[:1]]
    greatest = tuple(max(sizes[place] for sizes in all_sizes) for place in range(len(all_sizes[0])))
    first = tuple(min(size, most) for size, most in zip(middle[0], greatest, strict=True))
    model = export_dynamic(module, example(*first), dims)
    check(module, model, [example(*sizes) for sizes in all_sizes])


def test_ports_tell_their_bounds() -> None:
    """For people: the range of each dimension."""
    model = export_dynamic(Decoder(), ids(3, 5), BOTH)
    assert model.inputs[0].dims == ("1..8", "1..40")
    assert model.outputs[0].dims == ("1..8", "1..40", "16")


@pytest.mark.parametrize("sizes", [(2, 40), (8, 41), (9, 3), (1, 0)])
def test_sizes_outside_of_the_bounds_name_the_size(sizes: Sizes) -> None:
    """A typed error with the name of the Dim, the size and its bounds; the session still works."""
    least = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=3, max=40)}
    session = export_dynamic(Of(lambda _, x: x.softmax(1)), rows(3, 5), least).session()
    if sizes == (2, 40):
        sizes = (2, 2)
    with pytest.raises(InputError) as caught:
        session(rows(*sizes).numpy())
    name, size, bounds = ("batch", sizes[0], "1 to 8") if sizes[0] > 8 else ("length", sizes[1], "3 to 40")
    assert caught.value.port == "x"
    assert f"({name}) is {size}, allowed are {bounds}" in str(caught.value)
    assert session(rows(2, 3).numpy())[0].shape == (2, 3, 4)


def test_two_inputs_of_one_size_must_agree() -> None:
    """A Dim that stands in two inputs is one size."""

    class Sum(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            """Run."""
            return (x + y).softmax(-1)

    dims = {"x": {0: BATCH[0]}, "y": {0: BATCH[0]}}
    model = load(bytes(export(Sum().eval(), (torch.zeros(3, 4), torch.zeros(3, 4)), dynamic_shapes=dims)))
    assert model(np.zeros((1, 4), np.float32), np.zeros((1, 4), np.float32))[0].shape == (1, 4)
    with pytest.raises(InputError, match="dimension 0 is 3, expected 2"):
        model(np.zeros((2, 4), np.float32), np.zeros((3, 4), np.float32))


def test_a_cache_of_any_length_stands_before_steps_of_any_number() -> None:
    """Which of the two costs less to permute depends on both sizes; the program has one order for all of them."""

    class Cached(nn.Module):
        def forward(self, past: Tensor, x: Tensor) -> Tensor:
            """Return f32 [1, 2, past + steps, 4] of [1, 2, past, 4] and [1, steps, 2, 4]."""
            return torch.cat([past, x.transpose(1, 2) * 2], 2).relu()

    module = Cached().eval()
    dims = ({2: Dim("past", max=7)}, {1: Dim("steps", max=6)})
    model = load(bytes(export(module, (torch.zeros(1, 2, 3, 4), torch.zeros(1, 4, 2, 4)), dynamic_shapes=dims)))
    for length, steps in ((1, 1), (2, 2), (2, 6), (7, 1), (7, 6)):
        past, x = torch.randn(1, 2, length, 4), torch.randn(1, steps, 2, 4)
        assert np.array_equal(model(past.numpy(), x.numpy())[0], module(past, x).numpy())


def test_short_input_takes_little_memory() -> None:
    """A session begins with what the smallest sizes take, grows with its inputs, and never beyond the ceiling."""
    model = export_dynamic(Decoder(longest=1025), ids(1, 9), {1: Dim("length", min=1, max=1024)})
    session = model.session()
    before = session.memory_bytes
    session(ids(1, 4).numpy())
    short = session.memory_bytes
    session(ids(1, 1024).numpy())
    longest = session.memory_bytes
    assert before <= short < longest / 64
    assert longest == model.memory_ceiling_bytes
    session(ids(1, 4).numpy())
    assert session.memory_bytes == longest


def refusal(function: Callable[..., object], example: Tensor, dims: dict[int, Any]) -> ExportError:
    """Return the error of an export that must fail."""
    with pytest.raises(ExportError) as caught:
        export(Of(function).eval(), (example,), dynamic_shapes=(dims,))
    return caught.value


LENGTH = Dim("length", min=2, max=20)
REFUSED: dict[str, tuple[Callable[..., object], Tensor, dict[int, Any], str]] = {
    "no bound": (lambda _, x: x + 1, torch.zeros(1, 10), {1: Dim("length")}, "give its Dim a max"),
    "torch's own choice": (lambda _, x: x + 1, torch.zeros(1, 10), {1: Dim.AUTO}, "give its Dim a max"),
    "weights": (
        lambda _, x: F.interpolate(x, size=(8, 8), mode="bilinear", antialias=True),
        torch.zeros(1, 3, 10, 9),
        {2: LENGTH},
        "the steps change with the sizes",
    ),
    "a length": (lambda _, x: x * len(x.T), torch.zeros(1, 6), {1: LENGTH}, "take x.shape"),
    "a loop": (lambda _, x: sum(x.unbind(1)), torch.zeros(1, 6), {1: LENGTH}, "specialized it to be a constant (6)"),
    "a branch": (
        lambda _, x: x.relu() if x.shape[1] > 8 else x.tanh(),
        torch.zeros(1, 6),
        {1: LENGTH},
        "fixes or bounds a size that should vary",
    ),
    "a branch at one multiple": (
        lambda _, x: x.relu() if x.shape[1] == 3 else x.tanh(),
        torch.zeros(1, 7),
        {1: 2 * Dim("half", min=1, max=9) + 1},
        "it takes another way at",
    ),
    "a branch on two sizes": (
        lambda _, x: x.relu() if x.shape[0] * x.shape[1] == 12 else x.tanh(),
        torch.zeros(3, 5),
        BOTH,
        "it takes another way at",
    ),
    "a number of two sizes": (
        lambda _, x: x * int(x.shape[0] * x.shape[1] * 0.3),
        torch.zeros(3, 5),
        BOTH,
        "it takes another way at",
    ),
    "no elements at one size": (
        lambda _, x: interleave(F.adaptive_max_pool1d(x.reshape(1, -1, x.shape[-1]), 2)),
        torch.zeros(5, 5),
        {0: (SQUARE := Dim("m", min=1, max=11)), 1: SQUARE},
        "its result has no elements",
    ),
    "a part without elements at one size": (
        lambda _, x: torch.fft.fft(x, dim=1).real,
        torch.zeros(2, 5, 5),
        {1: SQUARE, 2: SQUARE},
        "a tensor that it works with has no elements",
    ),
    "too short for its kernel": (
        lambda _, x: F.conv1d(x, torch.ones(2, 2, 4)),
        torch.zeros(1, 2, 6),
        {2: LENGTH},
        "fixes or bounds a size that should vary",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_vary_is_reported_in_a_sentence(case: str) -> None:
    """No bound, another structure or other constants at other sizes: one finding that says what to do."""
    function, example, dims, words = REFUSED[case]
    (finding,) = refusal(function, example, dims).findings
    assert words in finding.suggestion
    assert "If you're using" not in finding.suggestion


def test_classes_beyond_a_size_that_varies_end_the_run() -> None:
    """As eager refuses them."""
    module = Of(lambda _, x: F.one_hot(x, x.shape[0])).eval()
    model = load(bytes(export(module, (torch.tensor([0, 1, 2]),), dynamic_shapes=({0: LITTLE},))))
    for classes in ([0, 2], [-1, 0]):
        with pytest.raises(InputError):
            model(np.array(classes))


def test_classes_of_another_type_than_eager_takes_are_refused() -> None:
    """By its name."""
    example = torch.tensor([0, 1, 2], dtype=torch.int32)
    (finding,) = refusal(lambda _, x: F.one_hot(x, x.shape[0]), example, {0: LITTLE}).findings
    assert "one_hot is of int64 tensors, not of torch.int32" in finding.suggestion


def test_steps_that_change_with_the_size_are_refused() -> None:
    """Names the first step that is another, with both sizes."""
    tanh, relu = (
        capture(Of(function).eval(), (rows(3, 5),), (BOTH,))
        for function in (lambda _, x: x.tanh(), lambda _, x: x @ x.mT)
    )
    with pytest.raises(ExportError) as caught:
        infer_symbolic_shapes(tanh, lambda sizes: lower(tanh if sizes["length"] > 10 else relu, sizes))
    (finding,) = caught.value.findings
    assert finding.op == "aten.tanh.default"
    assert "the steps change with the sizes: unary at {'batch': 8, 'length': 40}" in finding.suggestion


def test_index_that_zeros_do_not_have_is_no_refusal() -> None:
    """Ids from 1 on: no size is refused for values, which are the caller's."""
    module = Of(lambda part, x: part.table(x - 1), table=nn.Embedding(5, 3)).eval()
    model = export_dynamic(module, torch.ones(3, dtype=torch.int64), {0: Dim("n", min=1, max=7)})
    check(module, model, [torch.tensor([5]), torch.tensor([1, 2, 3, 4, 5])])


@pytest.mark.thorough
def test_same_module_gives_the_same_bytes_whatever_the_example() -> None:
    """The sizes of the example are no part of the program."""
    module = Decoder()
    one, other = (export(module.eval(), (example,), dynamic_shapes=(BOTH,)) for example in (ids(3, 5), ids(8, 40)))
    assert bytes(one) == bytes(other)


@pytest.mark.parametrize(
    ("addend", "size", "allowed"), [(0, 4, "multiples of 3 plus 0"), (1, 6, "multiples of 3 plus 1")]
)
def test_size_that_is_no_multiple_is_refused_by_name(addend: int, size: int, allowed: str) -> None:
    """The dimension, its value and what it may be; the session goes on."""
    dim = 3 * Dim("third", min=1, max=9)
    model = export_dynamic(Of(lambda _, x: x + 1), torch.zeros(1, 6 + addend), {1: dim + addend if addend else dim})
    session = model.session()
    with pytest.raises(InputError) as caught:
        session(np.zeros((1, size), np.float32))
    name = "3*third" + ("+1" if addend else "")
    assert f"dimension 1 ({name}) is {size}, allowed are {allowed}" in str(caught.value)
    assert session(np.zeros((1, 3 + addend), np.float32))[0].shape == (1, 3 + addend)


def test_dim_that_only_a_sum_names_begins_where_it_says() -> None:
    """Torch takes it that the Dim itself is 2 or more."""
    module = Of(lambda _, x: x.cumsum(1))
    model = export_dynamic(module, torch.zeros(1, 5), {1: Dim("n", min=1, max=9) + 1})
    check(module, model, [torch.randn(1, n) for n in (2, 10)])
