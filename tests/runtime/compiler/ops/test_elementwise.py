"""Exported elementwise functions agree with torch: every one, in every type, broadcast, at NaN and infinities."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own custom
from alcove.runtime import ExportError, InputError, export, load
from torch import Tensor, nn

Agrees = Callable[..., None]
NAN, INF = float("nan"), float("inf")
SPECIALS = [NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40, -1e-40, 1e30, -1e30, 88.0, -88.0, -104.0, 20.5]
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)

FUNCTIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    **{
        name: getattr(torch, name)
        for name in (
            *(
                "abs",
                "acos",
                "acosh",
                "angle",
                "asin",
                "asinh",
                "atan",
                "atanh",
                "ceil",
                "cos",
                "cosh",
                "deg2rad",
                "erf",
            ),
            *("erfc", "exp", "exp2", "expm1", "floor", "frac", "isfinite", "isinf", "isnan", "isneginf", "isposinf"),
            *("log", "log10", "log1p", "log2", "logical_not", "nan_to_num", "neg", "positive", "rad2deg", "reciprocal"),
            *("round", "rsqrt", "sgn", "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "sqrt", "square", "tan"),
            *("tanh", "trunc"),
        )
    },
    **{
        name: getattr(F, name)
        for name in (
            *("celu", "elu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish"),
            *("relu", "relu6", "selu", "silu", "softplus", "softshrink", "softsign", "tanhshrink"),
        )
    },
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "celu -0.2": lambda x: F.celu(x, 0.7),
    "elu 1.3": lambda x: F.elu(x, 1.3),
    "hardtanh": lambda x: F.hardtanh(x, -0.3, 2.0),
    "leaky_relu 0.3": lambda x: F.leaky_relu(x, 0.3),
    "softplus 2": lambda x: F.softplus(x, 2.0, 5.0),
    "softshrink 1": lambda x: F.softshrink(x, 1.0),
    "hardshrink 1": lambda x: F.hardshrink(x, 1.0),
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "rrelu": lambda x: F.rrelu(x, training=False),
    "round decimals": lambda x: torch.round(x, decimals=2),
    "nan_to_num given": lambda x: torch.nan_to_num(x, 1.5, 7.0, -7.0),
    "logit": lambda x: torch.logit(x, 1e-3),
    "clamp": lambda x: x.clamp(-1, 2),
    "clamp min": lambda x: x.clamp(min=0.5),
    "clamp max": lambda x: x.clamp(max=-0.5),
    "clamp crossed": lambda x: x.clamp(2, 1),
}
"""Of one float32."""


def mix(count: int = 700) -> Tensor:
    """Return numbers of all sizes and every special value."""
    torch.manual_seed(3)
    return torch.cat([torch.tensor(SPECIALS), torch.randn(count), torch.randn(count) * 30, torch.rand(count)])


@pytest.mark.parametrize("start", range(0, len(FUNCTIONS), 20))
def test_functions_of_one_float(agrees: Agrees, start: int) -> None:
    """On numbers of all sizes; a gelu of infinities is compared elsewhere, eager's own depends on the machine."""
    agrees(dict(list(FUNCTIONS.items())[start : start + 20]), mix())


def test_gelu_of_finite_numbers(agrees: Agrees) -> None:
    """Both forms; eager's exact one turns infinities into NaN on some processors and not on others."""
    x = mix()
    agrees({"gelu": F.gelu}, x[x.isfinite() & (x.abs() < 1e20)])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_one_integer(agrees: Agrees, dtype: torch.dtype) -> None:
    """Integers stay integers where torch keeps them, and are cast where it casts."""
    extremes = torch.iinfo(dtype)
    x = torch.tensor([extremes.min, extremes.max, 0, 1, 2, 3, 100], dtype=dtype)
    same = (
        "abs",
        "ceil",
        "floor",
        "neg",
        "positive",
        "round",
        "sign",
        "square",
        "trunc",
        "relu",
        "bitwise_not",
        "isnan",
    )
    cast = (
        "sqrt",
        "exp",
        "sigmoid",
        "tanh",
        "erf",
        "log1p",
        "atan",
        "isfinite",
        "isinf",
        "signbit",
        "logical_not",
        "rsqrt",
    )
    agrees({name: getattr(torch, name) for name in (*same, *cast)}, x)
    agrees(
        {
            "clamp": lambda x: (x.clamp(1, 3), x.clamp(min=2), x.clamp(max=50)),
            "clamp by floats": lambda x: x.clamp(0.5, 2.5),
            "hardtanh": lambda x: F.relu6(x) if dtype is not torch.uint8 else x.clamp(0, 6),
        },
        x,
    )


