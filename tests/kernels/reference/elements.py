"""Functions of one and two elements, choices and conversions, in float64 or in integers."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from alcove.runtime import _native
from scipy import special as functions

from tests.kernels.reference.layouts import Array

_erf = np.vectorize(math.erf, otypes=[np.float64])
UNARY: dict[str, Callable[..., Any]] = {
    "neg": lambda x, _: -x,
    "abs": lambda x, _: np.abs(x),
    "exp": lambda x, _: np.exp(x),
    "log": lambda x, _: np.log(x),
    "sin": lambda x, _: np.sin(x),
    "tanh": lambda x, _: np.tanh(x),
    "erf": lambda x, _: _erf(x),
    "sigmoid": lambda x, _: 1 / (1 + np.exp(-x)),
    "relu": lambda x, _: np.maximum(x, 0),
    "gelu": lambda x, _: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "silu": lambda x, _: x / (1 + np.exp(-x)),
    "nan_to_num": lambda x, p: np.nan_to_num(x, nan=p.a, posinf=p.b, neginf=p.c),
    "isnan": lambda x, _: np.isnan(x),
}
"""Those that the programs of `op_samples` use; tests/kernels/test_math.py has the others."""
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "div": np.divide,
    "remainder": np.remainder,
    "pow": np.power,
    "atan2": np.arctan2,
    "shift_left": lambda x, y: np.where((y < 0) | (y >= 64), 0, x << np.clip(y, 0, 63)),
    "lt": np.less,
}


def _name(op: str, number: int) -> str:
    return next(name for name, code in _native.functions(op).items() if code == number)


def unary(a: Any, x: Array) -> list[Array]:
    """One function of each element."""
    return [UNARY[_name("unary", a.function)](x.astype(np.float64) if x.dtype == np.float32 else x, a)]


def binary(a: Any, x: Array, y: Array) -> list[Array]:
    """One function of each pair, broadcast."""
    x, y = (v.astype(np.float64) if v.dtype == np.float32 else v for v in (x, y))
    return [BINARY[_name("binary", a.function)](x, y)]


def where(_: Any, condition: Array, x: Array, y: Array) -> list[Array]:
    """The first where the condition holds, else the second."""
    return [np.where(condition, x, y)]


def cast(_: Any, x: Array) -> list[Array]:
    """The same numbers; the test rounds toward zero and converts them to the type of the output."""
    return [x]


SPECIAL: dict[str, Callable[..., Any]] = {
    "lgamma": functions.gammaln,
    "zeta": functions.zeta,
    "erfinv": functions.erfinv,
    "erfcx": functions.erfcx,
    "i1": functions.i1,
    "k0": lambda x: np.where(x < 0, np.nan, functions.k0(np.abs(x))),
    "j0": functions.j0,
    "y0": lambda x: np.where(x < 0, np.nan, functions.y0(np.abs(x))),
}
"""Scipy's, in float64; tests/kernels/test_special.py has the others."""


def special(a: Any, x: Array, y: Array | None = None) -> list[Array]:
    """One special function of each element, or pair."""
    operands = [value.astype(np.float64) for value in (x, y) if value is not None]
    with np.errstate(all="ignore"):
        return [SPECIAL[_name("special", a.function)](*operands)]


def bitcast(_: Any, x: Array) -> list[Array]:
    """The same bits as the other type of 32 bits."""
    return [x.view(np.int32 if x.dtype == np.float32 else np.float32)]


def activate(y: Array, function: int, low: float, high: float) -> Array:
    """Activation 0 none, 1 clamp, 2 hardswish, 3 hardsigmoid."""
    gate = np.clip(y + 3, 0, 6) / 6
    return (y, np.clip(y, low, high), y * gate, gate)[function]
