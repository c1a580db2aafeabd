"""What an operator has to do is counted right: against sums written down by hand, and for every operator there is."""

import numpy as np
import pytest
from alcove.runtime import _native
from alcove.runtime.format.fixed import at_sizes
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, OpSpec, ProgramSpec
from alcove.runtime.profile.work import PRODUCTS, Work, work_of
from alcove.runtime.testing import Assembly, samples
from alcove.runtime.testing_ops import op_samples

NAMES = sorted(samples() | op_samples())


def read_fixed_spec(program: bytes) -> ProgramSpec:
    """A program at its greatest sizes."""
    spec = read_spec(program)
    return at_sizes(spec, [symbol.max for symbol in spec.symbols])


def works(name: str) -> list[tuple[OpSpec, Work]]:
    """Every operator of a sample, with its work."""
    spec = read_fixed_spec((samples() | op_samples())[name])
    return [(op, work_of(spec, op)) for op in spec.ops]


def test_the_samples_hold_every_operator() -> None:
    """So that the tests below mean all of them."""
    seen = {op.name for name in NAMES for op, _ in works(name)}
    assert seen == {op.name for op in _native.manifest()}


@pytest.mark.parametrize("name", NAMES)
def test_products_have_multiply_adds_and_others_have_none(name: str) -> None:
    """Every operator is counted; only those with products are compared with a peak."""
    for op, work in works(name):
        assert (work.multiply_adds > 0) == (op.name in PRODUCTS), op.name
        assert work.arithmetic == ("" if op.name not in PRODUCTS else work.arithmetic)
        assert work.arithmetic in ({"f32", "i8"} if op.name in PRODUCTS else {""})
        assert min(work.weight_bytes, work.activation_bytes) >= 0
        assert work.flops == 2 * work.multiply_adds
        if op.name != "reshape":
            assert work.bytes_moved > 0, op.name


def test_integer_products_are_compared_with_the_peak_of_integers() -> None:
    """Those whose products are of bytes; weights that are made floats first are not."""
    kinds: dict[str, set[str]] = {}
    for name in NAMES:
        for op, work in works(name):
            kinds.setdefault(op.name, set()).add(work.arithmetic)
    integers = {name for name, found in kinds.items() if found == {"i8"}}
    linears = {"linear_i8", "linear_qd8_qc8w", "linear_qd8_qb4w"}
    assert integers == {*linears, "conv2d_i8", "depthwise_conv2d_i8", "attention_i8"}
    assert kinds["linear_f32_qc8w"] == kinds["linear_f32_qb4w"] == kinds["linear"] == {"f32"}


def test_a_linear_is_counted_as_by_hand() -> None:
    """3 rows, 5 inputs, 7 outputs: 105 products; panels of 16 outputs with the bias in front."""
    build = Assembly()
    x = build.input("x", DType.F32, (3, 5))
    weights = build.panels("w", np.ones((7, 5), np.float32), np.zeros(7, np.float32))
    (y,) = build.op("linear", [x, weights], (DType.F32, (3, 7)), attributes=(0, 0, 0.0, 0.0))
    build.output("y", y)
    spec = build.spec()
    assert work_of(spec, spec.ops[0]) == Work(105, "f32", 16 * 6 * 4, 3 * 5 * 4 + 3 * 7 * 4)


def op_of(name: str, shapes: "list[tuple[int, ...]]", attributes: dict[str, int], outputs: int = 1) -> Work:
    """The work of one operator with float tensors of these shapes, the last ones being its outputs."""
    from alcove.runtime.format.spec import Storage, TensorSpec

    info = next(op for op in _native.manifest() if op.name == name)
    tensors = tuple(TensorSpec(f"t{at}", DType.F32, shape, Storage.ARENA) for at, shape in enumerate(shapes))
    inputs = tuple(range(len(shapes) - outputs))
    values = tuple(attributes.get(attribute, 0) for attribute, _ in info.attributes)
    op = OpSpec(name, inputs, tuple(range(len(inputs), len(shapes))), values)
    return work_of(ProgramSpec(tensors, (op,), (), (), 0), op)


