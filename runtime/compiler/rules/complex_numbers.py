"""Lowers complex numbers within a program.

A program's tensors are real.  A complex tensor of the graph is a `Pair` of them; what moves elements moves both parts,
and arithmetic is written out.  Complex tensors cannot be inputs, outputs or states.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.elementwise import operand
from alcove.runtime.compiler.rules.movement import fill_tensor
from alcove.runtime.compiler.rules.registry import RULES, Call, Refused
from alcove.runtime.format.spec import DType


@dataclass(frozen=True, eq=False)
class Pair:
    """A complex tensor: real and imaginary parts, f32 of one shape."""

    re: Value
    im: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """Of both parts."""
        return self.re.shape


ComplexRule = Callable[[Call, Builder], Any]
COMPLEX_RULES: Final[dict[str, ComplexRule]] = {}
"""By torch's name: for calls that take or give complex tensors."""


def complex_rule(*names: str) -> Callable[[ComplexRule], ComplexRule]:
    """Register the decorated function for torch operators, named without "aten."."""

    def register(function: ComplexRule) -> ComplexRule:
        COMPLEX_RULES.update({f"aten.{name}": function for name in names})
        return function

    return register


def pair_of(b: Builder, array: np.ndarray[Any, Any]) -> Pair:
    """Return a constant."""
    return Pair(b.constant(array.real.astype("<f4")), b.constant(array.imag.astype("<f4")))


def as_pair(b: Builder, argument: Any) -> Pair:
    """Return an argument, complex or real, a tensor or a number, as a pair."""
    if isinstance(argument, Pair):
        return argument
    if isinstance(argument, Value):
        real = b.cast(argument, DType.F32)
        return Pair(real, b.scalar(0.0, DType.F32, real.shape if real.constant is not None else ()))
    number = complex(argument)
    return Pair(b.scalar(number.real, DType.F32), b.scalar(number.imag, DType.F32))


# -- both parts alike -------------------------------------------------------------------------------------------------

_LINEAR: Final = (
    *("alias.default", "clone.default", "contiguous.default", "detach.default", "_unsafe_view.default"),
    *("reshape.default", "view.default", "squeeze.default", "squeeze.dim", "squeeze.dims", "unsqueeze.default"),
    *("copy.default", "permute.default", "t.default", "transpose.int", "expand.default", "repeat.default"),
    *("slice.Tensor", "select.int", "split.Tensor", "split_with_sizes.default", "unbind.int", "flip.default"),
    *("unfold.default", "as_strided.default", "diagonal.default", "slice_scatter.default", "select_scatter.default"),
    *("cat.default", "roll.default", "constant_pad_nd.default", "index.Tensor", "index_select.default"),
    *("index_put.default", "neg.default"),
    *("sum.default", "sum.dim_IntList", "mean.default", "mean.dim", "cumsum.default"),
)


def _part(argument: Any, b: Builder, field: str) -> Any:
    if isinstance(argument, Pair):
        return getattr(argument, field)
    if isinstance(argument, complex):
        return argument.real if field == "re" else argument.imag
    if isinstance(argument, list | tuple) and any(isinstance(each, Pair) for each in argument):
        return [getattr(as_pair(b, each), field) for each in argument]
    return argument


_REAL_SOURCES: Final = ("src", "values")
"""Arguments that may be real beside a complex tensor, which they are written into."""


@complex_rule(*_LINEAR)
def both_parts(call: Call, b: Builder) -> Any:
    """What moves or adds elements does so in each part."""
    argument = dict(call.arguments)
    for name in _REAL_SOURCES:
        if isinstance(argument.get(name), Value):
            real = b.cast(argument[name], DType.F32)
            argument[name] = Pair(real, b.scalar(0.0, DType.F32, real.shape))
    plain = RULES[call.target]
    halves = [
        plain(replace(call, arguments={name: _part(value, b, field) for name, value in argument.items()}), b)
        for field in ("re", "im")
    ]
    if isinstance(halves[0], tuple):
        return tuple(Pair(re, im) for re, im in zip(*halves, strict=True))
    re, im = halves
    if isinstance(re, tuple) or isinstance(im, tuple):
        raise TypeError(f"{call.target} gives one tensor for one part and several for the other")
    return Pair(re, im)


_FILLED: Final = (
    *("full.default", "full_like.default", "new_full.default", "ones.default", "ones_like.default", "new_ones.default"),
    *("zeros.default", "zeros_like.default", "new_zeros.default", "empty_like.default", "new_empty.default"),
)


@complex_rule(*_FILLED)
def fill(call: Call, b: Builder) -> Pair:
    """One number everywhere; only where a size varies, else it is a constant."""
    name = call.target.split(".")[1]
    ones = 1 if "ones" in name else 0
    number = complex(call["fill_value"] if "full" in name else ones)
    return Pair(*(fill_tensor(b, call.shape, part, DType.F32) for part in (number.real, number.imag)))