def test_functions_of_bools(agrees: Agrees) -> None:
    """Truth is inverted, joined, and counts as 0 and 1."""
    x = torch.tensor([[True, False, True, False]])
    agrees(
        {
            "not": lambda x, y: (x.logical_not(), x.bitwise_not(), ~y),
            "bits": lambda x, y: (x & y, x | y, x ^ y),
            "logic": lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y)),
            "arithmetic": lambda x, y: (x + y, x * y, torch.maximum(x, y), torch.minimum(x, y)),
            "numbers": lambda x, y: (x + 1, x * 2.5, x / y.logical_not(), x.float() - 0.5),
            "comparisons": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y, x == 1),
            "functions": lambda x, y: (x.exp(), y.sigmoid(), x.sign(), x.isnan(), x.isfinite()),
        },
        x,
        torch.tensor([[True], [False]]),
    )


OF_TWO: Mapping[str, Callable[[Tensor, Tensor], Any]] = {
    "sums": lambda x, y: (x + y, x - y, torch.add(x, y, alpha=3), torch.sub(x, y, alpha=2), torch.rsub(x, y)),
    "products": lambda x, y: x * y,
    "extremes": lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), torch.fmax(x, y), torch.fmin(x, y)),
    "comparisons": lambda x, y: (x == y, x != y, x < y, x <= y, x > y, x >= y),
    "logic": lambda x, y: (torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y)),
    "quotient": lambda x, y: (x / y, torch.div(x, y)),
    "angles": lambda x, y: (torch.atan2(x, y), torch.copysign(x, y)),
    "heaviside": torch.heaviside,
}
"""Of two numbers of one type."""

OF_TWO_FLOATS: Mapping[str, Callable[[Tensor, Tensor], Any]] = {
    "division": lambda x, y: (torch.div(x, y, rounding_mode="trunc"), torch.hypot(x, y)),
    "powers": lambda x, y: (torch.pow(x, y), x**2, x**3, x**0.5, x**-0.5, x**-1, x**-2, x**1.7, x**0, x**-3),
    "powers of": lambda x, y: (2**x, 2.5**y, torch.pow(torch.tensor(3.0), x)),
    "mixtures": lambda x, y: (
        torch.lerp(x, y, 0.3),
        torch.addcmul(x, x, y, value=2),
        torch.addcdiv(x, y, x, value=0.5),
    ),
    "logarithms": lambda x, y: (torch.logaddexp(x, y), torch.logaddexp2(x, y), torch.xlogy(x, y)),
    "scalars": lambda x, y: (x + 1, 1 - x, x * 0.3, x / 7, 1 / y, torch.rsub(x, 2, alpha=3), x - 0.1),
    "tests": lambda x, y: (x > 0.5, x == 1, x <= -1, x != 2.5, x > 0, x >= y),
    "clamps": lambda x, y: (torch.clamp(x, min=y), torch.clamp(x, max=y), torch.clamp(x, y, x)),
    "where": lambda x, y: (torch.where(x > y, x, y), torch.where(x > 0, x, 0.0), x.masked_fill(y < 0, -1e9)),
    "ldexp": lambda x, y: torch.ldexp(x, y.clamp(-3, 3).round()),
    "float_power": lambda x, y: F.prelu(x.reshape(1, 1, -1), torch.tensor([0.3])) + y.reshape(1, 1, -1),
}


