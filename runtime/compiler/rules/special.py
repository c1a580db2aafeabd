"""Lowers special functions: gamma, zeta, errors, Bessel functions, orthogonal polynomials of a known degree.

The operator `special` computes one in float64 and rounds once; polynomials are their recurrences, written out in
float32 as torch computes them.
"""

import math
from typing import Final

from alcove.runtime.compiler.builder import Builder, function_number
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.elementwise import operand
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.attributes import SpecialAttributes
from alcove.runtime.format.spec import DType

_FUNCTIONS: Final = {
    "lgamma": "lgamma",
    "digamma": "digamma",
    "erfinv": "erfinv",
    "special_erfcx": "erfcx",
    "special_ndtri": "ndtri",
    "special_log_ndtr": "log_ndtr",
    "i0": "i0",
    "special_i1": "i1",
    "special_i0e": "i0e",
    "special_i1e": "i1e",
    "special_modified_bessel_i0": "i0",
    "special_modified_bessel_i1": "i1",
    "special_modified_bessel_k0": "k0",
    "special_modified_bessel_k1": "k1",
    "special_scaled_modified_bessel_k0": "k0e",
    "special_scaled_modified_bessel_k1": "k1e",
    "special_bessel_j0": "j0",
    "special_bessel_j1": "j1",
    "special_bessel_y0": "y0",
    "special_bessel_y1": "y1",
    "special_spherical_bessel_j0": "spherical_j0",
}
"""Of torch's operators of one tensor, the kernel's functions."""
MAX_DEGREE: Final = 64
"""Of a polynomial that is written out."""


def special(b: Builder, function: str, *operands: Value) -> Value:
    """Return a special function of float32 operands of one shape."""
    attributes = SpecialAttributes(function=function_number("special", function))
    return b.op("special", operands, DType.F32, operands[0].shape, attributes)


@rule(*(f"aten.{name}.default" for name in _FUNCTIONS), keep=True)
def of_one(call: Call, b: Builder) -> Value:
    """A function of one number; integers are cast first."""
    (name,) = (name for name in ("self", "x", "z") if name in call.arguments)
    return special(b, _FUNCTIONS[call.target.split(".")[1]], b.cast(call.tensor(name), DType.F32))


@rule("aten.special_zeta.default", "aten.special_zeta.self_scalar", "aten.special_zeta.other_scalar", keep=True)
def zeta(call: Call, b: Builder) -> Value:
    """Hurwitz' zeta function, broadcast."""
    x, q = (b.expand(operand(call, b, name, DType.F32), call.shape) for name in ("self", "other"))
    return special(b, "zeta", x, q)


@rule("aten.polygamma.default")
def polygamma(call: Call, b: Builder) -> Value:
    """Derivatives of digamma: from the second on a factorial times zeta, as torch has it."""
    order, x = int(call["n"]), b.cast(call.tensor("self"), DType.F32)
    if order < 2:
        return special(b, ("digamma", "trigamma")[order], x)
    factor = math.exp(math.lgamma(order + 1.0)) * (1 if order % 2 else -1)
    values = special(b, "zeta", b.expand(b.scalar(order + 1.0, DType.F32), x.shape), x)
    return b.binary("mul", values, b.scalar(factor, DType.F32))


# -- orthogonal polynomials -------------------------------------------------------------------------------------------

_CHEBYSHEV: Final = {"t": (1.0, 0.0), "u": (2.0, 0.0), "v": (2.0, -1.0), "w": (2.0, 1.0)}
"""Factor and constant of the polynomial of degree 1; the recurrence is that of all."""
_OTHERS: Final = ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p")
_POLYNOMIALS: Final = (
    *(f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in _CHEBYSHEV),
    *_OTHERS,
)


@rule(*(f"aten.special_{name}.{overload}" for name in _POLYNOMIALS for overload in ("n_scalar", "default")))
def polynomial(call: Call, b: Builder) -> Value:
    """Of a degree that is a number: its recurrence (Abramowitz and Stegun 22.7)."""
    name = call.target.split(".")[1].removeprefix("special_")
    degree = call["n"]
    if isinstance(degree, Value):
        if degree.constant is None or degree.constant.size != 1:
            raise Refused(f"{name} of one degree that is known, such as torch.special.{name}(x, 3)")
        degree = degree.array.item()
    degree = int(degree)
    if degree > MAX_DEGREE:
        raise Refused(f"{name} of at most degree {MAX_DEGREE}, not {degree}: its values leave float32's digits before")
    x = b.expand(operand(call, b, "x", DType.F32), call.shape)
    if degree < 1:
        return b.expand(b.scalar(float(degree == 0), DType.F32), call.shape)
    return _recurrence(b, name, x, degree)


def _line(b: Builder, x: Value, factor: float, constant: float) -> Value:
    x = x if factor == 1 else b.binary("mul", x, b.scalar(factor, DType.F32))
    return x if constant == 0 else b.binary("add", x, b.scalar(constant, DType.F32))


def _recurrence(b: Builder, name: str, x: Value, degree: int) -> Value:
    if name.startswith("shifted_"):
        x, name = _line(b, x, 2.0, -1.0), name.removeprefix("shifted_")
    is_legendre, is_laguerre = name.startswith("legendre"), name.startswith("laguerre")
    if name.startswith("chebyshev"):
        start = _CHEBYSHEV[name[-1]]
    else:
        start = (-1.0, 1.0) if is_laguerre else (2.0 if name.endswith("_h") else 1.0, 0.0)
    before, last = b.expand(b.scalar(1.0, DType.F32), x.shape), _line(b, x, *start)
    for k in range(1, degree):
        # The polynomial of degree k + 1: a line in x times that of k, less a number times that of k - 1.
        if is_laguerre:
            line, factor = _line(b, x, -1.0, 2.0 * k + 1.0), float(k)
        elif is_legendre:
            line, factor = _line(b, x, 2.0 * k + 1.0, 0.0), float(k)
        elif name.startswith("hermite"):
            line, factor = _line(b, x, start[0], 0.0), k * start[0]
        else:
            line, factor = _line(b, x, 2.0, 0.0), 1.0
        value = b.binary("sub", b.binary("mul", line, last), _line(b, before, factor, 0.0))
        if is_legendre or is_laguerre:
            value = b.binary("div", value, b.scalar(k + 1.0, DType.F32))
        before, last = last, value
    return last
