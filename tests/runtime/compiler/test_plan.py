"""The arena plan has no overlaps, is the smallest possible for small graphs, and is proved by the checker."""

import dataclasses
from itertools import permutations

import pytest
from alcove.runtime.compiler.emit import emit
from alcove.runtime.compiler.graph import NONE, Graph, Node, Port, Value
from alcove.runtime.compiler.plan import Buffer, align_size, place, plan
from alcove.runtime.compiler.plan_check import PlanError, check_plan
from alcove.runtime.format.attributes import TopkAttributes
from alcove.runtime.format.spec import DType, OpSpec, PortSpec, ProgramSpec, Storage, TensorSpec
from alcove.runtime.testing import RELU
from hypothesis import given, settings
from hypothesis import strategies as st

BUFFER = st.tuples(st.integers(1, 40), st.integers(-1, 12), st.integers(0, 8))


def _buffers(drawn: list[tuple[int, int, int]]) -> list[Buffer]:
    return [Buffer(f"b{i}", blocks * 60, first, first + length) for i, (blocks, first, length) in enumerate(drawn)]


def _overlaps(buffers: list[Buffer], offsets: dict[str, int]) -> bool:
    for i, a in enumerate(buffers):
        for b in buffers[i + 1 :]:
            is_apart = (
                offsets[a.key] + a.size_bytes <= offsets[b.key] or offsets[b.key] + b.size_bytes <= offsets[a.key]
            )
            if a.lives_with(b) and not is_apart:
                return True
    return False


@given(st.lists(BUFFER, max_size=24))
def test_buffers_that_live_together_never_overlap(drawn: list[tuple[int, int, int]]) -> None:
    """For any lifetimes: aligned, inside the arena, apart; never more than one after the other."""
    buffers = _buffers(drawn)
    placed = place(buffers)
    assert not _overlaps(buffers, placed.offsets)
    for buffer in buffers:
        assert placed.offsets[buffer.key] % 64 == 0
        assert placed.offsets[buffer.key] + buffer.size_bytes <= placed.arena_bytes
    assert placed.arena_bytes <= sum(align_size(b.size_bytes) for b in buffers)


def _optimum(buffers: list[Buffer]) -> int:
    """Return the smallest arena: every order, each buffer at the lowest offset that is free, found block by block."""
    best = sum(align_size(b.size_bytes) for b in buffers)
    for order in permutations(buffers):
        placed: list[tuple[Buffer, int]] = []
        for buffer in order:
            start = 0
            while any(
                buffer.lives_with(other)
                and start < at + align_size(other.size_bytes)
                and at < start + align_size(buffer.size_bytes)
                for other, at in placed
            ):
                start += 64
            placed.append((buffer, start))
        best = min(best, max((at + align_size(b.size_bytes) for b, at in placed), default=0))
    return best


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(-1, 5), st.integers(0, 3)), max_size=5))
def test_small_graph_gets_the_smallest_arena(drawn: list[tuple[int, int, int]]) -> None:
    """Up to five buffers, brute force finds nothing smaller."""
    buffers = _buffers(drawn)
    assert place(buffers).arena_bytes == _optimum(buffers)


@given(st.lists(BUFFER, max_size=24))
def test_plan_depends_on_nothing_but_the_buffers(drawn: list[tuple[int, int, int]]) -> None:
    """The same buffers give the same plan."""
    assert place(_buffers(drawn)) == place(_buffers(drawn))


@st.composite
def _graphs(draw: st.DrawFn) -> Graph:
    """Return a graph of up to 12 relus, softmaxes and top-ks over any earlier values, with any of them as outputs."""
    width = st.integers(1, 70)
    values = {
        "x0": Value("x0", "x0", DType.F32, (1, draw(width))),
        "x1": Value("x1", "x1", DType.F32, (1, draw(width))),
    }
    nodes = []
    for step in range(draw(st.integers(1, 12))):
        source = values[draw(st.sampled_from([key for key in values if not key.startswith("i")]))]
        op = draw(st.sampled_from(["unary", "softmax", "topk"]))
        k = draw(st.integers(1, source.shape[1]))
        shape = (1, k) if op == "topk" else source.shape
        outputs = [Value(f"v{step}", f"v{step}", DType.F32, shape)]
        if op == "topk":
            outputs.append(Value(f"i{step}", f"i{step}", DType.I32, shape))
        values |= {value.key: value for value in outputs}
        nodes.append(
            Node(
                op,
                (source.key,),
                tuple(value.key for value in outputs),
                TopkAttributes(k=k, is_largest=1) if op == "topk" else NONE,
            )
        )
    computed = [key for node in nodes for key in node.outputs]
    outputs_of = draw(st.lists(st.sampled_from(computed), min_size=1, max_size=3, unique=True))
    ports = tuple(Port(key, key) for key in outputs_of)
    return Graph(values, tuple(nodes), (Port("x0", "x0"), Port("x1", "x1")), ports)


@given(_graphs())
def test_plan_of_any_graph_passes_the_checker(graph: Graph) -> None:
    """Lifetimes, relus in place and unused results, proved again from the program alone."""
    check_plan(emit(graph, [plan(graph)]))


def _spec() -> ProgramSpec:
    """Return x -> relu in place -> relu to a place of its own; x, a at 0, b at 64."""

    def tensor(name: str, offset: int) -> TensorSpec:
        return TensorSpec(name, DType.F32, (1, 16), Storage.ARENA, offset=offset)

    return ProgramSpec(
        tensors=(tensor("x", 0), tensor("a", 0), tensor("b", 64)),
        ops=(OpSpec("unary", (0,), (1,), RELU.numbers()), OpSpec("unary", (1,), (2,), RELU.numbers())),
        inputs=(PortSpec("x", 0),),
        outputs=(PortSpec("y", 2),),
        arena_bytes=128,
    )


def _move(spec: ProgramSpec, index: int, offset: int) -> ProgramSpec:
    tensors = list(spec.tensors)
    tensors[index] = dataclasses.replace(tensors[index], offset=offset)
    return dataclasses.replace(spec, tensors=tuple(tensors))


def test_checker_accepts_relu_in_place() -> None:
    """A relu may write where it reads what it reads last."""
    check_plan(_spec())


def test_checker_names_what_is_wrong_with_a_plan() -> None:
    """Misaligned, beyond the arena, an arena too large, and four overlaps: each is refused with the tensors' names."""
    good = _spec()
    also_read_later = dataclasses.replace(good, outputs=(PortSpec("y", 2), PortSpec("x", 0)))
    wide = dataclasses.replace(good, tensors=(dataclasses.replace(good.tensors[0], shape=(1, 32)), *good.tensors[1:]))
    not_relu = dataclasses.replace(good, ops=(OpSpec("softmax", (0,), (1,)), good.ops[1]))
    wrong = [
        (_move(good, 2, 32), ("b",)),
        (_move(good, 2, 128), ("b",)),
        (dataclasses.replace(good, arena_bytes=192), ()),
        (also_read_later, ("x", "a")),
        (wide, ("x", "a")),
        (not_relu, ("x", "a")),
    ]
    for spec, names in wrong:
        with pytest.raises(PlanError) as caught:
            check_plan(spec)
        assert caught.value.tensors == names
