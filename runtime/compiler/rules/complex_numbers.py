"""Lowers complex numbers within a program, and the discrete Fourier transform.

A program's tensors are real.  A complex tensor of the graph is a `Pair` of them; what moves elements moves both parts,
arithmetic is written out, and a transform is a product with a constant matrix of cosines and sines; a long one is
made of two shorter ones and a rotation between them (Cooley and Tukey), which takes less time and keeps the digits
that a long sum loses.  Cosines and sines of quarter turns are exact, so that what is 0 for every real signal is 0 here
and has no phase of noise.  Complex tensors cannot be inputs, outputs or states.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.elementwise import operand
from alcove.runtime.compiler.rules.matmul import emit_linear
from alcove.runtime.compiler.rules.registry import RULES, Call, Refused
from alcove.runtime.format.spec import DType

MAX_TRANSFORM: Final = 4096
"""Longest transform; of a prime size its matrix has as many rows and columns."""
SHORTEST_DIVIDED: Final = 128
"""Shortest transform that is made of two."""


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


def _pair(b: Builder, argument: Any) -> Pair:
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
        return [getattr(_pair(b, each), field) for each in argument]
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


@complex_rule("_conj.default", "conj_physical.default", "_conj_copy.default")
def conjugate(call: Call, b: Builder) -> Pair:
    """The imaginary part changes its sign."""
    x: Pair = call["self"]
    return Pair(x.re, b.unary("neg", x.im))


@complex_rule("add.Tensor", "sub.Tensor", "add.Scalar", "sub.Scalar")
def add(call: Call, b: Builder) -> Pair:
    """Part by part; `alpha` scales the second operand."""
    x, y = _pair(b, call["self"]), _pair(b, call["other"])
    if call["alpha"] != 1:
        y = _product(b, y, _pair(b, call["alpha"]))
    name = call.target.split(".")[1]
    return Pair(*(b.expand(b.binary(name, *parts), call.shape) for parts in ((x.re, y.re), (x.im, y.im))))


def _product(b: Builder, x: Pair, y: Pair) -> Pair:
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
        left = _pair(b, x)
        return Pair(b.binary("mul", left.re, factor), b.binary("mul", left.im, factor))
    return _product(b, _pair(b, x), _pair(b, y))


@complex_rule("div.Tensor", "div.Scalar")
def divide(call: Call, b: Builder) -> Pair:
    """By a complex number: times its conjugate, by its square."""
    x = _pair(b, call["self"])
    if _is_real(call["other"]):
        divisor = operand(call, b, "other", DType.F32)
        return Pair(b.binary("div", x.re, divisor), b.binary("div", x.im, divisor))
    y = _pair(b, call["other"])
    square = b.binary("add", b.binary("mul", y.re, y.re), b.binary("mul", y.im, y.im))
    made = _product(b, x, Pair(y.re, b.unary("neg", y.im)))
    return Pair(b.binary("div", made.re, square), b.binary("div", made.im, square))


@complex_rule("exp.default")
def exponential(call: Call, b: Builder) -> Pair:
    """Growth and rotation."""
    x: Pair = call["self"]
    size = b.unary("exp", x.re)
    return Pair(*(b.binary("mul", size, b.unary(name, x.im)) for name in ("cos", "sin")))


@complex_rule("pow.Tensor_Scalar")
def power(call: Call, b: Builder) -> Pair:
    """The square."""
    if call["exponent"] != 2:
        raise Refused("a complex number to the power of 2; write others as products")
    return _product(b, call["self"], call["self"])


@complex_rule("mm.default", "bmm.default", "matmul.default")
def matrix_product(call: Call, b: Builder) -> Pair:
    """Four real products."""
    second = "mat2" if "mat2" in call.arguments else "other"
    x, y = _pair(b, call["self"]), _pair(b, call[second])

    def product(left: Value, right: Value) -> Value:
        made = RULES[call.target](replace(call, arguments={"self": left, second: right}), b)
        if not isinstance(made, Value):
            raise TypeError(f"{call.target} gives several tensors")
        return made

    re = b.binary("sub", product(x.re, y.re), product(x.im, y.im))
    return Pair(re, b.binary("add", product(x.re, y.im), product(x.im, y.re)))


# -- transforms -------------------------------------------------------------------------------------------------------


def _scale(normalization: int, size: int) -> float:
    """Return the factor of one dimension: torch's normalization 0 is none, 1 by the root, 2 by the size."""
    return (1.0, size**-0.5, 1.0 / size)[normalization]