IMAGE = {"kernel_h": 3, "kernel_w": 3, "groups": 1}
COUNTS = [
    ("matmul", [(2, 3, 4), (2, 4, 5), (2, 3, 5), (64,)], {}, 2, 2 * 3 * 4 * 5),
    ("attention", [(2, 6, 8), (2, 7, 8), (2, 7, 4), (2, 6, 4), (64,)], {}, 2, 2 * 6 * 7 * (8 + 4)),
    ("conv2d", [(1, 8, 8, 4), (1, 1, 37, 16), (1, 8, 8, 10), (64,)], IMAGE, 2, 64 * 10 * 9 * 4),
    ("conv2d", [(1, 8, 8, 4), (2, 1, 19, 16), (1, 8, 8, 10), (64,)], IMAGE | {"groups": 2}, 2, 64 * 10 * 9 * 2),
    ("depthwise_conv2d", [(1, 8, 8, 4), (10, 4), (1, 4, 4, 4)], IMAGE, 1, 16 * 4 * 9),
    ("conv_transpose2d", [(1, 4, 4, 6), (99,), (1, 8, 8, 5), (64,)], IMAGE, 2, 16 * 6 * 9 * 5),
    ("winograd_conv2d", [(1, 10, 8, 3), (99,), (1, 10, 8, 5), (64,)], {}, 2, 3 * 2 * 36 * 3 * 5),
    (
        "separable_conv2d",
        [(1, 8, 8, 4), (24, 4), (10, 24), (6, 24), (1, 4, 4, 6), (64,)],
        IMAGE | {"has_expand": 1},
        2,
        64 * 4 * 24 + 16 * 24 * (9 + 6),
    ),
    ("squeeze_excite_conv2d", [(2, 4, 4, 8), (3, 8), (8, 3), (5, 8), (2, 4, 4, 5), (64,)], {}, 2, 2 * 48 + 32 * 8 * 5),
    ("pointwise_conv2d", [(2, 3, 50), (5, 4), (2, 5, 50), (64,)], {}, 2, 2 * 50 * 5 * 3),
    ("gru", [(7, 2, 5), (2, 6), (18, 5), (18, 6), (7, 2, 6), (2, 6), (64,)], {}, 3, 14 * 3 * 6 * (5 + 6)),
    (
        "lstm",
        [(7, 2, 5), (2, 4), (2, 6), (24, 5), (24, 4), (4, 6), (7, 2, 4), (2, 4), (2, 6), (64,)],
        {},
        4,
        14 * (4 * 6 * (5 + 4) + 6 * 4),
    ),
]


@pytest.mark.parametrize(("name", "shapes", "attributes", "outputs", "expected"), COUNTS)
def test_products_are_counted_as_by_hand(
    name: str, shapes: "list[tuple[int, ...]]", attributes: dict[str, int], outputs: int, expected: int
) -> None:
    """Each family of products, with the sum that its definition gives."""
    assert op_of(name, shapes, attributes, outputs).multiply_adds == expected


def test_scratch_is_not_moved_and_tables_count_the_rows_that_are_picked() -> None:
    """A convolution moves its image in and out; a lookup of 3 rows of 4 reads 3 rows."""
    image = op_of("conv2d", [(1, 8, 8, 4), (1, 1, 37, 16), (1, 8, 8, 10), (9999,)], IMAGE, 2)
    assert image.activation_bytes == 4 * (8 * 8 * 4 + 37 * 16 + 8 * 8 * 10)
    rows = op_of("index_select", [(1000, 4), (3,), (3, 4)], {"axis": 0})
    assert rows.activation_bytes == 4 * (3 * 4 + 3 + 3 * 4)


def test_ids_of_a_text_count_as_many_as_there_are() -> None:
    """A bag of 10 ids reads 10 rows, not as many as there may be."""
    spec = read_fixed_spec(samples()["classifier_int8"])
    op = next(op for op in spec.ops if op.name == "text_embedding_bag")
    most, ten = work_of(spec, op), work_of(spec, op, {op.inputs[0]: 10})
    table = spec.tensors[op.inputs[1]]
    capacity = spec.tensors[op.inputs[0]].shape[0]
    assert most.weight_bytes - ten.weight_bytes == (capacity - 10) * table.shape[1]
    assert most.activation_bytes - ten.activation_bytes == (capacity - 10) * 4