@complex_rule("where.self", "where.Scalar", "where.ScalarSelf", "where.ScalarOther")
def where(call: Call, b: Builder) -> Pair:
    """Each part by the same condition; one side may be real."""
    condition = call.tensor("condition")
    x, y = (as_pair(b, call[name]) for name in ("self", "other"))
    return Pair(*(b.expand(b.where(condition, *parts), call.shape) for parts in ((x.re, y.re), (x.im, y.im))))


# -- between real and complex -----------------------------------------------------------------------------------------


@complex_rule("view_as_complex.default")
def view_as_complex(call: Call, b: Builder) -> Pair:
    """The last dimension holds both parts."""
    x = call.tensor("self")
    last = len(x.shape) - 1
    return Pair(*(b.reshape(b.slice(x, last, place, place + 1), x.shape[:-1]) for place in range(2)))


@complex_rule("view_as_real.default")
def view_as_real(call: Call, b: Builder) -> Value:
    """Both parts in a new last dimension."""
    x: Pair = call["self"]
    return b.concat([b.reshape(part, (*x.shape, 1)) for part in (x.re, x.im)], len(x.shape))


@complex_rule("real.default")
def real(call: Call, _b: Builder) -> Value:
    """The real part."""
    x: Pair = call["self"]
    return x.re


@complex_rule("imag.default")
def imag(call: Call, _b: Builder) -> Value:
    """The imaginary part."""
    x: Pair = call["self"]
    return x.im


@complex_rule("complex.default")
def complex_(call: Call, b: Builder) -> Pair:
    """Of two real tensors, broadcast."""
    return Pair(*(b.expand(call.tensor(name), call.shape) for name in ("real", "imag")))


@complex_rule("polar.default")
def polar(call: Call, b: Builder) -> Pair:
    """Of absolute value and angle."""
    size, angle = call.tensor("abs"), call.tensor("angle")
    return Pair(*(b.binary("mul", size, b.unary(name, angle)) for name in ("cos", "sin")))


@complex_rule("_to_copy.default")
def to_complex(call: Call, b: Builder) -> Pair:
    """A real tensor has the imaginary part 0."""
    argument = call["self"]
    if isinstance(argument, Pair):
        return argument
    return Pair(b.cast(call.tensor("self"), DType.F32), b.scalar(0.0, DType.F32, call.shape))


@complex_rule("abs.default")
def absolute(call: Call, b: Builder) -> Value:
    """The square root of the sum of squares, which may be beyond the range themselves."""
    x: Pair = call["self"]
    return b.binary("hypot", x.re, x.im)


@complex_rule("angle.default")
def angle_(call: Call, b: Builder) -> Value:
    """In [-pi, pi]."""
    x: Pair = call["self"]
    return b.binary("atan2", x.im, x.re)


# -- arithmetic -------------------------------------------------------------------------------------------------------


@complex_rule("_conj.default", "conj_physical.default", "_conj_physical.default", "_conj_copy.default")
def conjugate(call: Call, b: Builder) -> Pair:
    """The imaginary part changes its sign."""
    x: Pair = call["self"]
    return Pair(x.re, b.unary("neg", x.im))


@complex_rule("add.Tensor", "sub.Tensor", "add.Scalar", "sub.Scalar")
def add(call: Call, b: Builder) -> Pair:
    """Part by part; `alpha` scales the second operand."""
    x, y = as_pair(b, call["self"]), as_pair(b, call["other"])
    if call["alpha"] != 1:
        y = product(b, y, as_pair(b, call["alpha"]))
    name = call.target.split(".")[1]
    return Pair(*(b.expand(b.binary(name, *parts), call.shape) for parts in ((x.re, y.re), (x.im, y.im))))


def product(b: Builder, x: Pair, y: Pair) -> Pair:
    """Return the product of each pair of elements, broadcast."""
    re = b.binary("sub", b.binary("mul", x.re, y.re), b.binary("mul", x.im, y.im))
    return Pair(re, b.binary("add", b.binary("mul", x.re, y.im), b.binary("mul", x.im, y.re)))


def _is_real(argument: Any) -> bool:
    return not isinstance(argument, Pair | complex)


@complex_rule("rsub.Scalar", "rsub.Tensor")
def subtract_from(call: Call, b: Builder) -> Pair:
    """The operands change places."""
    swapped = {**call.arguments, "self": call["other"], "other": call["self"]}
    difference: Pair = add(replace(call, target="aten.sub.Tensor", arguments=swapped), b)
    return difference


@complex_rule("mul.Tensor", "mul.Scalar")
def multiply(call: Call, b: Builder) -> Pair:
    """A real factor scales both parts."""
    x, y = call["self"], call["other"]
    if _is_real(x):
        x, y = y, x
    if _is_real(y):
        factor = operand(replace(call, arguments={"other": y}), b, "other", DType.F32)
        left = as_pair(b, x)
        return Pair(b.binary("mul", left.re, factor), b.binary("mul", left.im, factor))
    return product(b, as_pair(b, x), as_pair(b, y))


