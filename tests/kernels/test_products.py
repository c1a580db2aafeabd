"""Linear, matmul, attention and recurrent layers agree with torch, with the same bits on every instruction set."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from alcove.runtime import _native, load
from alcove.runtime.format.attributes import LinearAttributes
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import PLAIN_LINEAR, Assembly
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

pytestmark = pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")

RANDOM_SEED = 31
RTOL, ATOL = 1e-4, 1e-5

Floats = np.ndarray[Any, np.dtype[np.float32]]


def floats(random: np.random.Generator, *shape: int) -> Floats:
    """Normal numbers."""
    return random.standard_normal(shape, np.float32)


def linear_case(
    random: np.random.Generator, shape: tuple[int, ...], n: int, attributes: LinearAttributes
) -> tuple[bytes, list[Any], list[Any]]:
    """A linear with its inputs and expected outputs."""
    build = Assembly()
    weight, bias, x = floats(random, n, shape[-1]), floats(random, n), floats(random, *shape)
    x.reshape(-1)[0] = np.nan
    out = (*shape[:-1], n)
    argument, expected = [x], torch.nn.functional.linear(*map(torch.from_numpy, (x, weight, bias)))
    inputs = [build.input("x", DType.F32, shape), build.panels("weight", weight, bias)]
    if attributes.has_residual:
        argument.append(floats(random, *out))
        inputs.append(build.input("residual", DType.F32, out))
        expected += torch.from_numpy(argument[1])
    if attributes.activation:
        expected = expected.clamp(attributes.low, attributes.high)
    build.output("y", build.op("linear", inputs, (DType.F32, out), attributes=attributes)[0])
    return build.program(), argument, [expected]


def matmul_case(
    random: np.random.Generator, left: tuple[int, ...], right: tuple[int, ...], *, transposed: bool
) -> tuple[bytes, list[Any], list[Any]]:
    """A matmul with its inputs and expected outputs; `right` is [..., k, n] in both forms."""
    a, b = floats(random, *left), floats(random, *right)
    expected = torch.from_numpy(a) @ torch.from_numpy(b)
    if transposed:
        b = np.ascontiguousarray(np.swapaxes(b, -1, -2))
    build = Assembly()
    inputs = [build.input("a", DType.F32, a.shape), build.input("b", DType.F32, b.shape)]
    scratch = min(-(-right[-1] // 16), 16) * (right[-2] + 1) * 64
    outputs = (DType.F32, tuple(expected.shape)), (DType.U8, (scratch,))
    build.output("y", build.op("matmul", inputs, *outputs, attributes=(int(transposed),))[0])
    return build.program(), [a, b], [expected]


def attention_case(
    random: np.random.Generator,
    query: tuple[int, ...],
    key: tuple[int, ...],
    value: tuple[int, ...],
    mask: Any = None,
    *,
    causal: bool = False,
    masked: float = -np.inf,
    empty_is_nan: bool = False,
) -> tuple[bytes, list[Any], list[Any]]:
    """An attention with its inputs and expected outputs."""
    arrays: list[Any] = [floats(random, *query), floats(random, *key), floats(random, *value)]
    q, k, v = map(torch.from_numpy, arrays)
    grouped = len(query) > 2 and query[-3] != key[-3]
    torch_mask = None if mask is None else torch.from_numpy(mask)
    expected = scaled_dot_product_attention(q, k, v, torch_mask, is_causal=causal, scale=0.3, enable_gqa=grouped)
    if empty_is_nan or masked != -np.inf:
        scores = q @ k.mT * 0.3
        if torch_mask is not None:
            is_bool = torch_mask.dtype is torch.bool
            scores = scores.masked_fill(~torch_mask, masked) if is_bool else scores + torch_mask
        expected = scores.softmax(-1) @ v
    build = Assembly()
    inputs = [build.input(name, DType.F32, x.shape) for name, x in zip("qkv", arrays, strict=True)]
    if mask is not None:
        inputs.append(build.input("mask", DType.BOOL if mask.dtype == np.bool_ else DType.F32, mask.shape))
        arrays.append(mask)
    length, width, span, columns = query[-2], query[-1], key[-2], value[-1]
    panels = -(-span // 16) * (width + 1) * 16 + -(-columns // 16) * (span + 1) * 16
    outputs = (DType.F32, tuple(expected.shape)), (DType.U8, ((panels + min(length, 64) * span) * 4,))
    attributes = (0.3, int(causal), masked, int(empty_is_nan))
    build.output("y", build.op("attention", inputs, *outputs, attributes=attributes)[0])
    return build.program(), arrays, [expected]


def recurrent_case(
    random: np.random.Generator, kind: str, sizes: tuple[int, int, int, int], **options: Any
) -> tuple[bytes, list[Any], list[Any]]:
    """A layer with its inputs and expected outputs; sizes are steps, batch, features, hidden."""
    steps, batch, features, hidden = sizes
    reverse = options.pop("reverse", False)
    layer = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[kind](features, hidden, **options)
    width = options.get("proj_size", 0) or hidden
    gates = {"rnn": 1, "gru": 3, "lstm": 4}[kind]
    x, state, cell = floats(random, steps, batch, features), floats(random, batch, width), floats(random, batch, hidden)
    states = torch.from_numpy(state)[None]
    start = (states, torch.from_numpy(cell)[None]) if kind == "lstm" else states
    with torch.no_grad():
        series = torch.from_numpy(x)
        y, last = layer(series.flip(0) if reverse else series, start)
    y = y.flip(0) if reverse else y
    expected = [y, last[0][0], last[1][0]] if kind == "lstm" else [y, last[0]]
    weights = {name: parameter.detach().numpy() for name, parameter in layer.named_parameters()}

    build = Assembly()
    inputs = [build.input("x", DType.F32, x.shape), build.input("h", DType.F32, state.shape)]
    if kind == "lstm":
        inputs.append(build.input("c", DType.F32, cell.shape))
    inputs += [
        build.panels(f"w_{side}", weights[f"weight_{side}_l0"], weights[f"bias_{side}_l0"]) for side in ("ih", "hh")
    ]
    rows = min(steps * batch, max(32, batch)) + batch
    scratch = 4 * hidden * (gates * rows + (batch if width != hidden else 0))
    if width != hidden:
        inputs.append(build.panels("projection", weights["weight_hr_l0"], np.zeros(width, np.float32)))
    outputs = [(DType.F32, tuple(value.shape)) for value in expected]
    attributes = (int(reverse), int(options.get("nonlinearity") == "relu")) if kind == "rnn" else (int(reverse),)
    result = build.op(kind, inputs, *outputs, (DType.U8, (scratch,)), attributes=attributes)
    for index in range(len(expected)):
        build.output(f"y{index}", result[index])
    return build.program(), [x, state, cell][: 3 if kind == "lstm" else 2], expected


def all_cases() -> Iterator[tuple[str, tuple[bytes, list[Any], list[Any]]]]:
    """Sizes around panels, blocks and row tiles; every form."""
    random = np.random.default_rng(RANDOM_SEED)
    torch.manual_seed(RANDOM_SEED)
    for shape in ((3,), (5, 4), (2, 3, 7), (1, 1, 9, 1)):
        for n in (1, 16, 31, 40):
            for attributes in (
                PLAIN_LINEAR,
                LinearAttributes(has_residual=1, activation=0, low=0.0, high=0.0),
                LinearAttributes(has_residual=0, activation=1, low=0.0, high=np.inf),
                LinearAttributes(has_residual=1, activation=1, low=-0.5, high=0.25),
            ):
                yield f"linear {shape} {n} {attributes}", linear_case(random, shape, n, attributes)
    shapes = [
        ((1, 1), (1, 1)),
        ((3, 5), (5, 17)),
        ((9, 40), (40, 300)),
        ((4, 2, 3), (3, 5)),
        ((2, 3), (4, 3, 5)),
        ((2, 1, 4, 6), (3, 6, 33)),
        ((3, 1, 2, 5), (1, 4, 5, 18)),
        ((1, 7), (2, 2, 7, 260)),
    ]
    for left, right in shapes:
        for transposed in (False, True):
            yield f"matmul {left} {right} {transposed}", matmul_case(random, left, right, transposed=transposed)
    bools = random.random((70, 19)) < 0.5
    bools[3] = False
    minus = np.where(bools, np.float32(0), np.float32(-np.inf))
    heads = (2, 70, 5), (2, 19, 5), (2, 19, 7)
    for mask, masked in ((bools, -1e4), (bools, 0.25), (bools, -np.inf), (minus, -np.inf), (None, -np.inf)):
        case = attention_case(random, *heads, mask, masked=masked, empty_is_nan=True)
        yield f"attention by hand {None if mask is None else mask.dtype} {masked}", case
    yield "attention with a number for a mask", attention_case(random, *heads, bools, masked=-2.0)
    for mask in (None, bools, minus, bools[:1], minus[:, :1]):
        kind = "none" if mask is None else f"{mask.dtype} {mask.shape}"
        yield f"attention mask {kind}", attention_case(random, (2, 3, 70, 8), (2, 3, 19, 8), (2, 3, 19, 17), mask)
    batched = random.random((2, 1, 5, 6)) < 0.7
    yield "attention batch mask", attention_case(random, (2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 4), batched)
    yield "attention groups", attention_case(random, (2, 6, 5, 4), (2, 3, 7, 4), (2, 3, 7, 9))
    yield "attention one group", attention_case(random, (2, 6, 5, 4), (2, 1, 7, 4), (2, 1, 7, 9))
    yield "attention causal", attention_case(random, (3, 9, 4), (3, 6, 4), (3, 6, 4), causal=True)
    yield "attention flat", attention_case(random, (5, 4), (6, 4), (6, 3))
    for kind in ("rnn", "gru", "lstm"):
        for reverse in (False, True):
            for sizes in ((1, 1, 1, 1), (40, 1, 5, 17), (7, 9, 3, 16), (3, 40, 8, 33)):
                yield f"{kind} {sizes} {reverse}", recurrent_case(random, kind, sizes, reverse=reverse)
    yield "rnn relu", recurrent_case(random, "rnn", (6, 2, 3, 5), nonlinearity="relu")
    yield "lstm projected", recurrent_case(random, "lstm", (6, 2, 3, 20), proj_size=7)


@pytest.fixture(scope="module")
def cases() -> "dict[str, tuple[bytes, list[Any], list[Any]]]":
    """All of them: program, inputs, what torch answers."""
    return dict(all_cases())


def test_products_agree_with_torch(cases: "dict[str, tuple[bytes, list[Any], list[Any]]]") -> None:
    """Every output of every case, NaN where torch has one."""
    for name, (program, inputs, expected) in cases.items():
        for ours, theirs in zip(load(program)(*inputs), expected, strict=True):
            np.testing.assert_allclose(ours, theirs.numpy(), rtol=RTOL, atol=ATOL, err_msg=name)


def test_every_instruction_set_gives_the_bits_of_the_reference(
    cases: "dict[str, tuple[bytes, list[Any], list[Any]]]", run_with: Callable[..., Any]
) -> None:
    """Bit for bit, for each instruction set that this machine has."""
    runs = {name: (program, inputs) for name, (program, inputs, _) in cases.items()}
    reference = run_with("scalar", runs)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, runs)
        differ = [name for name in cases if answers[name] != reference[name]]
        assert not differ, f"{isa}: {differ[:10]}"
