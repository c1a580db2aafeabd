"""Functions give what eager gives for zeros of both signs, infinities, NaN, subnormal and huge numbers.

Differences are those of docs/coverage.md and no other: each allowed one names its line of that page.
"""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import export, load
from torch import Tensor, nn

from benchmarks.coverage.differences import DIFFERENCES
from benchmarks.coverage.report import difference_lines

MAX: Final = 3.4028235e38
SPECIAL: Final = np.array(
    [
        *(0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, -1.1754942e-38, 1.1754944e-38),
        *(MAX, -MAX, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 1e30, -1e30, 1e-30, -1e-30, 88.8, -88.8, 104.0, -104.0),
        *(3.0, -3.0, 6.0, 20.5, -20.5, 1.5, -1.5, 2.5, -2.5),
    ],
    np.float32,
)
RELATIVE: Final = 4e-6
TOGETHER: Final = 24  # functions of one program
UNARY: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("neg", "abs", "sign", "sgn", "square", "reciprocal", "sqrt", "rsqrt", "floor", "ceil", "trunc", "round"),
            *("frac", "exp", "exp2", "expm1", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
            *("tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "isnan", "isinf", "isfinite", "signbit"),
            *("log1p", "sinh", "cosh", "nan_to_num", "isposinf", "isneginf", "sinc", "angle", "deg2rad", "logit"),
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            *(
                "logsigmoid",
                "softplus",
                "relu",
                "relu6",
                "hardtanh",
                "elu",
                "selu",
                "celu",
                "silu",
                "mish",
                "hardswish",
            ),
            *("hardsigmoid", "hardshrink", "tanhshrink", "softsign", "leaky_relu", "gelu", "softshrink"),
        )
    },
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu written out": lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5)),
    "hardtanh from 0": lambda x: F.hardtanh(x, 0.0, 1.0),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp from 0": lambda x: x.clamp(min=0.0),
    "clamp to 0": lambda x: x.clamp(max=0.0),
    "clamp from -0": lambda x: x.clamp(min=-0.0),
    "clamp crossed": lambda x: x.clamp(1.0, -1.0),
    "leaky_relu 0": lambda x: F.leaky_relu(x, 0.0),
    "leaky_relu -0.1": lambda x: F.leaky_relu(x, -0.1),
    "hardshrink 0": lambda x: F.hardshrink(x, 0.0),
    "threshold": lambda x: F.threshold(x, 0.0, 0.0),
    "threshold 1": lambda x: F.threshold(x, 1.0, 20.0),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.25])),
    "relu of a sum": lambda x: F.relu(x + x),
    "relu twice": lambda x: F.relu6(F.relu(x)),
    "relu of a product": lambda x: F.relu(x * 2.0),
    "where": lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
    "masked": lambda x: x.masked_fill(x < 0, -0.0),
    "powers": lambda x: torch.stack([x**p for p in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5)]),
    "of numbers": lambda x: torch.stack([2**x, 0.0**x, 1 - x, x + 0, x - 0.0, x * 0, x * -1, x / 1, x / 0.0, x / 3]),
    "remainders": lambda x: torch.stack([torch.remainder(x, 2.0), torch.remainder(x, -2.0), torch.fmod(x, 2.0)]),
    "quotients": lambda x: torch.stack([torch.div(x, 2, rounding_mode=how) for how in ("floor", "trunc")]),
    "log_softmax": lambda x: torch.log_softmax(torch.stack([x, torch.zeros_like(x)], -1), -1),
    "sums of one": lambda x: torch.stack(
        [x[:, None].sum(1), x[:, None].mean(1), x[:, None].amax(1), x[:, None].prod(1)]
    ),
    "norm of one": lambda x: x[:, None].norm(dim=1),
    "softmax": lambda x: torch.softmax(torch.stack([x, torch.zeros_like(x)], -1), -1),
}