@complex_rule("div.Tensor", "div.Scalar")
def divide(call: Call, b: Builder) -> Pair:
    """By a complex number: times its conjugate, by its square."""
    x = as_pair(b, call["self"])
    if _is_real(call["other"]):
        divisor = operand(call, b, "other", DType.F32)
        return Pair(b.binary("div", x.re, divisor), b.binary("div", x.im, divisor))
    y = as_pair(b, call["other"])
    square = b.binary("add", b.binary("mul", y.re, y.re), b.binary("mul", y.im, y.im))
    made = product(b, x, Pair(y.re, b.unary("neg", y.im)))
    return Pair(b.binary("div", made.re, square), b.binary("div", made.im, square))


@complex_rule("exp.default")
def exponential(call: Call, b: Builder) -> Pair:
    """Growth and rotation."""
    x: Pair = call["self"]
    size = b.unary("exp", x.re)
    return Pair(*(b.binary("mul", size, b.unary(name, x.im)) for name in ("cos", "sin")))


@complex_rule("log.default")
def logarithm(call: Call, b: Builder) -> Pair:
    """Of the size, and the angle."""
    return Pair(b.unary("log", absolute(call, b)), angle_(call, b))


@complex_rule("sin.default", "cos.default")
def sine(call: Call, b: Builder) -> Pair:
    """Of the real part, by hyperbolic functions of the imaginary one."""
    x: Pair = call["self"]
    is_sine = call.target.startswith("aten.sin.")
    first, second = ("sin", "cos") if is_sine else ("cos", "sin")
    re = b.binary("mul", b.unary(first, x.re), b.unary("cosh", x.im))
    im = b.binary("mul", b.unary(second, x.re), b.unary("sinh", x.im))
    return Pair(re, im if is_sine else b.unary("neg", im))


@complex_rule("sqrt.default")
def square_root(call: Call, b: Builder) -> Pair:
    """The greater part is a root, the other a quotient, so that neither cancels; 0 of 0."""
    x: Pair = call["self"]
    zero, half = b.scalar(0.0, DType.F32), b.scalar(0.5, DType.F32)
    total = b.binary("add", absolute(call, b), b.unary("abs", x.re))
    root = b.unary("sqrt", b.binary("mul", total, half))
    quotient = b.binary("div", b.binary("mul", x.im, half), root)
    quotient = b.where(b.binary("eq", root, zero, DType.BOOL), x.im, quotient)
    is_right = b.binary("ge", x.re, zero, DType.BOOL)
    re = b.where(is_right, root, b.unary("abs", quotient))
    return Pair(re, b.where(is_right, quotient, b.binary("copysign", root, x.im)))


@complex_rule("reciprocal.default")
def reciprocal(call: Call, b: Builder) -> Pair:
    """The conjugate by the square of the size."""
    arguments = {**call.arguments, "self": 1.0, "other": call["self"]}
    quotient: Pair = divide(replace(call, arguments=arguments), b)
    return quotient


@complex_rule("sgn.default")
def direction(call: Call, b: Builder) -> Pair:
    """By the size; 0 of 0."""
    x: Pair = call["self"]
    size = absolute(call, b)
    is_zero = b.binary("eq", size, b.scalar(0.0, DType.F32), DType.BOOL)
    return Pair(*(b.where(is_zero, part, b.binary("div", part, size)) for part in (x.re, x.im)))


@complex_rule("square.default")
def square(call: Call, b: Builder) -> Pair:
    """The product with itself."""
    return product(b, call["self"], call["self"])


@complex_rule("pow.Tensor_Scalar")
def power(call: Call, b: Builder) -> Pair:
    """The square."""
    if call["exponent"] != 2:
        raise Refused("a complex number to the power of 2; write others as products")
    return product(b, call["self"], call["self"])


@complex_rule("linear.default")
def linear(call: Call, b: Builder) -> Pair:
    """A product with the transposed weight, and a bias."""
    weight = as_pair(b, call["weight"])
    rank = len(weight.shape)
    turned = Pair(*(b.permute(part, tuple(range(rank))[::-1]) for part in (weight.re, weight.im)))
    arguments = {"self": call["input"], "other": turned}
    made: Pair = matrix_product(replace(call, target="aten.matmul.default", arguments=arguments), b)
    if call["bias"] is None:
        return made
    bias = as_pair(b, call["bias"])
    return Pair(b.binary("add", made.re, bias.re), b.binary("add", made.im, bias.im))


@complex_rule("mm.default", "bmm.default", "matmul.default")
def matrix_product(call: Call, b: Builder) -> Pair:
    """Four real products."""
    second = "mat2" if "mat2" in call.arguments else "other"
    x, y = as_pair(b, call["self"]), as_pair(b, call[second])

    def real_product(left: Value, right: Value) -> Value:
        made = RULES[call.target](replace(call, arguments={"self": left, second: right}), b)
        if not isinstance(made, Value):
            raise TypeError(f"{call.target} gives several tensors")
        return made

    re = b.binary("sub", real_product(x.re, y.re), real_product(x.im, y.im))
    return Pair(re, b.binary("add", real_product(x.re, y.im), real_product(x.im, y.re)))
