"""A number of threads that changes an answer: every form of a convolution, at every size, against one thread."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from alcove.runtime import load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly

from tests.selection import quick_every

F32, I8, U8 = DType.F32, DType.I8, DType.U8
ROOM = (U8, (1 << 17,))
CHANNELS = 3
PLAIN = (0, 0.0, 0.0)
SEED = 33


class Window(NamedTuple):
    """One axis of an image with what slides over it."""

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def outputs(self) -> int:
        """How many places the kernel takes; less than 1 if it has no room."""
        reach = (self.kernel - 1) * self.dilation + 1
        return (self.size + self.before + self.after - reach) // self.stride + 1


def _pairs(rows: Window, columns: Window) -> tuple[int, ...]:
    fields = ("kernel", "stride", "before", "after", "dilation")
    return tuple(getattr(axis, field) for field in fields for axis in (rows, columns))


def _image(build: Assembly, rows: Window, columns: Window) -> int:
    return build.input("x", F32, (2, rows.size, columns.size, CHANNELS))


def _floats(build: Assembly, *shape: int) -> int:
    return build.constant(f"{shape}", np.random.default_rng(SEED).standard_normal(shape, np.float32))


def _layer(build: Assembly, name: str, n: int, k: int) -> int:
    weight = np.random.default_rng(SEED + n + k).standard_normal((n, k), np.float32)
    return build.panels(name, weight, np.full(n, -0.0, np.float32))


def conv2d(build: Assembly, rows: Window, columns: Window) -> int:
    """A plain convolution."""
    weight = _layer(build, "w", 5, rows.kernel * columns.kernel * CHANNELS)
    shape = (F32, (2, rows.outputs, columns.outputs, 5))
    attributes = (*_pairs(rows, columns), 1, 0, *PLAIN)
    return build.op("conv2d", [_image(build, rows, columns), weight], shape, ROOM, attributes=attributes)[0]


def depthwise(build: Assembly, rows: Window, columns: Window) -> int:
    """One filter a channel."""
    weight = _floats(build, rows.kernel * columns.kernel + 1, CHANNELS)
    shape = (F32, (2, rows.outputs, columns.outputs, CHANNELS))
    attributes = (*_pairs(rows, columns), *PLAIN)
    return build.op("depthwise_conv2d", [_image(build, rows, columns), weight], shape, attributes=attributes)[0]


def winograd(build: Assembly, rows: Window, columns: Window) -> int:
    """3x3 in tiles of 4x4."""
    weight = _floats(build, 16 + 36 * (CHANNELS + 1) * 16)
    shape = (F32, (2, rows.outputs, columns.outputs, 5))
    pads = (rows.before, columns.before, rows.after, columns.after)
    x = _image(build, rows, columns)
    return build.op("winograd_conv2d", [x, weight], shape, ROOM, attributes=(*pads, 0, *PLAIN))[0]


def separable(build: Assembly, rows: Window, columns: Window) -> int:
    """Expand, depthwise, project, two rows at a time."""
    taps = rows.kernel * columns.kernel
    weights = [_layer(build, "expand", 7, CHANNELS), _floats(build, taps + 1, 7), _layer(build, "project", 5, 7)]
    shape = (F32, (2, rows.outputs, columns.outputs, 5))
    gates = (1, 0.0, 6.0, 2, 0.0, 0.0, *PLAIN)
    attributes = (*_pairs(rows, columns)[:8], 2, 1, 0, *gates)
    x = _image(build, rows, columns)
    return build.op("separable_conv2d", [x, *weights], shape, ROOM, attributes=attributes)[0]


def _quantize(build: Assembly, rows: Window, columns: Window) -> int:
    x = _image(build, rows, columns)
    return build.op("quantize", [x], (I8, (2, rows.size, columns.size, CHANNELS)), attributes=(0.03125, 3))[0]


def _bytes(build: Assembly, *shape: int) -> int:
    return build.constant(f"{shape}", np.random.default_rng(SEED).integers(-9, 9, shape, np.int8))


def conv2d_i8(build: Assembly, rows: Window, columns: Window) -> int:
    """A convolution of int8."""
    taps = rows.kernel * columns.kernel * CHANNELS
    weight = _bytes(build, 1, 128 + 64 * ((taps + 3) // 4))
    shape = (I8, (2, rows.outputs, columns.outputs, 5))
    attributes = (*_pairs(rows, columns), 1, 3, -2, -128, 127)
    return build.op("conv2d_i8", [_quantize(build, rows, columns), weight], shape, ROOM, attributes=attributes)[0]


def depthwise_i8(build: Assembly, rows: Window, columns: Window) -> int:
    """One filter a channel, int8."""
    weight = _bytes(build, 1, 128 + 16 * rows.kernel * columns.kernel)
    shape = (I8, (2, rows.outputs, columns.outputs, CHANNELS))
    attributes = (*_pairs(rows, columns), 3, -2, -128, 127)
    return build.op("depthwise_conv2d_i8", [_quantize(build, rows, columns), weight], shape, attributes=attributes)[0]


def conv_transpose2d(build: Assembly, rows: Window, columns: Window) -> int:
    """A transposed convolution of one group."""

    def output_size(axis: Window) -> int:
        return (axis.size - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1 - 2 * axis.before

    taps, phases = rows.kernel * columns.kernel, rows.stride * columns.stride
    weight = _floats(build, 16 * (taps * CHANNELS + phases))
    fields = ("kernel", "stride", "before", "dilation")
    attributes = tuple(getattr(axis, field) for field in fields for axis in (rows, columns))
    shape = (F32, (2, output_size(rows), output_size(columns), 5))
    x = _image(build, rows, columns)
    return build.op("conv_transpose2d", [x, weight], shape, ROOM, attributes=(*attributes, 1))[0]


def pool(build: Assembly, rows: Window, columns: Window) -> int:
    """The largest of each window."""
    shape = (F32, (2, rows.outputs, columns.outputs, CHANNELS))
    fields = ("kernel", "stride", "before", "dilation")
    attributes = tuple(getattr(axis, field) for field in fields for axis in (rows, columns))
    x = _image(build, rows, columns)
    return build.op("pool2d", [x], shape, attributes=(0, *attributes, 0, 0, 0))[0]


def windows(sizes: tuple[int, ...], kernels: tuple[int, ...], strides: tuple[int, ...], most_pad: int) -> list[Window]:
    """Every window of these that has room, with paddings up to `most_pad` before and behind."""
    pads = (0, 1, 2, 5, 8, 13)
    some = (
        Window(*fields)
        for fields in product(
            sizes,
            kernels,
            strides,
            [pad for pad in pads if pad <= most_pad],
            [pad for pad in pads if pad <= most_pad],
            (1, 2),
        )
    )
    return [window for window in some if window.outputs >= 1]


FORMS: dict[str, Callable[[Assembly, Window, Window], int]] = {
    form.__name__: form
    for form in (conv2d, depthwise, winograd, separable, conv2d_i8, depthwise_i8, conv_transpose2d, pool)
}


def _fits(form: str, axis: Window) -> bool:
    """What the operator's rule allows."""
    if form == "winograd":
        return (axis.kernel, axis.stride, axis.dilation) == (3, 1, 1)
    if form == "separable":
        return axis.dilation == 1 and max(axis.before, axis.after) < axis.kernel
    if form == "pool":
        return axis.before == axis.after and axis.before <= axis.kernel // 2
    if form == "conv_transpose2d":
        return axis.before == axis.after and (axis.size - 1) * axis.stride + axis.kernel > 2 * axis.before
    return True