def _check_size(size: int) -> int:
    if size > MAX_TRANSFORM:
        raise Refused(f"at most {MAX_TRANSFORM} points at once, not {size}: transform shorter frames (torch.stft)")
    return size


def _circle(turns: np.ndarray[Any, Any], size: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return cosines and sines of `turns` / size whole turns; exact at quarters, and as symmetric as a circle."""
    quarter, rest = np.divmod(4 * (turns % size), size)
    is_far = 2 * rest > size  # beyond an eighth: measured from the other end of the quarter
    angle = np.where(is_far, size - rest, rest) * (math.pi / 2 / size)
    along, up = np.cos(angle), np.sin(angle)
    along, up = np.where(is_far, up, along), np.where(is_far, along, up)
    cosine = np.choose(quarter, [along, -up, -along, up])
    sine = np.choose(quarter, [up, along, -up, -along])
    return cosine + 0.0, sine + 0.0


def _waves(size: int, count: int, scale: float, *, is_forward: bool) -> tuple[np.ndarray[Any, Any], ...]:
    """Return cosines and sines [count, size] of `exp(-+ 2 pi i j k / size)`, times `scale`."""
    cosine, sine = _circle(np.outer(np.arange(count), np.arange(size)), size)
    return scale * cosine, scale * (-sine if is_forward else sine) + 0.0


def _along(b: Builder, x: Value, axis: int, matrix: np.ndarray[Any, Any]) -> Value:
    """Return `x` with dimension `axis` multiplied by `matrix` [outputs, size], that dimension last."""
    order = [other for other in range(len(x.shape)) if other != axis] + [axis]
    weight = b.constant(matrix.astype("<f4"))
    return emit_linear(b, b.permute(x, order), weight, b.zeros(len(matrix)))


def _back(b: Builder, x: Value, axis: int) -> Value:
    order = list(range(len(x.shape) - 1))
    order.insert(axis, len(x.shape) - 1)
    return b.permute(x, order)


def _factor(size: int) -> int:
    """Return the divisor of a size next to its root, from below; 1 where the transform is not divided."""
    if size < SHORTEST_DIVIDED:
        return 1
    return next(each for each in range(math.isqrt(size), 0, -1) if size % each == 0)


def _rows(b: Builder, x: Pair, scale: float, *, is_forward: bool) -> Pair:
    """Return the transform of the last dimension."""
    *before, size = x.shape
    last = len(before)
    if (first := _factor(size)) == 1:
        cosine, sine = _waves(size, size, scale, is_forward=is_forward)
        re = b.binary("sub", _along(b, x.re, last, cosine), _along(b, x.im, last, sine))
        return Pair(re, b.binary("add", _along(b, x.re, last, sine), _along(b, x.im, last, cosine)))
    second = size // first
    swap = [*range(last), last + 1, last]
    # Element n1 * second + n2, frequency k1 + first * k2: transforms over n1, a rotation by k1 * n2, then over n2.
    parts = [b.permute(b.reshape(part, (*before, first, second)), swap) for part in (x.re, x.im)]
    made = _rows(b, Pair(*parts), 1.0, is_forward=is_forward)
    turned = _circle(np.outer(np.arange(second), np.arange(first)), size)
    cosine, sine = turned[0], -turned[1] if is_forward else turned[1]
    made = _product(b, made, pair_of(b, cosine + 1j * (sine + 0.0)))
    made = _rows(b, Pair(*(b.permute(part, swap) for part in (made.re, made.im))), scale, is_forward=is_forward)
    return Pair(*(b.reshape(b.permute(part, swap), (*before, size)) for part in (made.re, made.im)))


def _whole_transform(b: Builder, x: Pair, axis: int, normalization: int, *, is_forward: bool) -> Pair:
    """Return the transform of one dimension, complex to complex."""
    size = _check_size(x.shape[axis])
    order = [other for other in range(len(x.shape)) if other != axis] + [axis]
    rows = Pair(b.permute(x.re, order), b.permute(x.im, order))
    made = _rows(b, rows, _scale(normalization, size), is_forward=is_forward)
    return Pair(_back(b, made.re, axis), _back(b, made.im, axis))


def _dims(call: Call, rank: int) -> list[int]:
    dims: Sequence[int] = call["dim"]
    return [int(axis) % rank for axis in dims]


def _of_real(b: Builder, x: Value, axis: int, normalization: int) -> Pair:
    """Return the one-sided transform of a real tensor; what is real by symmetry is."""
    size = x.shape[axis]
    count = size // 2 + 1
    whole = _whole_transform(b, Pair(x, b.scalar(0.0, DType.F32, x.shape)), axis, normalization, is_forward=True)
    re, im = (b.slice(part, axis, 0, count) for part in (whole.re, whole.im))
    return Pair(re, b.binary("mul", im, _where_complex(b, im, axis, size)))


def _where_complex(b: Builder, part: Value, axis: int, size: int) -> Value:
    """Return ones along a one-sided dimension, and zeros where a real signal's transform is real."""
    ones = np.ones(part.shape[axis], "<f4")
    ones[0] = 0.0
    if size % 2 == 0:
        ones[-1] = 0.0
    return b.constant(ones.reshape([-1 if other == axis else 1 for other in range(len(part.shape))]))


def _mirror(b: Builder, x: Pair, axis: int, size: int) -> Pair:
    """Return all frequencies of a one-sided transform: the other half is the conjugate, backwards."""
    strides = [1] * len(x.shape)
    for other in range(len(x.shape) - 2, -1, -1):
        strides[other] = strides[other + 1] * x.shape[other + 1]
    kept = (size - 1) // 2
    shape = [kept if other == axis else length for other, length in enumerate(x.shape)]
    backwards = [-stride if other == axis else stride for other, stride in enumerate(strides)]
    re, im = (b.copy_strided(part, shape, backwards, kept * strides[axis]) for part in (x.re, x.im))
    return Pair(b.concat([x.re, re], axis), b.concat([x.im, b.unary("neg", im)], axis))


@complex_rule("_fft_r2c.default")
def transform_of_real(call: Call, b: Builder) -> Pair:
    """The last of the dimensions is transformed from real numbers, and is one-sided if asked."""
    x = call.tensor("self")
    *others, axis = _dims(call, len(x.shape))
    size, normalization = _check_size(x.shape[axis]), call["normalization"]
    count = size // 2 + 1 if call["onesided"] else size
    if _factor(size) == 1:
        waves = _waves(size, count, _scale(normalization, size), is_forward=True)
        made = Pair(*(_back(b, _along(b, x, axis, wave), axis) for wave in waves))
    else:
        made = _of_real(b, x, axis, normalization)
        if count == size:
            made = _mirror(b, made, axis, size)
    for other in reversed(others):
        made = _whole_transform(b, made, other, normalization, is_forward=True)
    return made


@complex_rule("_fft_c2c.default")
def transform(call: Call, b: Builder) -> Pair:
    """Complex to complex, either way."""
    made: Pair = call["self"]
    for axis in _dims(call, len(made.shape)):
        made = _whole_transform(b, made, axis, call["normalization"], is_forward=call["forward"])
    return made


@complex_rule("_fft_c2r.default")
def transform_to_real(call: Call, b: Builder) -> Value:
    """The inverse; the last of the dimensions is one-sided and becomes real."""
    made: Pair = call["self"]
    *others, axis = _dims(call, len(made.shape))
    size, normalization = _check_size(int(call["last_dim_size"])), call["normalization"]
    for other in others:
        made = _whole_transform(b, made, other, normalization, is_forward=False)
    kept = size // 2 + 1
    parts = [b.slice(part, axis, 0, kept) for part in (made.re, made.im)]
    if _factor(size) > 1:
        im = b.binary("mul", parts[1], _where_complex(b, parts[1], axis, size))
        whole = _mirror(b, Pair(parts[0], im), axis, size)
        return _whole_transform(b, whole, axis, normalization, is_forward=False).re
    cosine, sine = _waves(size, kept, _scale(normalization, size), is_forward=False)
    twice = np.full((kept, 1), 2.0)  # what is left out is the conjugate of what is there
    twice[0] = 1.0
    if size % 2 == 0:
        twice[-1] = 1.0
    real_part, imaginary = (
        _along(b, part, axis, (twice * wave).T) for part, wave in zip(parts, (cosine, sine), strict=True)
    )
    return _back(b, b.binary("sub", real_part, imaginary), axis)
