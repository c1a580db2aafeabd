"""Kernels that move elements agree with numpy, and the verifier refuses ops that would reach out of bounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.runtime import InputError, ProgramError, load
from alcove.runtime.format.spec import DType, OpSpec, PortSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import NUMPY_TYPES, Assembly
from hypothesis import given, settings
from hypothesis import strategies as st

RANDOM_SEED = 31
Array = np.ndarray[Any, Any]
MOVABLE = tuple(NUMPY_TYPES)


def numbers(dtype: DType, *shape: int) -> Array:
    """Return elements of every bit pattern, NaNs with payloads too; bools are 0 and 1."""
    kind = np.dtype(NUMPY_TYPES[dtype])
    random = np.random.default_rng(RANDOM_SEED)
    if dtype is DType.BOOL:
        return random.integers(0, 2, shape).astype(bool)
    count = int(np.prod(shape)) * kind.itemsize
    return np.frombuffer(random.bytes(count), kind).reshape(shape).copy()


def bits(array: Array) -> bytes:
    """Return an array's bytes, so that NaNs compare."""
    return np.ascontiguousarray(array).tobytes()


def pad_strides(values: tuple[int, ...]) -> tuple[int, ...]:
    """Return eight numbers, the last ones 0."""
    return (*values, *(0 for _ in range(8 - len(values))))


@st.composite
def walks(draw: st.DrawFn) -> tuple[DType, int, tuple[int, ...], tuple[int, ...], int]:
    """Type, elements of the tensor, shape of the walk, strides of any sign, an offset that keeps all inside."""
    dtype = draw(st.sampled_from(MOVABLE))
    rank = draw(st.integers(0, 5))
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 5, 8, 17, 33]), min_size=rank, max_size=rank)))
    while np.prod(shape) > 4096:
        shape = shape[1:]
    strides = tuple(draw(st.sampled_from([-7, -3, -1, 0, 1, 1, 2, 4, 5, 9, 33, 64])) for _ in shape)
    spans = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    offset = -sum(span for span in spans if span < 0) + draw(st.integers(0, 3))
    last = offset + sum(span for span in spans if span > 0)
    return dtype, last + 1, shape, strides, offset


