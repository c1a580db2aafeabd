"""Lowers discrete Fourier transforms of complex and of real tensors.

A size without prime factors above 7 is transformed by the operators `fft`, `rfft` and `irfft`.  A short one, and one of
another size, is a product with a constant matrix of cosines and sines; a longer one of another size is a convolution
with a chirp (Bluestein 1970), which is made of transforms whose size has small factors.  Cosines and sines of quarter
turns are exact, so that what is 0 for every real signal is 0 here and has no phase of noise.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.complex_numbers import Pair, as_pair, complex_rule, pair_of, product
from alcove.runtime.compiler.rules.matmul import emit_linear
from alcove.runtime.compiler.rules.registry import Call, Refused
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import FftAttributes, IrfftAttributes, RfftAttributes
from alcove.runtime.format.spec import DType

MAX_TRANSFORM: Final = 65536
"""Longest transform; its table has as many cosines and sines."""
SHORTEST_FAST: Final = 32
"""Shortest transform that is no product with a matrix."""
LONGEST_MATRIX: Final = 128
"""Longest transform of a size with large prime factors that is one."""
_SHORTEST_DIVIDED: Final = 256
"""Shortest row that is transformed by itself, as a matrix; shorter ones are transformed several at a time."""
_PRIMES: Final = (2, 3, 5, 7)

Array = np.ndarray[Any, Any]


def _scale(normalization: int, size: int) -> float:
    """Return the factor of one dimension: torch's normalization 0 is none, 1 by the root, 2 by the size."""
    return (1.0, size**-0.5, 1.0 / size)[normalization]


def _check_size(size: int) -> int:
    if size > MAX_TRANSFORM:
        raise Refused(f"at most {MAX_TRANSFORM} points at once, not {size}: transform shorter frames (torch.stft)")
    return size


def _is_smooth(size: int) -> bool:
    for prime in _PRIMES:
        while size % prime == 0:
            size //= prime
    return size == 1


def _circle(turns: Array, size: int) -> tuple[Array, Array]:
    """Return cosines and sines of `turns` / size whole turns; exact at quarters, and as symmetric as a circle."""
    quarter, rest = np.divmod(4 * (turns % size), size)
    is_far = 2 * rest > size  # beyond an eighth: measured from the other end of the quarter
    angle = np.where(is_far, size - rest, rest) * (math.pi / 2 / size)
    along, up = np.cos(angle), np.sin(angle)
    along, up = np.where(is_far, up, along), np.where(is_far, along, up)
    cosine = np.choose(quarter, [along, -up, -along, up])
    sine = np.choose(quarter, [up, along, -up, -along])
    return cosine + 0.0, sine + 0.0


# -- matrices ---------------------------------------------------------------------------------------------------------


def _waves(size: int, count: int, scale: float, *, is_forward: bool) -> tuple[Array, ...]:
    """Return cosines and sines [count, size] of `exp(-+ 2 pi i j k / size)`, times `scale`."""
    cosine, sine = _circle(np.outer(np.arange(count), np.arange(size)), size)
    return scale * cosine, scale * (-sine if is_forward else sine) + 0.0


def _multiply(b: Builder, x: Value, matrix: Array) -> Value:
    """Return `x` with its last dimension multiplied by `matrix` [outputs, size]."""
    return emit_linear(b, x, b.constant(matrix.astype("<f4")), b.zeros(len(matrix)))


def _by_matrix(b: Builder, x: Pair, scale: float, *, is_forward: bool) -> Pair:
    size = x.shape[-1]
    cosine, sine = _waves(size, size, scale, is_forward=is_forward)
    re = b.binary("sub", _multiply(b, x.re, cosine), _multiply(b, x.im, sine))
    return Pair(re, b.binary("add", _multiply(b, x.re, sine), _multiply(b, x.im, cosine)))


# -- the operators ----------------------------------------------------------------------------------------------------


def _first_factor(points: int) -> int:
    """Return the rows of the matrix as which a row of points is transformed; 1 where it is none."""
    if points < _SHORTEST_DIVIDED:
        return 1
    return next(each for each in range(math.isqrt(points), 0, -1) if points % each == 0)