def test_functions_of_two_floats(agrees: Agrees) -> None:
    """Every pair of special values, and numbers of ordinary size."""
    specials = torch.tensor(SPECIALS)
    x = torch.cat([specials.repeat_interleave(len(SPECIALS)), torch.randn(500)])
    y = torch.cat([specials.repeat(len(SPECIALS)), torch.randn(500) * 3])
    agrees(OF_TWO, x, y)
    agrees(OF_TWO_FLOATS, x, y)


def test_rounded_quotients_and_rests_of_floats(agrees: Agrees) -> None:
    """Where the quotient is of moderate size, as eager's own rest is not exact beyond."""
    torch.manual_seed(4)
    x, y = torch.randn(2000) * 20, torch.randn(2000) * 3
    specials = torch.tensor([0.0, -0.0, INF, -INF, NAN, 1.0, -3.0])
    x = torch.cat([x, specials.repeat_interleave(7)])
    y = torch.cat([y, specials.repeat(7)])
    agrees(
        {
            "remainder": lambda x, y: (torch.remainder(x, y), x % 3, x % -2.5, torch.remainder(5.0, y)),
            "fmod": lambda x, y: (torch.fmod(x, y), torch.fmod(x, 3)),
            "floor": lambda x, y: (torch.div(x, y, rounding_mode="floor"), x // 2, torch.floor_divide(x, y)),
        },
        x,
        y,
    )


@pytest.mark.parametrize("dtype", INTEGERS)
def test_functions_of_two_integers(agrees: Agrees, dtype: torch.dtype) -> None:
    """Sums wrap, quotients are rounded as asked, shifts beyond the width leave nothing."""
    info = torch.iinfo(dtype)
    values = torch.tensor([info.min, info.max, 0, 1, 2, 3, 5, 7, 100], dtype=dtype)
    if info.min < 0:
        values = torch.cat([values, torch.tensor([-1, -2, -7], dtype=dtype)])
    x, y = values.reshape(-1, 1), values.reshape(1, -1)
    agrees({name: function for name, function in OF_TWO.items() if name != "angles"}, x, y)
    agrees(
        {
            "bits": lambda x, y: (x & y, x | y, x ^ y, x & 3, x | 1, x ^ 7),
            "shifts": lambda x, y: (x << 1, x >> 1, x << 3, x >> 7),
            "powers": lambda x, y: (x**2, x**3, x**5, x**0, x**1.5),
            "scalars": lambda x, y: (x + 1, x * 3, 2 - x, x / 2, x + 0.5, x * 1.5, x > 2, x == 2.0, x < 2.5),
        },
        x,
        y,
    )
    divisors = values[values != 0].reshape(1, -1)
    if info.min < 0:  # eager traps or raises for the least by -1
        divisors = divisors[divisors != -1].reshape(1, -1)
    agrees(
        {
            "floor": lambda x, y: (torch.div(x, y, rounding_mode="floor"), x // y, x // 3, torch.floor_divide(x, y)),
            "trunc": lambda x, y: (torch.div(x, y, rounding_mode="trunc"), torch.div(x, 3, rounding_mode="trunc")),
            "rests": lambda x, y: (torch.remainder(x, y), torch.fmod(x, y), x % 3, torch.fmod(x, 5)),
        },
        x,
        divisors,
    )


TYPES = (torch.float32, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool)


@pytest.mark.parametrize("first", TYPES)
def test_operands_of_two_types_are_promoted(agrees: Agrees, first: torch.dtype) -> None:
    """Each pair of types; scalars count less than arrays, numbers less than both."""
    x = torch.tensor([[0, 1, 2, 3]]).to(first)
    for second in TYPES:
        if {first, second} == {torch.int8, torch.uint8}:  # int16, which no program holds
            continue
        y = torch.tensor([[1], [0], [5]]).to(second)
        agrees(
            {
                "sum": lambda x, y: (x + y, x * y),
                "compare": lambda x, y: (x < y, x == y),
                "where": lambda x, y: torch.where(x > 1, x, y),
                "scalar": lambda x, y: (x + y[0, 0], x[0, 1] * y, x == y[2, 0]),
                "quotient": lambda x, y: x / (y + 2),
                "pow": lambda x, y: torch.pow(x + 1, y + 1),
            },
            x,
            y,
        )


@pytest.mark.parametrize("first", TYPES)
def test_casts_between_all_types(agrees: Agrees, first: torch.dtype) -> None:
    """`to` in every direction, within the range of both."""
    x = torch.tensor([0, 1, 2, 100]).to(first)
    agrees({str(kind): lambda x, kind=kind: x.to(kind) for kind in TYPES if kind is not first}, x)
    agrees({"type_as": lambda x: (x.float().type_as(x), x.long() * 2, x.bool().int() + 1)}, x)


def test_casts_of_floats_that_no_integer_holds(agrees: Agrees) -> None:
    """As eager on x86: toward zero, NaN and beyond the range the least integer, small types by their low bits."""
    x = torch.tensor([NAN, INF, -INF, 1.9, -1.9, 300.0, -129.0, 1e10, -3e9, 1e30])
    agrees({str(kind): lambda x, kind=kind: x.to(kind) for kind in (torch.int32, torch.int64, torch.bool)}, x)


SHAPES = [
    ((3, 1, 5), (4, 1)),
    ((), (2, 3)),
    ((1,), (7,)),
    ((2, 300), (300,)),
    ((2, 1, 3, 1, 2, 1, 5), (2, 4, 1, 2, 2, 1, 1)),
]


@pytest.mark.parametrize(("first", "second"), SHAPES)
def test_shapes_are_broadcast(agrees: Agrees, first: tuple[int, ...], second: tuple[int, ...]) -> None:
    """Any ranks, on either side, and three operands."""
    torch.manual_seed(5)
    x, y = torch.randn(first), torch.randn(second)
    functions = {
        "sub": lambda x, y: (x - y, y - x, x > y),
        "where": lambda x, y: (torch.where(x > 0, y, x), torch.where(y > 0, 1.0, x)),
        "lerp": lambda x, y: torch.lerp(x + 0 * y, y, 0.25),
    }
    agrees(functions, x, y)


def test_prelu_has_a_slope_for_each_channel(agrees: Agrees) -> None:
    """One slope, one for each channel, and a slope that is computed."""
    torch.manual_seed(6)
    x = torch.randn(2, 3, 4, 5)
    agrees({"one": nn.PReLU(), "each": nn.PReLU(3, 0.1), "given": lambda x: F.prelu(x, x[0, :, 0, 0])}, x)


class Quotient(nn.Module):
    """A quotient of integers."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Run."""
        return x // y


def test_integer_division_by_zero_is_an_error_as_in_eager() -> None:
    """Eager raises too."""
    x = torch.tensor([1, 2])
    model = load(bytes(export(Quotient(), (x, x))))
    with pytest.raises(InputError, match="divided by zero"):
        model(x.numpy(), torch.tensor([1, 0]).numpy())


class InDouble(nn.Module):
    """Computes in float64."""

    def forward(self, x: Tensor) -> Tensor:
        """Run."""
        return (x.double() * 2).float()


def test_float64_is_refused_with_float32_as_the_nearest_form() -> None:
    """Both findings name the type."""
    with pytest.raises(ExportError, match=r"float64.*float32"):
        export(InDouble(), (torch.zeros(3),))


def test_parts_of_numbers(agrees: Agrees) -> None:
    """Mantissa and exponent: both signs of 0, the largest, the smallest, those below them, infinities, NaN."""
    odd = [0.0, -0.0, 1.0, -2.0, 0.5, float("inf"), float("-inf"), float("nan"), 3.4e38, 2.0**-126, 1e-40, -(2.0**-149)]
    agrees({"parts": lambda x: tuple(torch.frexp(x))}, torch.cat([torch.randn(20), torch.tensor(odd)]), atol=0)