def view(x: Array, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Array:
    """Return numpy's view of row-major `x`."""
    steps = tuple(stride * x.itemsize for stride in strides)
    return np.lib.stride_tricks.as_strided(x.reshape(-1)[offset:], shape, steps)


@settings(max_examples=150, deadline=None)
@given(walks())
def test_strided_copies_are_numpys(walk: tuple[DType, int, tuple[int, ...], tuple[int, ...], int]) -> None:
    """Any strides that stay inside: the elements that numpy's view has, bit for bit."""
    dtype, count, shape, strides, offset = walk
    x = numbers(dtype, count, 1)
    build = Assembly()
    source = build.input("x", dtype, (count, 1))
    # A dimension of 1 in front keeps the assembly from taking int32 vectors for ids.
    wanted = view(x, shape, strides, offset)[None]
    (out,) = build.op(
        "as_strided_copy", [source], (dtype, wanted.shape), attributes=(offset, *pad_strides((0, *strides)))
    )
    build.output("y", out)
    (seen,) = load(build.program())(x)
    assert bits(seen) == bits(wanted)


@pytest.mark.parametrize("dtype", [DType.U8, DType.I8, DType.F32])
def test_planes_become_pixels_and_pixels_planes(dtype: DType) -> None:
    """Pictures of three channels and of any size, which have a copy of their own."""
    for count in (*range(1, 40), 1000):
        for shape, strides in (((count, 3), (1, count)), ((3, count), (1, 3))):
            x = numbers(dtype, 3 * count, 1)
            wanted = view(x, shape, strides, 0)[None]
            build = Assembly()
            source = build.input("x", dtype, x.shape)
            (out,) = build.op(
                "as_strided_copy", [source], (dtype, wanted.shape), attributes=(0, *pad_strides((0, *strides)))
            )
            build.output("y", out)
            (seen,) = load(build.program())(x)
            assert bits(seen) == bits(wanted), (count, shape)


@settings(max_examples=100, deadline=None)
@given(walks())
def test_as_strided_scatters_are_numpys(walk: tuple[DType, int, tuple[int, ...], tuple[int, ...], int]) -> None:
    """Where no place is named twice: numpy's assignment to the view; the rest stays as it is."""
    dtype, count, shape, strides, offset = walk
    places = view(np.arange(count), shape, strides, offset)
    if len(np.unique(places)) < places.size:
        return
    x, source = numbers(dtype, count, 1), numbers(dtype, *(1, *shape))[..., ::-1].copy()
    build = Assembly()
    inputs = [build.input("x", dtype, x.shape), build.input("source", dtype, source.shape)]
    (out,) = build.op("as_strided_scatter", inputs, (dtype, x.shape), attributes=(offset, *pad_strides((0, *strides))))
    build.output("y", out)
    (seen,) = load(build.program())(x, source)
    expected = x.copy()
    expected.reshape(-1)[places.reshape(-1)] = source.reshape(-1)
    assert bits(seen) == bits(expected)


def margin(x: Array, sides: Any, mode: Any) -> Array:
    """Return `x` with margins; those of a constant are ones."""
    if mode == "constant":
        return np.pad(x, sides, mode, constant_values=x.dtype.type(1))
    return np.pad(x, sides, mode)


@pytest.mark.parametrize("dtype", MOVABLE)
def test_margins_are_numpys(dtype: DType) -> None:
    """Every mode, before and after, in each of three dimensions and in all."""
    x = numbers(dtype, 3, 4, 5)
    margins = [((1, 2), (0, 0), (0, 0)), ((0, 0), (2, 0), (0, 0)), ((0, 0), (0, 0), (0, 3)), ((2, 1), (1, 3), (4, 2))]
    for mode, name in enumerate(["constant", "reflect", "edge", "wrap"]):
        for sides in margins:
            before, after = (tuple(side[i] for side in sides) for i in range(2))
            one = int.from_bytes(np.ones(1, x.dtype).tobytes(), "little") if mode == 0 else 0
            wanted = margin(x, sides, name)
            build = Assembly()
            attributes = (*pad_strides(before), *pad_strides(after), mode, one)
            (out,) = build.op("pad", [build.input("x", dtype, x.shape)], (dtype, wanted.shape), attributes=attributes)
            build.output("y", out)
            (seen,) = load(build.program())(x)
            assert bits(seen) == bits(wanted), (name, sides)


@pytest.mark.parametrize("dtype", MOVABLE)
def test_parts_are_joined_as_numpy_does(dtype: DType) -> None:
    """Up to sixteen inputs along each of three dimensions, single elements and long runs."""
    for count in (1, 2, 7, 16):
        for axis in range(3):
            shapes = [[2, 3, 5] for _ in range(count)]
            for i, shape in enumerate(shapes):
                shape[axis] = i % 4 + 1
            parts = [numbers(dtype, *shape) for shape in shapes]
            build = Assembly()
            inputs = [build.input(f"x{i}", dtype, part.shape) for i, part in enumerate(parts)]
            wanted = np.concatenate(parts, axis)
            build.output("y", build.op("concat", inputs, (dtype, wanted.shape), attributes=(axis,))[0])
            (seen,) = load(build.program())(*parts)
            assert bits(seen) == bits(wanted)


def copy_program(offset: int, strides: tuple[int, ...], shape: tuple[int, ...] = (2, 3), count: int = 12) -> bytes:
    """Return a program with one strided copy of [count]."""
    build = Assembly()
    x = build.input("x", DType.F32, (count,))
    build.output(
        "y", build.op("as_strided_copy", [x], (DType.F32, shape), attributes=(offset, *pad_strides(strides)))[0]
    )
    return build.program()


def scatter_program(offset: int, strides: tuple[int, ...], shape: tuple[int, ...] = (2, 3), count: int = 12) -> bytes:
    """Return a program with one strided scatter into [count]."""
    build = Assembly()
    x, source = build.input("x", DType.F32, (count,)), build.input("source", DType.F32, shape)
    (out,) = build.op(
        "as_strided_scatter", [x, source], (DType.F32, (count,)), attributes=(offset, *pad_strides(strides))
    )
    build.output("y", out)
    return build.program()


@pytest.mark.parametrize("make", [copy_program, scatter_program])
def test_strides_that_reach_outside_are_refused(make: Any) -> None:
    """One element too far on either side, far beyond, sums and products that overflow, unused strides."""
    right: list[tuple[int, tuple[int, ...]]] = [
        (0, (6, 2)),
        (1, (6, 2)),
        (11, (-6, -2)),
        (10, (-6, -2)),
        (5, (3, -2)),
        (11, (0, 0)),
    ]
    for offset, strides in right:
        load(make(offset, strides))
    largest, least = 2**63 - 1, -(2**63)
    wrong: list[tuple[int, tuple[int, ...]]] = [(2, (6, 2)), (9, (-6, -2)), (12, (0, 0)), (-1, (6, 2)), (3, (3, -2))]
    wrong += [(0, (largest, 0)), (0, (0, largest)), (0, (least, 0)), (0, (largest, largest)), (largest, (1, 1))]
    wrong += [(least, (0, 0)), (largest, (least, least)), (2**62, (-(2**62), 0)), (0, (2**61, least + 2))]
    wrong += [(0, (6, 2, 1)), (0, (0, 0, 0, 0, 0, 0, 0, -1))]
    for offset, strides in wrong:
        with pytest.raises(ProgramError) as refused:
            load(make(offset, strides))
        assert refused.value.code == "op_attribute", (offset, strides)


Output = tuple[DType, tuple[int, ...]]
Refusal = tuple[str, list[Output], Output, tuple[float, ...], str]
REFUSALS: list[Refusal] = [  # op, inputs, output, attributes, code
    ("reshape", [(DType.F32, (2, 3))], (DType.F32, (2, 4)), (), "op_shape"),
    ("reshape", [(DType.F32, (2, 3))], (DType.I32, (2, 3)), (), "op_type"),
    ("concat", [(DType.F32, (2, 3)), (DType.F32, (2, 3))], (DType.F32, (5, 3)), (0,), "op_shape"),
    ("concat", [(DType.F32, (2, 3)), (DType.F32, (2, 2))], (DType.F32, (4, 3)), (0,), "op_shape"),
    ("concat", [(DType.F32, (2, 3)), (DType.I64, (2, 3))], (DType.F32, (4, 3)), (0,), "op_type"),
    ("concat", [(DType.F32, (2, 3))], (DType.F32, (2, 3)), (2,), "op_attribute"),
    ("pad", [(DType.F32, (3,))], (DType.F32, (6,)), (*pad_strides((3,)), *pad_strides(()), 1, 0), "op_attribute"),
    ("pad", [(DType.F32, (3,))], (DType.F32, (7,)), (*pad_strides((4,)), *pad_strides(()), 3, 0), "op_attribute"),
    ("pad", [(DType.F32, (3,))], (DType.F32, (2,)), (*pad_strides((-1,)), *pad_strides(()), 0, 0), "op_attribute"),
    ("pad", [(DType.F32, (3,))], (DType.F32, (3,)), (*pad_strides(()), *pad_strides(()), 4, 0), "op_attribute"),
    ("pad", [(DType.F32, (3,))], (DType.F32, (5,)), (*pad_strides((1,)), *pad_strides(()), 0, 0), "op_shape"),
    ("pad", [(DType.F32, (3,))], (DType.F32, (3,)), (*pad_strides((0, 1)), *pad_strides(()), 0, 0), "op_attribute"),
    ("pad", [(DType.BOOL, (3,))], (DType.BOOL, (4,)), (*pad_strides((1,)), *pad_strides(()), 0, 2), "op_attribute"),
    ("fill", [], (DType.BOOL, (4,)), (2,), "op_attribute"),
    ("fill", [], (DType.F32, (4,)), (2**32,), "op_attribute"),
    ("arange", [], (DType.F32, (4, 1)), (0.0, 1.0), "op_shape"),
    ("arange", [], (DType.I64, (4,)), (0.0, 0.5), "op_attribute"),
    ("arange", [], (DType.I64, (4,)), (0.0, 2.0**52), "op_attribute"),
    ("arange", [], (DType.BOOL, (4,)), (0.0, 1.0), "op_type"),
    ("index_select", [(DType.F32, (4, 2)), (DType.I64, (3, 1))], (DType.F32, (3, 2)), (0, 0), "op_shape"),
    ("index_select", [(DType.F32, (4, 2)), (DType.F32, (3, 1))], (DType.F32, (3, 1, 2)), (0, 0), "op_type"),
    ("index_select", [(DType.F32, (4, 2)), (DType.I64, (3, 1))], (DType.F32, (3, 1, 2)), (2, 0), "op_attribute"),
    ("index_select", [(DType.F32, (4, 2)), (DType.I64, (3, 1))], (DType.F32, (3, 1, 2)), (0, 2), "op_attribute"),
    ("gather", [(DType.F32, (4, 2)), (DType.I64, (3, 3))], (DType.F32, (3, 3)), (0,), "op_shape"),
    ("gather", [(DType.F32, (4, 2)), (DType.I64, (3,))], (DType.F32, (3,)), (0,), "op_shape"),
    ("ravel_multi_index", [(DType.I64, (2, 1))], (DType.I64, (2, 1)), pad_strides((0,)), "op_attribute"),
    ("ravel_multi_index", [(DType.I64, (2, 1))], (DType.I64, (2, 1)), pad_strides((3, 1)), "op_attribute"),
    ("ravel_multi_index", [(DType.I64, (2, 1))] * 2, (DType.I64, (2, 1)), pad_strides((2**32, 2**31)), "op_attribute"),
    ("tril_triu", [(DType.F32, (4,))], (DType.F32, (4,)), (0, 0), "op_shape"),
    ("tril_triu", [(DType.F32, (4, 4))], (DType.F32, (4, 4)), (2**31, 0), "op_attribute"),
    ("searchsorted", [(DType.F32, (2, 3)), (DType.F32, (3, 3))], (DType.I64, (3, 3)), (0,), "op_shape"),
    ("searchsorted", [(DType.F32, (2, 3)), (DType.F32, (3,))], (DType.I64, (3,)), (0,), "op_shape"),
    (
        "embedding_bag_offsets",
        [(DType.I64, (2, 3)), (DType.F32, (4, 5))],
        (DType.F32, (3, 5)),
        (0, -1, 0, 0),
        "op_shape",
    ),
    (
        "embedding_bag_offsets",
        [(DType.I64, (2, 3)), (DType.F32, (4, 5))],
        (DType.F32, (2, 5)),
        (0, -1, 1, 0),
        "op_arity",
    ),
    (
        "embedding_bag_offsets",
        [(DType.I64, (2, 3)), (DType.F32, (4, 5))],
        (DType.F32, (2, 5)),
        (3, -1, 0, 0),
        "op_attribute",
    ),
    (
        "embedding_bag_offsets",
        [(DType.I64, (2, 3)), (DType.F32, (4, 5)), (DType.F32, (2, 3))],
        (DType.F32, (2, 5)),
        (1, -1, 0, 1),
        "op_attribute",
    ),
]
SCATTERS: list[Refusal] = [
    (op, [(dtype, (4, 2)), (DType.I64, indices), (dtype, source)], (dtype, (4, 2)), attributes, code)
    for op, dtype, indices, source, attributes, code in [
        ("scatter", DType.F32, (3, 2), (2, 2), (0, 0, 1), "op_shape"),
        ("scatter", DType.F32, (3, 3), (3, 3), (0, 0, 1), "op_shape"),
        ("scatter", DType.F32, (3, 2), (3, 2), (0, 5, 1), "op_attribute"),
        ("scatter", DType.U8, (3, 2), (3, 2), (0, 1, 1), "op_type"),
        ("index_put", DType.F32, (3, 1), (3, 2), (0, 0, 1, 0), "op_shape"),
        ("index_put", DType.F32, (3, 1), (3, 1, 2), (2, 0, 1, 0), "op_attribute"),
        ("index_put", DType.BOOL, (3, 1), (3, 1, 2), (0, 1, 1, 0), "op_type"),
    ]
]


@pytest.mark.parametrize("refusal", REFUSALS + SCATTERS, ids=lambda refusal: f"{refusal[0]} {refusal[4]}")
def test_wrong_shapes_and_attributes_are_refused(refusal: Refusal) -> None:
    """Each by its own code."""
    op, inputs, output, attributes, code = refusal
    build = Assembly()
    given_ = [build.input(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(inputs)]
    build.output("y", build.op(op, given_, output, attributes=attributes)[0])
    with pytest.raises(ProgramError) as refused:
        load(build.program())
    assert refused.value.code == code


def test_plan_that_overwrites_what_the_op_reads_again_is_refused() -> None:
    """Input 0 again as the source: in place the op would read what it has just written."""
    build = Assembly()
    x = build.input("x", DType.F32, (3, 4))
    (middle,) = build.op("fill", [], (DType.F32, (3, 4)), attributes=(0,))
    for again, is_refused in ((x, False), (middle, True)):
        attributes = (0, *pad_strides((4, 1)))
        spec = build.spec()
        scatter = OpSpec("as_strided_scatter", (middle, again), (len(spec.tensors),), attributes, source="")
        place = replace(spec.tensors[middle], name="y")
        spec = replace(
            spec,
            tensors=(*spec.tensors, place),
            ops=(*spec.ops, scatter),
            outputs=(PortSpec("y", len(spec.tensors)), PortSpec("x", x)),
        )
        if not is_refused:
            load(write_program(spec))
            continue
        with pytest.raises(ProgramError) as refused:
            load(write_program(spec))
        assert refused.value.code == "plan_overlap"


def test_constant_indices_are_checked_in_the_run() -> None:
    """The bytes of a constant prove nothing."""
    build = Assembly()
    x = build.input("x", DType.F32, (4, 2))
    indices = build.constant("indices", np.array([[0], [4]], np.int32))
    build.output("y", build.op("index_select", [x, indices], (DType.F32, (2, 1, 2)), attributes=(0, 0))[0])
    model = load(build.program())
    with pytest.raises(InputError, match="index 1 is 4, allowed are 0 to 3"):
        model(np.zeros((4, 2), np.float32))