def _table(b: Builder, points: int, first: int, *, is_real: bool) -> Value:
    """Return the operators' constant, as fft.h says."""
    second = points // first
    parts = [_circle(np.outer(np.arange(first), np.arange(second)).reshape(-1), points)]
    parts += [_circle(np.arange(size), size) for size in (first, second)]
    if is_real:
        parts.append(_circle(np.arange(points), 2 * points))
    cosines, sines = (np.concatenate(each) for each in zip(*parts, strict=True))
    return b.constant(np.stack([cosines, 0.0 - sines]).astype("<f4"))


def _scratch(points: int, first: int) -> tuple[DType, Sequence[int]]:
    return DType.U8, (scratch_bytes("fft", points=points, first=first),)


def _fast(b: Builder, x: Pair, scale: float, *, is_forward: bool) -> Pair:
    """Return the transform of the last dimension; the inverse is that of exchanged parts, exchanged again."""
    points = x.shape[-1]
    first = _first_factor(points)
    inputs = [x.re, x.im] if is_forward else [x.im, x.re]
    row = (DType.F32, x.shape)
    re, _, im = b.ops(
        "fft",
        [*inputs, _table(b, points, first, is_real=False)],
        [row, _scratch(points, first), row],
        FftAttributes(first=first, scale=scale),
    )
    return Pair(re, im) if is_forward else Pair(im, re)


def _fast_of_real(b: Builder, x: Value, scale: float) -> Pair:
    points = x.shape[-1] // 2
    first = _first_factor(points)
    row = (DType.F32, (*x.shape[:-1], points + 1))
    re, _, im = b.ops(
        "rfft",
        [x, _table(b, points, first, is_real=True)],
        [row, _scratch(points, first), row],
        RfftAttributes(first=first, scale=scale),
    )
    return Pair(re, im)


def _fast_to_real(b: Builder, x: Pair, scale: float) -> Value:
    points = x.shape[-1] - 1
    first = _first_factor(points)
    row = (DType.F32, (*x.shape[:-1], 2 * points))
    inputs = [x.re, x.im, _table(b, points, first, is_real=True)]
    return b.ops("irfft", inputs, [row, _scratch(points, first)], IrfftAttributes(first=first, scale=scale))[0]


# -- rows of any size -------------------------------------------------------------------------------------------------


def _rows(b: Builder, x: Pair, scale: float, *, is_forward: bool) -> Pair:
    """Return the transform of the last dimension."""
    size = x.shape[-1]
    if size >= SHORTEST_FAST and _is_smooth(size):
        return _fast(b, x, scale, is_forward=is_forward)
    if size <= LONGEST_MATRIX:
        return _by_matrix(b, x, scale, is_forward=is_forward)
    return _by_chirp(b, x, scale, is_forward=is_forward)


def _by_chirp(b: Builder, x: Pair, scale: float, *, is_forward: bool) -> Pair:
    """Return the transform as a convolution: j k = (j^2 + k^2 - (k - j)^2) / 2."""
    size = x.shape[-1]
    room = 1 << (2 * size - 2).bit_length()
    cosine, sine = _circle(np.arange(size) ** 2, 2 * size)
    chirp = cosine + 1j * (-sine if is_forward else sine)
    kernel = np.zeros(room, complex)
    kernel[:size] = chirp.conj()
    kernel[room - size + 1 :] = chirp.conj()[:0:-1]
    made = product(b, x, pair_of(b, chirp))
    zeros = b.scalar(0.0, DType.F32, (*x.shape[:-1], room - size))
    made = Pair(*(b.concat([part, zeros], len(x.shape) - 1) for part in (made.re, made.im)))
    made = product(b, _fast(b, made, 1.0, is_forward=True), pair_of(b, np.fft.fft(kernel)))
    made = _fast(b, made, 1.0 / room, is_forward=False)
    made = Pair(*(b.slice(part, len(x.shape) - 1, 0, size) for part in (made.re, made.im)))
    return product(b, made, pair_of(b, chirp * scale))


