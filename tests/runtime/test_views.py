"""Tensors may share bytes as views while they live, and be overwritten when nothing else reads them."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from alcove.runtime import ProgramError, load
from alcove.runtime.compiler.plan_check import PlanError, check_plan
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import RELU, Assembly

X = np.array([[-1, 2], [3, -4]], np.float32)


def program(steps: Sequence[tuple[str, str, str]], outputs: Sequence[str], places: dict[str, int]) -> ProgramSpec:
    """Return a program of "x" [2, 2] and steps (op, from, to): `view` to [4] or back, or an op that may overwrite.

    Args:
        steps: in order.
        outputs: what the caller gets.
        places: which tensors have which 64 bytes of the arena.
    """
    build = Assembly()
    tensors = {"x": build.input("x", DType.F32, (2, 2))}
    shapes: dict[str, tuple[int, ...]] = {"x": (2, 2)}
    for op, source, target in steps:
        shapes[target] = shapes[source] if op != "view" else ((4,) if len(shapes[source]) == 2 else (2, 2))
        name, attributes = ("reshape", ()) if op == "view" else ("unary", RELU.numbers())
        (tensors[target],) = build.op(name, [tensors[source]], (DType.F32, shapes[target]), attributes=attributes)
    for name in outputs:
        build.output(name, tensors[name])
    spec = build.spec()
    moved = list(spec.tensors)
    for name, place in places.items():
        moved[tensors[name]] = replace(moved[tensors[name]], offset=64 * place)
    return replace(spec, tensors=tuple(moved), arena_bytes=64 * (max(places.values()) + 1))


GOOD = {
    "a view that lives on beside its original": program(
        [("view", "x", "v"), ("relu", "x", "a"), ("relu", "v", "b")], ["a", "b", "v"], {"x": 0, "v": 0, "a": 1, "b": 2}
    ),
    "a view of a view after both originals": program(
        [("view", "x", "v"), ("view", "v", "w"), ("relu", "w", "a")], ["a", "w"], {"x": 0, "v": 0, "w": 0, "a": 1}
    ),
    "the last of a group is overwritten": program(
        [("view", "x", "v"), ("relu", "v", "a")], ["a"], {"x": 0, "v": 0, "a": 0}
    ),
    "the original is overwritten when its view is dead": program(
        [("view", "x", "v"), ("relu", "v", "a"), ("relu", "x", "b")], ["a", "b"], {"x": 0, "v": 0, "a": 1, "b": 0}
    ),
    "a view of what was overwritten": program(
        [("relu", "x", "a"), ("view", "a", "v")], ["v", "a"], {"x": 0, "a": 0, "v": 0}
    ),
    "a view at a place of its own": program([("view", "x", "v")], ["x", "v"], {"x": 0, "v": 1}),
    "bytes of a dead group are used again": program(
        [("view", "x", "v"), ("relu", "v", "a"), ("relu", "a", "b")], ["b"], {"x": 0, "v": 0, "a": 1, "b": 0}
    ),
}
BAD = {
    "an original is overwritten while its view lives": program(
        [("view", "x", "v"), ("relu", "x", "a")], ["a", "v"], {"x": 0, "v": 0, "a": 0}
    ),
    "a view is overwritten while its original lives": program(
        [("view", "x", "v"), ("relu", "v", "a")], ["a", "x"], {"x": 0, "v": 0, "a": 0}
    ),
    "a view of a view is overwritten while the first lives": program(
        [("view", "x", "v"), ("view", "v", "w"), ("relu", "w", "a"), ("relu", "x", "b")],
        ["a", "b"],
        {"x": 0, "v": 0, "w": 0, "a": 0, "b": 1},
    ),
    "a dead original's bytes are given away while its view lives": program(
        [("view", "x", "v"), ("relu", "x", "a"), ("relu", "a", "b")], ["b", "v"], {"x": 0, "v": 0, "a": 1, "b": 0}
    ),
    "an op that may overwrite is no view": program([("relu", "x", "a")], ["x", "a"], {"x": 0, "a": 0}),
}


@pytest.mark.parametrize("spec", GOOD.values(), ids=GOOD)
def test_a_good_sharing_answers_as_separate_tensors_do(spec: ProgramSpec) -> None:
    """Checker and verifier accept it, and the bytes are those of a plan without sharing."""
    check_plan(spec)
    apart = [replace(tensor, offset=64 * index) for index, tensor in enumerate(spec.tensors)]
    lonely = replace(spec, tensors=tuple(apart), arena_bytes=64 * len(apart))
    ours, theirs = load(write_program(spec))(X), load(write_program(lonely))(X)
    assert [out.tobytes() for out in ours] == [out.tobytes() for out in theirs]


@pytest.mark.parametrize("spec", BAD.values(), ids=BAD)
def test_a_bad_sharing_is_refused_by_checker_and_verifier(spec: ProgramSpec) -> None:
    """An in-place write over a live alias, a free range that a view holds still."""
    with pytest.raises(PlanError, match="overlap while both live"):
        check_plan(spec)
    with pytest.raises(ProgramError, match="plan_overlap"):
        load(write_program(spec))


def test_an_op_that_reads_a_tensor_twice_never_overwrites_it() -> None:
    """The sum of x and x, at the place of x: refused by both."""
    build = Assembly()
    x = build.input("x", DType.F32, (2, 2))
    build.output("y", build.op("binary", [x, x], (DType.F32, (2, 2)), attributes=(1,))[0])
    spec = build.spec()
    over = replace(spec, tensors=tuple(replace(t, offset=0) for t in spec.tensors), arena_bytes=64)
    with pytest.raises(PlanError, match="overlap while both live"):
        check_plan(over)
    with pytest.raises(ProgramError, match="plan_overlap"):
        load(write_program(over))


def test_a_view_of_a_constant_or_a_state_is_a_copy() -> None:
    """Neither has bytes in the arena; overwriting the copy changes neither."""
    build = Assembly()
    state = build.state("state", X)
    (view,) = build.op("reshape", [state], (DType.F32, (4,)))
    (positive,) = build.op("unary", [view], (DType.F32, (4,)), attributes=RELU)
    (back,) = build.op("reshape", [positive], (DType.F32, (2, 2)))
    build.update(state, back)
    build.output("positive", positive)
    spec = build.spec()
    moved = list(spec.tensors)
    for tensor in (view, positive, back):
        moved[tensor] = replace(moved[tensor], offset=0)
    spec = replace(spec, tensors=tuple(moved), arena_bytes=64)
    check_plan(spec)
    session = load(write_program(spec)).session()
    for _ in range(2):
        assert session()[0].tolist() == [0, 2, 3, 0]
    session.reset()
    assert session()[0].tolist() == [0, 2, 3, 0]
