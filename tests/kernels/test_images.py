"""Image operators give the same bits on every instruction set, sum in a fixed order, and refuse wrong shapes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.runtime import ProgramError, _native, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
INFINITY = float("inf")
UNBOUND = (0, -INFINITY, INFINITY)
CHANNELS = (1, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 65)


def numbers(random: np.random.Generator, *shape: int, special: float = 0.0) -> Floats:
    """Numbers around 0; a share of them zeros, denormals, infinities and NaN with payloads."""
    values = random.standard_normal(shape, np.float32)
    odd = random.random(shape) < special
    pool = np.array([0, 0x80000000, 1, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    values[odd] = random.choice(pool, int(odd.sum()))
    return values


def out_size(size: int, kernel: int, stride: int, padding: int, dilation: int) -> int:
    """Return how many places a kernel has."""
    return (size + 2 * padding - (kernel - 1) * dilation - 1) // stride + 1


def scratch(patch: int, extra: int = 0, planes: int = 0) -> tuple[DType, tuple[int, ...]]:
    """Return the scratch of a convolution, as conv2d.h has it; `planes` is what few outputs take more."""
    return DType.U8, (max(4, min(64, 32768 // patch // 4 * 4)) * (patch + extra) * 4 + planes,)


def planes(rows: int, columns: int, channels: int, out_columns: int) -> int:
    """Return the bytes of a kernel's lines as planes, one of zeros, and their addresses."""
    plane = -(-(out_columns + columns - 1 + 64) // 16) * 16
    return (rows * channels + 1) * plane * 4 + rows * channels * 8


def one(name: str, inputs: list[Floats], outputs: Any, attributes: Any, held: list[Floats] | None = None) -> Any:
    """Return a program of one op and its inputs; `held` are constants between the first input and the rest."""
    build = Assembly()
    values = [build.input(f"x{i}", DType.F32, x.shape) for i, x in enumerate(inputs)]
    constants = [build.constant(f"c{i}", x) for i, x in enumerate(held or [])]
    result = build.op(name, [values[0], *constants, *values[1:]], *outputs, attributes=attributes)
    build.output("y", result[0])
    return build.program(), inputs


def depthwise_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Every window that has tiles of its own and some that have none, with one output a channel and several."""
    cases: dict[str, Any] = {}
    for kernel, stride in ((3, 1), (5, 1), (3, 2), (5, 2), (7, 1), (7, 2)):
        for channels in (7, 16, 20, 40):
            side = out_size(17, kernel, stride, kernel // 2, 1)
            window = (kernel, kernel, stride, stride, *[kernel // 2] * 4, 1, 1)
            x = numbers(random, 1, 17, 17, channels, special=0.01)
            weight = numbers(random, kernel * kernel + 1, channels)
            for function in range(4):
                cases[f"depthwise {kernel} {stride} {channels} function {function}"] = one(
                    "depthwise_conv2d",
                    [x],
                    [(DType.F32, (1, side, side, channels))],
                    (*window, function, -1.0, 1.0),
                    [weight],
                )
    for kernel, stride, dilation, multiplier in ((7, 2, 1, 2), (5, 1, 2, 3), (3, 3, 1, 20), (33, 1, 1, 2)):
        for channels in (1, 5, 16, 21):
            side = out_size(13, kernel, stride, kernel // 2 * dilation, dilation)
            cases[f"depthwise {kernel} {stride} {dilation} {channels} times {multiplier}"] = one(
                "depthwise_conv2d",
                [numbers(random, 1, 13, 13, channels, special=0.005)],
                [(DType.F32, (1, side, side, channels * multiplier))],
                (kernel, kernel, stride, stride, *[kernel // 2 * dilation] * 4, dilation, dilation, 2, 0.0, 0.0),
                [numbers(random, kernel * kernel + 1, channels * multiplier)],
            )
    return cases


def border_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Lines of every length that tiles are shared out over, padded by all that may lie beside an image, or by more."""
    cases: dict[str, Any] = {}
    for kernel, stride in ((3, 1), (3, 2), (5, 1), (5, 2), (7, 1)):
        half = kernel // 2
        weight = numbers(random, kernel * kernel + 1, 8)
        for width in (*range(1, 24), 29):
            left, right = ((half, half), (0, half), (half, 0), (half + 1, half), (half, half + 1))[width % 5]
            columns = (width + left + right - kernel) // stride + 1
            rows = out_size(6, kernel, stride, half, 1)
            if columns < 1:
                continue
            x = numbers(random, 1, 6, width, 8, special=0.02)
            for bounds in ((0.0, 6.0), (-1.0, -0.0)):
                cases[f"depthwise {kernel} {stride} width {width} {bounds}"] = one(
                    "depthwise_conv2d",
                    [x],
                    [(DType.F32, (1, rows, columns, 8))],
                    (kernel, kernel, stride, stride, half, left, half, right, 1, 1, 1, *bounds),
                    [weight],
                )
    return cases


def grouped_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Taps that do not lie side by side, read in place, on lines long enough for it; a long sum over them."""
    cases: dict[str, Any] = {}
    for groups, inputs, outputs, stride, dilation in (
        (2, 5, 17, 1, 1),
        (3, 8, 5, 2, 1),
        (1, 6, 20, 1, 2),
        (2, 4, 33, 1, 3),
        (2, 130, 8, 1, 1),
    ):
        rows, columns = out_size(9, 3, stride, dilation, dilation), out_size(25, 3, stride, dilation, dilation)
        shape = (1, rows, columns, groups * outputs)
        weight = np.zeros((groups, -(-outputs // 16), 9 * inputs + 1, 16), np.float32)
        for output in range(outputs):
            weight[:, output // 16, :, output % 16] = numbers(random, groups, 9 * inputs + 1)
        x = numbers(random, 1, 9, 25, groups * inputs, special=0.003)
        cases[f"conv2d groups {groups} {inputs} {outputs} {stride} {dilation}"] = one(
            "conv2d",
            [x, numbers(random, *shape)],
            [(DType.F32, shape), scratch(9 * inputs)],
            (3, 3, stride, stride, *[dilation] * 4, dilation, dilation, groups, 1, 2, 0.0, 0.0),
            [weight],
        )
    return cases


def shared_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Groups that share a vector: lines around a tile, windows that look outside everywhere, steps, dilations."""
    cases: dict[str, Any] = {}
    for width, columns, kernel, stride, dilation, pad in (
        (4, 25, 3, 1, 1, 1),
        (8, 25, 3, 1, 1, 1),
        (4, 17, 3, 2, 1, 1),
        (8, 18, 3, 2, 1, 1),
        (4, 3, 5, 1, 1, 2),
        (8, 14, 3, 1, 3, 3),
        (4, 9, 1, 1, 1, 0),
        (8, 11, 2, 3, 2, 5),
    ):
        channels = 48
        out = [out_size(size, kernel, stride, pad, dilation) for size in (7, columns)]
        shape = (2, *out, channels)
        weight = numbers(random, channels // 16, kernel * kernel * width + 1, 16, special=0.002)
        x = numbers(random, 2, 7, columns, channels, special=0.003)
        window = (kernel, kernel, stride, stride, pad, pad, pad, pad, dilation, dilation, channels // width)
        cases[f"conv2d shared {width} {columns} {kernel} {stride} {dilation}"] = one(
            "conv2d",
            [x, numbers(random, *shape)],
            [(DType.F32, shape), scratch(kernel * kernel * width)],
            (*window, 1, 2, 0.0, 0.0),
            [weight],
        )
    return cases


def convolution_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Channels around every vector; borders, strides and dilations; a multiplier; bounds."""
    cases = depthwise_cases(random) | border_cases(random) | grouped_cases(random) | shared_cases(random)
    for channels in CHANNELS:
        for stride, dilation, multiplier, special in ((1, 1, 1, 0.0), (2, 1, 1, 0.02), (1, 2, 1, 0.0), (1, 1, 2, 0.01)):
            rows, columns = out_size(7, 3, stride, 1, dilation), out_size(11, 3, stride, 1, dilation)
            window: Any = (3, 3, stride, stride, 1, 1, 1, 1, dilation, dilation)
            x = numbers(random, 2, 7, 11, channels, special=special)
            weight = numbers(random, 10, channels * multiplier, special=special / 2)
            outputs = [(DType.F32, (2, rows, columns, channels * multiplier))]
            for name, bound in (("free", UNBOUND), ("bound", (1, -0.5, 1.0))):
                cases[f"depthwise {channels} {stride} {dilation} {multiplier} {special} {name}"] = one(
                    "depthwise_conv2d", [x], outputs, (*window, *bound), [weight]
                )
    for groups, outputs_each, special in ((1, 17, 0.0), (1, 40, 0.01), (3, 5, 0.0), (3, 18, 0.01)):
        window = (3, 2, 1, 2, 1, 0, 1, 0, 1, 1, groups, 1, 1, -1.0, INFINITY)
        shape = (1, 7, 4, groups * outputs_each)
        weight = np.zeros((groups, -(-outputs_each // 16), 25, 16), np.float32)
        weight[..., : outputs_each % 16 or 16] = numbers(random, *weight.shape[:3], outputs_each % 16 or 16)
        x, residual = numbers(random, 1, 7, 9, 4 * groups, special=special), numbers(random, *shape, special=special)
        cases[f"conv2d {groups} {outputs_each} {special}"] = one(
            "conv2d",
            [x, residual],
            [(DType.F32, shape), scratch(24)],
            window,
            [weight],
        )
        floats = groups * -(-outputs_each // 16) * 16 * (9 * 4 + 4)
        cases[f"conv_transpose2d {groups} {outputs_each}"] = one(
            "conv_transpose2d",
            [x],
            [(DType.F32, (1, 15, 18, groups * outputs_each)), scratch(36, outputs_each)],
            (3, 3, 2, 2, 0, 1, 1, 1, groups),
            [numbers(random, floats)],
        )
    for index, (kernel_h, kernel_w, stride, dilation_h) in enumerate(WINDOWS):
        for count in (1, 2, 3, 4, 5, 16, 37, 130):
            case = dense(random, (kernel_h, kernel_w), stride, dilation_h, count, special=0.003 * (index % 2))
            cases[f"conv2d {kernel_h}x{kernel_w} {stride} {dilation_h} {count}"] = case
    return cases


WINDOWS = (
    (1, 1, 1, 1),
    (1, 1, 2, 1),
    (3, 3, 1, 1),
    (3, 3, 2, 1),
    (5, 3, 1, 2),
    (1, 7, 1, 1),
    (9, 9, 1, 1),
    (2, 2, 3, 1),
)
"""Rows and columns of a kernel, its stride, and how far its rows are apart."""


def dense(
    random: np.random.Generator,
    kernel: tuple[int, int],
    stride: int,
    dilation_h: int,
    outputs: int,
    *,
    special: float = 0.0,
) -> Any:
    """A padded conv2d of 5 channels with a residual and one of the functions, and what it reads."""
    (kernel_h, kernel_w), channels = kernel, 5
    top, left = (kernel_h - 1) * dilation_h // 2, kernel_w // 2
    rows, columns = out_size(11, kernel_h, stride, top, dilation_h), out_size(23, kernel_w, stride, left, 1)
    patch = kernel_h * kernel_w * channels
    weight = np.zeros((1, -(-outputs // 16), patch + 1, 16), np.float32)
    rows_of = numbers(random, outputs, patch + 1)
    for output in range(outputs):
        weight[0, output // 16, :, output % 16] = rows_of[output]
    is_narrow = outputs <= 4 and kernel_w > 1 and stride == 1 and dilation_h == 1
    room = scratch(patch, planes=planes(kernel_h, kernel_w, channels, columns) if is_narrow else 0)
    window = (kernel_h, kernel_w, stride, stride, top, left, top, left, dilation_h, 1, 1, 1, outputs % 4, -1.0, 1.0)
    shape = (2, rows, columns, outputs)
    inputs = [numbers(random, 2, 11, 23, channels, special=special), numbers(random, *shape, special=special)]
    return one("conv2d", inputs, [(DType.F32, shape), room], window, [weight])


def window_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Greatest, means, indices; resizing and grids of every mode; channels around every vector."""
    cases: dict[str, Any] = {}
    for channels in CHANNELS:
        for special in (0.0, 0.05):
            x = numbers(random, 2, 7, 9, channels, special=special)
            same = [(DType.F32, (2, 4, 5, channels))]
            window = (3, 3, 2, 2, 1, 1, 1, 1, 0)
            for mode in (0, 1):
                cases[f"pool2d {mode} {channels} {special}"] = one("pool2d", [x], same, (mode, *window, mode, 0))
                cases[f"adaptive {mode} {channels} {special}"] = one("adaptive_pool2d", [x], same, (mode,))
            places = [(DType.I64, (2, 4, 5, channels))]
            cases[f"places {channels} {special}"] = one("max_pool2d_indices", [x], places, (0, *window))
            large = [(DType.F32, (2, 11, 40, channels))]
            for mode, align in ((0, 0), (1, 0), (2, 0), (2, 1), (3, 0), (3, 1)):
                cases[f"resize2d {mode} {align} {channels} {special}"] = one(
                    "resize2d", [x], large, (mode, align, 0.0, 1.7)
                )
            grid = numbers(random, 2, 6, 7, 2, special=special)
            for mode in range(3):
                for padding in range(3):
                    cases[f"grid {mode} {padding} {channels} {special}"] = one(
                        "grid_sample", [x, grid], [(DType.F32, (2, 6, 7, channels))], (mode, padding, channels % 2)
                    )
            volume, points = x.reshape(2, 3, 7, 3, channels), numbers(random, 2, 3, 5, 5, 3, special=special)
            for mode in range(2):
                for padding in range(3):
                    cases[f"grid3d {mode} {padding} {channels} {special}"] = one(
                        "grid_sample3d",
                        [volume, points],
                        [(DType.F32, (2, 3, 5, 5, channels))],
                        (mode, padding, channels % 2),
                    )
    return cases


def beside_cases(random: np.random.Generator) -> "dict[str, Any]":
    """Pooling of few channels whose windows step by one pixel, on lines of less and more than a vector."""
    cases: dict[str, Any] = {}
    for channels, width in ((1, 5), (1, 90), (2, 33), (3, 47), (31, 8), (32, 8)):
        x = numbers(random, 2, 6, width, channels, special=0.01)
        for rows, columns in ((1, 9), (5, 1), (3, 4), (5, 25)):
            high, wide = out_size(6, rows, 1, rows // 2, 1), out_size(width, columns, 1, columns // 2, 1)
            if wide < 1:
                continue
            for mode, counts, divisor in ((0, 1, 0), (1, 1, 0), (1, 0, 0), (1, 1, 7)):
                window = (rows, columns, 1, 1, rows // 2, columns // 2, 1, 1, 0, counts, divisor)
                cases[f"beside {channels} {width} {rows} x {columns} {mode} {counts} {divisor}"] = one(
                    "pool2d", [x], [(DType.F32, (2, high, wide, channels))], (mode, *window)
                )
    return cases


def isa_cases() -> "dict[str, Any]":
    """All of them."""
    random = np.random.default_rng(63)
    return {**convolution_cases(random), **window_cases(random), **beside_cases(random)}


@pytest.mark.parametrize("channels", [1, 3, 31])
@pytest.mark.parametrize("is_average", [False, True])
def test_windows_side_by_side_have_the_bits_of_one_after_the_other(channels: int, is_average: bool) -> None:
    """Rows, then columns, each added to the sum of those before, as the header says, wherever the window lies."""
    random = np.random.default_rng(105)
    rows, columns, width = 3, 7, 70
    x = numbers(random, 1, 5, width, channels)
    window = (rows, columns, 1, 1, 1, 3, 1, 1, 0, 0, 0)
    program, inputs = one("pool2d", [x], [(DType.F32, (1, 5, width, channels))], (int(is_average), *window))
    answer = load(program)(*inputs)[0]
    expected = np.empty_like(x)
    for row in range(5):
        for column in range(width):
            inside = x[0, max(0, row - 1) : row + 2, max(0, column - 3) : column + 4].reshape(-1, channels)
            sums = np.zeros(channels, np.float32)
            for pixel in inside:
                sums = sums + pixel
            expected[0, row, column] = sums / np.float32(len(inside)) if is_average else inside.max(0)
    assert answer.tobytes() == expected.tobytes()


def test_every_instruction_set_gives_the_bits_of_the_reference(run_with: Callable[..., Any]) -> None:
    """Bit for bit; and no NaN comes out but the canonical one, except where bits are moved."""
    cases = isa_cases()
    reference = run_with("scalar", cases)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, cases)
        differ = [name for name in cases if answers[name] != reference[name]]
        assert not differ, f"{isa} differs in {len(differ)} of {len(cases)} cases: {differ[:10]}"
    moved = ("places", "resize2d 0", "resize2d 1", "grid 1", "grid3d 1")
    for name in cases:
        bits = np.frombuffer(reference[name][0], np.uint32)
        found = bits[np.isnan(bits.view(np.float32))]
        assert name.startswith(moved) or (found == 0x7FC00000).all(), name


def conv2d(shape: tuple[int, ...], attributes: dict[int, Any], out: tuple[int, ...] = (1, 6, 7, 4)) -> bytes:
    """Return a program with one conv2d of 3 channels, some of its attributes changed."""
    window: list[Any] = [3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, *UNBOUND]
    for index, value in attributes.items():
        window[index] = value
    x, weight = np.zeros((1, 6, 7, 3), np.float32), np.zeros(shape, np.float32)
    outputs = [(DType.F32, out), scratch(27, planes=planes(3, 3, 3, 7))]
    program: bytes = one("conv2d", [x], outputs, tuple(window), [weight])[0]
    return program


@pytest.mark.parametrize(
    ("shape", "attributes", "out"),
    [
        ((1, 1, 27, 16), {}, (1, 6, 7, 4)),  # a row too few
        ((1, 2, 28, 16), {}, (1, 6, 7, 4)),  # a panel too many
        ((1, 1, 28, 16), {2: 0}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {0: 2**21}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {4: -1}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {10: 2}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {10: 0}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {11: 1}, (1, 6, 7, 4)),  # no residual is given
        ((1, 1, 28, 16), {13: 1.0, 14: 0.0}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {13: float("nan")}, (1, 6, 7, 4)),
        ((1, 1, 28, 16), {}, (1, 7, 7, 4)),
        ((1, 1, 28, 16), {}, (2, 6, 7, 4)),
        ((1, 1, 28, 16), {8: 9}, (1, 6, 7, 4)),  # the kernel does not fit
    ],
)
def test_convolutions_that_would_stray_are_refused(
    shape: tuple[int, ...], attributes: dict[int, Any], out: tuple[int, ...]
) -> None:
    """The verifier recomputes each size."""
    load(conv2d((1, 1, 28, 16), {}))
    with pytest.raises(ProgramError):
        load(conv2d(shape, attributes, out))


def test_scratch_that_is_too_small_is_refused() -> None:
    """By a byte; more than enough is taken."""
    x, weight = np.zeros((1, 6, 7, 3), np.float32), np.zeros((1, 1, 28, 16), np.float32)
    attributes = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, *UNBOUND)
    needed = 64 * 27 * 4 + planes(3, 3, 3, 7)
    for more in (0, 1, 1000):
        outputs = [(DType.F32, (1, 6, 7, 4)), (DType.U8, (needed + more,))]
        load(one("conv2d", [x], outputs, attributes, [weight])[0])
    outputs = [(DType.F32, (1, 6, 7, 4)), (DType.U8, (needed - 1,))]
    with pytest.raises(ProgramError, match="scratch"):
        load(one("conv2d", [x], outputs, attributes, [weight])[0])


def test_other_operators_refuse_shapes_and_numbers_that_do_not_fit() -> None:
    """One fault each."""
    x, grid = np.zeros((1, 6, 7, 3), np.float32), np.zeros((1, 4, 4, 2), np.float32)
    image = [(DType.F32, (1, 3, 3, 3))]
    window = (2, 2, 2, 2, 0, 0, 1, 1, 0)
    load(one("pool2d", [x], image, (0, *window, 0, 0))[0])
    load(one("grid_sample", [x, grid], [(DType.F32, (1, 4, 4, 3))], (0, 0, 0))[0])
    volume, places = np.zeros((1, 3, 3, 3, 3), np.float32), np.zeros((1, 2, 2, 2, 3), np.float32)
    voxels = [(DType.F32, (1, 2, 2, 2, 3))]
    bad: list[Any] = [
        ("pool2d", [x], [(DType.F32, (1, 3, 4, 3))], (0, *window, 0, 0)),
        ("pool2d", [x], image, (2, *window, 0, 0)),
        ("pool2d", [x], image, (1, 2, 2, 2, 2, 0, 0, 2, 1, 0, 0, 0)),
        ("pool2d", [x], image, (0, 9, 9, 1, 1, 0, 0, 1, 1, 0, 0, 0)),
        ("adaptive_pool2d", [x], [(DType.F32, (1, 3, 3, 4))], (0,)),
        ("max_pool2d_indices", [x], image, (0, *window)),
        ("resize2d", [x], image, (0, 1, 0.0, 0.0)),
        ("resize2d", [x], image, (2, 0, -1.0, 0.0)),
        ("resize2d", [x], image, (2, 0, float("nan"), 0.0)),
        ("resize2d", [x], [(DType.F32, (2, 3, 3, 3))], (0, 0, 0.0, 0.0)),
        ("grid_sample", [x, grid], image, (0, 0, 0)),
        ("grid_sample", [x, grid], [(DType.F32, (1, 4, 4, 3))], (3, 0, 0)),
        ("grid_sample3d", [volume, places], [(DType.F32, (1, 2, 2, 2, 4))], (0, 0, 0)),  # a channel too many
        ("grid_sample3d", [volume, places], [(DType.F32, (1, 2, 2, 3, 3))], (0, 0, 0)),  # more than the grid's points
        ("grid_sample3d", [volume, places], [(DType.F32, (2, 2, 2, 2, 3))], (0, 0, 0)),
        ("grid_sample3d", [volume, x], [(DType.F32, (1, 2, 2, 2, 3))], (0, 0, 0)),
        ("grid_sample3d", [x, places], [(DType.F32, (1, 2, 2, 2, 3))], (0, 0, 0)),
        ("grid_sample3d", [volume, places], voxels, (2, 0, 0)),
        ("grid_sample3d", [volume, places], voxels, (0, 3, 0)),
        ("grid_sample3d", [volume, places], voxels, (0, 0, 2)),
    ]
    load(one("grid_sample3d", [volume, places], voxels, (0, 0, 0))[0])
    for name, inputs, outputs, attributes in bad:
        with pytest.raises(ProgramError):
            load(one(name, inputs, outputs, attributes)[0])