def _rows_of_real(b: Builder, x: Value, scale: float) -> Pair:
    """Return the one-sided transform of the last dimension; what is real by symmetry is."""
    size, last = x.shape[-1], len(x.shape) - 1
    count = size // 2 + 1
    is_fast = size >= SHORTEST_FAST and _is_smooth(size)
    if is_fast and size % 2 == 0:
        return _fast_of_real(b, x, scale)
    if not is_fast and size <= LONGEST_MATRIX:
        return Pair(*(_multiply(b, x, wave) for wave in _waves(size, count, scale, is_forward=True)))
    whole = _rows(b, Pair(x, b.scalar(0.0, DType.F32, x.shape)), scale, is_forward=True)
    re, im = (b.slice(part, last, 0, count) for part in (whole.re, whole.im))
    return Pair(re, b.binary("mul", im, _where_complex(b, size)))


def _rows_to_real(b: Builder, x: Pair, size: int, scale: float) -> Value:
    """Return the real inverse of a one-sided last dimension."""
    is_fast = size >= SHORTEST_FAST and _is_smooth(size)
    if is_fast and size % 2 == 0:
        return _fast_to_real(b, x, scale)
    if is_fast or size > LONGEST_MATRIX:
        whole = _mirror(b, Pair(x.re, b.binary("mul", x.im, _where_complex(b, size))), len(x.shape) - 1, size)
        return _rows(b, whole, scale, is_forward=False).re
    kept = size // 2 + 1
    cosine, sine = _waves(size, kept, scale, is_forward=False)
    twice = np.full((kept, 1), 2.0)  # what is left out is the conjugate of what is there
    twice[0] = 1.0
    if size % 2 == 0:
        twice[-1] = 1.0
    real_part, imaginary = (
        _multiply(b, part, (twice * wave).T) for part, wave in zip((x.re, x.im), (cosine, sine), strict=True)
    )
    return b.binary("sub", real_part, imaginary)


def _where_complex(b: Builder, size: int) -> Value:
    """Return ones along a one-sided dimension, and zeros where a real signal's transform is real."""
    ones = np.ones(size // 2 + 1, "<f4")
    ones[0] = 0.0
    if size % 2 == 0:
        ones[-1] = 0.0
    return b.constant(ones)


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


# -- dimensions -------------------------------------------------------------------------------------------------------


def _last(b: Builder, x: Value, axis: int) -> Value:
    return b.permute(x, [*(other for other in range(len(x.shape)) if other != axis), axis])


def _back(b: Builder, x: Value, axis: int) -> Value:
    order = list(range(len(x.shape) - 1))
    order.insert(axis, len(x.shape) - 1)
    return b.permute(x, order)


def _whole_transform(b: Builder, x: Pair, axis: int, normalization: int, *, is_forward: bool) -> Pair:
    """Return the transform of one dimension, complex to complex."""
    size = _check_size(x.shape[axis])
    rows = Pair(_last(b, x.re, axis), _last(b, x.im, axis))
    made = _rows(b, rows, _scale(normalization, size), is_forward=is_forward)
    return Pair(_back(b, made.re, axis), _back(b, made.im, axis))


def _dims(call: Call, rank: int) -> list[int]:
    dims: Sequence[int] = call["dim"]
    return [int(axis) % rank for axis in dims]


@complex_rule("_fft_r2c.default")
def transform_of_real(call: Call, b: Builder) -> Pair:
    """The last of the dimensions is transformed from real numbers, and is one-sided if asked."""
    x = call.tensor("self")
    *others, axis = _dims(call, len(x.shape))
    size, normalization = _check_size(x.shape[axis]), call["normalization"]
    made = _rows_of_real(b, _last(b, x, axis), _scale(normalization, size))
    made = Pair(_back(b, made.re, axis), _back(b, made.im, axis))
    if not call["onesided"]:
        made = _mirror(b, made, axis, size)
    for other in reversed(others):
        made = _whole_transform(b, made, other, normalization, is_forward=True)
    return made


@complex_rule("_fft_c2c.default")
def transform(call: Call, b: Builder) -> Pair:
    """Complex to complex, either way."""
    made = as_pair(b, call["self"])
    made = Pair(made.re, b.expand(made.im, made.shape))
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
    rows = Pair(*(_last(b, b.slice(part, axis, 0, kept), axis) for part in (made.re, made.im)))
    return _back(b, _rows_to_real(b, rows, size, _scale(normalization, size)), axis)
