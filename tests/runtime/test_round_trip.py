"""Programs are unchanged by encoding and decoding, and each has one encoding only."""

from dataclasses import replace
from typing import Any

import pytest
from alcove.runtime import _native, load
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import HALVES, DType, Layout, OpSpec, PortSpec, ProgramSpec, Storage, TensorSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import classifier, samples
from alcove.runtime.testing_ops import op_samples
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
SHAPES = st.lists(st.integers(1, 5), max_size=4).map(tuple)


@st.composite
def pass_through(draw: Any) -> ProgramSpec:
    """A valid program of inputs that are outputs too, of any type, shape, name, with any certificate."""
    tensors: list[TensorSpec] = []
    inputs: list[PortSpec] = []
    outputs: list[PortSpec] = []
    end = 0
    names = draw(st.lists(NAMES.filter(bool), unique=True, min_size=1, max_size=8))
    for name in names:
        dtype = draw(st.sampled_from([d for d in DType if d is not DType.TEXT and d not in HALVES]))
        shape = draw(SHAPES)
        is_ragged = bool(shape) and draw(st.booleans())
        tensor = TensorSpec(draw(NAMES), dtype, shape, Storage.ARENA, is_ragged=is_ragged, offset=end)
        end = -(-(end + tensor.size_bytes) // 64) * 64
        inputs.append(PortSpec(name, len(tensors)))
        if not outputs or draw(st.booleans()):
            outputs.append(PortSpec(name, len(tensors)))
        tensors.append(tensor)
    return ProgramSpec(tuple(tensors), (), tuple(inputs), tuple(outputs), end, draw(st.binary(max_size=40)))


@given(pass_through())
@settings(max_examples=150, deadline=None)
def test_what_was_written_is_read_back(spec: ProgramSpec) -> None:
    """Spec → bytes → spec → bytes: the same both times, and the verifier agrees."""
    program = write_program(spec)
    assert read_spec(program) == spec
    assert write_program(read_spec(program)) == program
    model = load(program)
    assert [port.name for port in model.inputs] == [port.name for port in spec.inputs]
    assert model.certificate == spec.certificate
    model.verify_weights()


@given(
    is_int8=st.booleans(),
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40), st.integers(1, 40)),
    capacity=st.integers(1, 100),
    certificate=st.binary(max_size=100),
)
@settings(max_examples=80, deadline=None)
def test_whole_models_are_read_back(
    is_int8: bool, sizes: tuple[int, int, int, int], capacity: int, certificate: bytes
) -> None:
    """Every operator, constants in both layouts, attributes up to 64 unsigned bits, labels, sources."""
    buckets, dim, hidden, classes = sizes
    spec = classifier(
        buckets=buckets,
        dim=dim,
        hidden=hidden,
        classes=classes,
        capacity=capacity,
        k=min(3, classes),
        is_int8=is_int8,
        certificate=certificate,
    )
    program = write_program(spec)
    assert read_spec(program) == spec
    assert write_program(read_spec(program)) == program
    model = load(program)
    model.verify_weights()
    values, labels = model("Guten Morgen")
    assert values.shape == labels.shape == (1, min(3, classes))


def test_samples_are_canonical() -> None:
    """Each sample is what the writer makes of what the reader reads; together they have every operator."""
    seen: set[str] = set()
    for name, program in (samples() | op_samples()).items():
        spec = read_spec(program)
        assert write_program(spec) == program, name
        seen.update(op.name for op in spec.ops)
    assert seen == {op.name for op in _native.manifest()}


def test_memory_ceiling_is_arena_and_bookkeeping() -> None:
    """What docs/format.md says: 16 bytes a tensor, states, arena; more where sizes come with inputs."""
    for program in samples().values():
        spec = read_spec(program)
        kept = len(spec.tensors) * 16
        if spec.symbols:
            kept += len(spec.tensors) * 80 + len(spec.ops) * 288 + len(spec.expressions) * 8 + len(spec.inputs) * 32
        states = sum(-(-t.size_bytes // 64) * 64 for t in spec.tensors if t.storage is Storage.STATE)
        model = load(program)
        assert model.memory_ceiling_bytes == -(-kept // 64) * 64 + states + spec.arena_bytes
        session = model.session()
        assert session.memory_bytes == model.memory_ceiling_bytes or spec.symbols
        assert session.memory_bytes <= model.memory_ceiling_bytes


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda s: replace(s, ops=(OpSpec("conv5d", (0,), (1,)),)), "no op 'conv5d'"),
        (lambda s: replace(s, ops=(replace(s.ops[0], attributes=(1, 2)),)), "takes the attributes"),
        (lambda s: replace(s, ops=(replace(s.ops[0], attributes=(1, 2, 3, -1)),)), "does not fit"),
        (lambda s: replace(s, ops=(replace(s.ops[0], attributes=(1, 2, 3.5, 1)),)), "must be an integer"),
        (lambda s: replace(s, ops=(replace(s.ops[1], inputs=(0,) * 17),)), "a record holds 16"),
        (lambda s: replace(s, tensors=(replace(s.tensors[0], data=b"x"),)), "takes 640 bytes"),
        (lambda s: replace(s, tensors=(replace(s.tensors[4], shape=(1,) * 9),)), "a record holds 8"),
        (lambda s: replace(s, tensors=(replace(s.tensors[4], shape=(2**32,)),)), "does not fit"),
        (lambda s: replace(s, arena_bytes=-1), "does not fit"),
    ],
)
def test_the_writer_refuses_what_no_record_can_hold(change: Any, words: str) -> None:
    """A ValueError that names the thing; everything else is the verifier's to judge."""
    with pytest.raises(ValueError, match=words):
        write_program(change(classifier()))


def test_panels_take_whole_panels() -> None:
    """Size of a matrix in panels: 64 bytes for each row and panel, the bias row included."""
    for n, k, size in [(1, 1, 128), (16, 1, 128), (17, 1, 256), (33, 7, 3 * 8 * 64)]:
        assert TensorSpec("w", DType.F32, (n, k), Storage.CONSTANT, Layout.PANEL16).size_bytes == size