def pair(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Return a function of rows of two."""
    return lambda a, b: function(torch.stack([a, b], -1))


BINARY: Final[dict[str, Callable[[Tensor, Tensor], Tensor]]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *("add", "sub", "mul", "div", "pow", "minimum", "maximum", "fmin", "fmax", "atan2", "hypot", "copysign"),
            *("eq", "ne", "lt", "le", "gt", "ge", "logaddexp", "xlogy", "heaviside", "floor_divide", "logical_and"),
            *("fmod", "remainder"),
        )
    },
    "trunc_div": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "clamp min": lambda a, b: torch.clamp(a, min=b),
    "clamp max": lambda a, b: torch.clamp(a, max=b),
    "where": lambda a, b: torch.where(a > b, a, b),
    "prelu": lambda a, b: torch.where(a > 0, a, a * b),
    "relu of a sum": lambda a, b: F.relu(a + b),
    "relu6 of a product": lambda a, b: F.relu6(a * b),
    "greatest": pair(lambda x: x.amax(-1)),
    "least": pair(lambda x: x.amin(-1)),
    "max": pair(lambda x: x.max(-1).values),
    "argmax": pair(lambda x: x.argmax(-1)),
    "argmin": pair(lambda x: x.argmin(-1)),
    "sum": pair(lambda x: x.sum(-1)),
    "mean": pair(lambda x: x.mean(-1)),
    "prod": pair(lambda x: x.prod(-1)),
    "sort": pair(lambda x: x.sort(dim=-1, stable=True).values),
    "argsort": pair(lambda x: x.sort(dim=-1, stable=True).indices),
    "topk": pair(lambda x: x.topk(1, -1).values),
    "cummax": pair(lambda x: x.cummax(-1).indices),
    "cumsum": pair(lambda x: x.cumsum(-1)),
    "logsumexp": pair(lambda x: torch.logsumexp(x, -1)),
    "log_softmax": pair(lambda x: torch.log_softmax(x, -1)),
    "max_pool1d": pair(lambda x: F.max_pool1d(x[:, None], 2)[:, 0, 0]),
    "median": pair(lambda x: x.median(-1).values),
    "complex abs": lambda a, b: torch.complex(a, b).abs(),
    "complex angle": lambda a, b: torch.complex(a, b).angle(),
    "addcmul": lambda a, b: torch.addcmul(a, a, b),
    "sub alpha": lambda a, b: torch.sub(a, b, alpha=2),
}
ALLOWED: Final[dict[str, str]] = {
    "gelu": "gelu",
    "gelu tanh": "gelu",
    "softshrink": "softshrink",
    "softmax": "softmax",
    "sinh": "sinh, cosh",
    "cosh": "sinh, cosh",
    "fmod": "fmod, remainder",
    "remainder": "fmod, remainder",
    "norm of one": "norm",
    "addcmul": "sums of products",
    "sub alpha": "sums of products",
    "log1p": "subnormal numbers",
}
"""Functions that differ somewhere, with their line of the page."""


class Of(nn.Module):
    """A module of some functions of the same inputs, an output each."""

    def __init__(self, functions: Sequence[Callable[..., Tensor]]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, x: Tensor, y: Tensor | None = None) -> tuple[Tensor, ...]:
        """Run."""
        return tuple(each(x) if y is None else each(x, y) for each in self.functions)


def differences(functions: Sequence[Callable[..., Tensor]], *inputs: Any) -> list[list[str]]:
    """Return where a program and eager differ, for each function: values, or the sign of a zero.

    One export for many of them: it takes longer than any of the functions.
    """
    tensors = tuple(torch.from_numpy(np.ascontiguousarray(each)) for each in inputs)
    outputs: list[Any] = []
    for start in range(0, len(functions), TOGETHER):
        program = load(bytes(export(Of(functions[start : start + TOGETHER]).eval(), tensors)))
        outputs += program(*(each.numpy() for each in tensors))
    with torch.no_grad():
        eager = [function(*(each.clone() for each in tensors)).numpy() for function in functions]
    return [differing(ours, theirs) for ours, theirs in zip(outputs, eager, strict=True)]


def differing(ours: Any, theirs: Any) -> list[str]:
    """Return where two arrays differ."""
    assert ours.dtype == theirs.dtype
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) <= RELATIVE * np.abs(b) + 1e-44)
    same = (a == b) | (np.isnan(a) & np.isnan(b)) | near
    if ours.dtype == np.float32:
        same &= np.isnan(b) | (np.signbit(ours) == np.signbit(theirs))
    return [f"{tuple(place)}: {ours[tuple(place)]!r}, eager {theirs[tuple(place)]!r}" for place in np.argwhere(~same)]


@cache
def of_one() -> dict[str, list[str]]:
    """Return the differences of every function of one value."""
    return dict(zip(UNARY, differences(list(UNARY.values()), np.tile(SPECIAL, 4)), strict=True))


@cache
def of_two() -> dict[str, list[str]]:
    """Return the differences of every function of two values, of every pair."""
    a, b = np.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    return dict(zip(BINARY, differences(list(BINARY.values()), a.reshape(-1), b.reshape(-1)), strict=True))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_special_value_are_as_eager(name: str) -> None:
    """By vectors and by what is left behind them."""
    found = of_one()[name]
    assert bool(found) is (name in ALLOWED), found[:5]


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_special_values_are_as_eager(name: str) -> None:
    """Every pair."""
    found = of_two()[name]
    assert bool(found) is (name in ALLOWED), found[:5]


@pytest.mark.parametrize("function", [F.relu, F.relu6, nn.Hardtanh(0.0, 2.0), F.hardswish, F.hardsigmoid])
def test_what_is_fused_into_a_product_keeps_the_sign_of_zero(function: Callable[[Tensor], Tensor]) -> None:
    """-0 out of a linear whose bias is -0, and infinities."""
    layer = nn.Linear(1, 3)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0], [-1.0], [0.0]]))
        layer.bias.copy_(torch.tensor([-0.0, -0.0, -0.0]))
    module = nn.Sequential(layer)
    x = SPECIAL[np.isfinite(SPECIAL) & (SPECIAL != 0)][:, None]
    assert differences([lambda t: function(module(t))], x) == [[]]


def test_the_page_says_where_values_differ() -> None:
    """Every line of the code is one of the page, and every allowed difference is on it."""
    page = (Path(__file__).resolve().parents[4] / "docs/coverage.md").read_text(encoding="utf-8")
    assert "\n".join(difference_lines()) in page
    assert set(ALLOWED.values()) <= set(DIFFERENCES)