def _shapes(form: str, *, is_whole: bool) -> Iterator[tuple[Window, Window]]:
    """Every window as rows beside a plain one as columns, and the other way in an image of one line."""
    sizes = (1, 2, 4, 7, 13) if is_whole else (1, 5, 8)
    kernels, strides = ((1, 2, 3, 5), (1, 2, 3)) if is_whole else ((1, 3), (1, 2))
    for axis in windows(sizes, kernels, strides, 13 if is_whole else 8):
        if _fits(form, axis):
            pad = axis.kernel // 2
            yield axis, Window(14, axis.kernel, axis.stride, pad, pad, axis.dilation)
            line = Window(1, axis.kernel, axis.stride, axis.kernel // 2, axis.kernel // 2, axis.dilation)
            if line.outputs == 1 and _fits(form, line):
                yield line, axis


def _input(rows: Window, columns: Window, lost: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random numbers with one line of NaN and infinities."""
    x = np.random.default_rng(SEED).standard_normal((2, rows.size, columns.size, CHANNELS), np.float32)
    x[:, lost % rows.size] = np.nan
    x[1, lost % rows.size, :, 0] = np.inf
    return x


def differing(form: str, *, is_whole: bool) -> list[tuple[Window, Window, int]]:
    """Run every shape with 1 to 8 threads; return those whose bytes are not those of one."""
    wrong = []
    for count, (rows, columns) in enumerate(_shapes(form, is_whole=is_whole)):
        build = Assembly()
        build.output("y", FORMS[form](build, rows, columns))
        model = load(build.program())
        threads = range(2, 9) if is_whole else (2 + count % 7,)
        sessions = [(number, model._native.session(threads=number, part_work=1)) for number in threads]
        for lost in {0, rows.size - 1, count}:
            x = _input(rows, columns, lost)
            alone = model(x)[0].tobytes()
            wrong += [(rows, columns, n) for n, session in sessions if session(x)[0].tobytes() != alone]
    return wrong


@pytest.mark.parametrize("form", quick_every(FORMS, 4))
def test_threads_change_no_bit_of_any_form_of_convolution(form: str) -> None:
    """Bands that begin, end or lie wholly in the padding see what one thread sees there; NaN stays where it was."""
    assert differing(form, is_whole=False) == []


@pytest.mark.attack
@pytest.mark.parametrize("form", FORMS)
def test_threads_change_no_bit_at_any_size_padding_stride_and_dilation(form: str) -> None:
    """The whole table, each program with two to eight threads."""
    assert differing(form, is_whole=True) == []
