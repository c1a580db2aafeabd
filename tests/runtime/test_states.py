"""Sessions keep model states from run to run, each its own; reset restores them, and failed runs change none."""

from dataclasses import replace

import numpy as np
import pytest
from alcove.runtime import InputError, ProgramError, load
from alcove.runtime.format.spec import DType, Storage
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import Assembly, counter

ONES = np.ones(5, np.float32)


def picky() -> bytes:
    """A program that keeps the last row it took from a table, and whose run fails on an index outside of it."""
    build = Assembly()
    table = build.constant("table", np.arange(12, dtype=np.float32).reshape(4, 3))
    last = build.state("last", np.full((1, 3), -1, np.float32))
    index = build.input("index", DType.I64, (1,))
    (before,) = build.op("concat", [last], (DType.F32, (1, 3)), attributes=(0,))
    (row,) = build.op("index_select", [table, index], (DType.F32, (1, 3)), attributes=(0, 0))
    build.update(last, row)
    build.output("before", before)
    return build.program()


def test_a_session_keeps_what_a_model_forgets() -> None:
    """A session counts on; each call of the model starts from the initial states, also between calls of a session."""
    model = load(write_program(counter()))
    assert model.states == ("total", "before")
    session = model.session()
    for count in range(2, 6):
        total, before = session(ONES)
        assert total.tolist() == [count] * 5
        assert before.tolist() == [[2.0 if count == 2 else 1.0] * 5]
        assert [out.tolist() for out in model(ONES)] == [[2] * 5, [[2] * 5]]


def test_sessions_keep_apart() -> None:
    """What one adds, the other does not see."""
    model = load(write_program(counter()))
    one, other = model.session(), model.session()
    for _ in range(3):
        one(ONES)
    assert other(ONES)[0].tolist() == [2] * 5
    assert one(ONES)[0].tolist() == [5] * 5


def test_reset_restores_what_a_session_began_with() -> None:
    """Before any run, after some, and between inputs of different values."""
    session = load(write_program(counter())).session()
    session.reset()
    first = [out.tobytes() for out in session(ONES * 3)]
    for _ in range(3):
        session(ONES)
    session.reset()
    assert [out.tobytes() for out in session(ONES * 3)] == first


def test_a_run_that_fails_leaves_states_as_they_were() -> None:
    """A bad index stops the run; the next one sees the row of the last good one."""
    session = load(picky()).session()
    assert session(np.array([2]))[0].tolist() == [[-1, -1, -1]]
    for bad in (4, -1):
        with pytest.raises(InputError):
            session(np.array([bad]))
    with pytest.raises(InputError):
        session(np.array([1], np.int32))
    assert session(np.array([0]))[0].tolist() == [[6, 7, 8]]
    assert session(np.array([0]))[0].tolist() == [[0, 1, 2]]


def test_the_constants_that_states_begin_as_stay_as_they_are() -> None:
    """A session writes its own memory alone: the weights have their digest afterwards."""
    model = load(write_program(counter()))
    session = model.session()
    for _ in range(3):
        session(ONES)
    model.verify_weights()
    assert model.session()(ONES)[0].tolist() == [2] * 5


def test_two_states_may_become_the_same_tensor() -> None:
    """Both take it; each keeps bytes of its own."""
    build = Assembly()
    one, other = build.state("one", np.zeros(2, np.float32)), build.state("other", np.ones(2, np.float32))
    x = build.input("x", DType.F32, (2,))
    (total,) = build.op("binary", [one, other], (DType.F32, (2,)), attributes=(1,))
    (sums,) = build.op("binary", [total, x], (DType.F32, (2,)), attributes=(1,))
    build.update(one, sums)
    build.update(other, sums)
    build.output("sums", sums)
    session = load(build.program()).session()
    assert [session(np.ones(2, np.float32))[0].tolist() for _ in range(3)] == [[2, 2], [5, 5], [11, 11]]


def test_states_may_swap() -> None:
    """Every update is of the values before the run."""
    build = Assembly()
    names = ("left", "right")
    states = [build.state(name, np.full(3, at, np.int64)) for at, name in enumerate(names)]
    copies = [build.op("concat", [state], (DType.I64, (3,)), attributes=(0,))[0] for state in states]
    for state, other, name in zip(states, copies[::-1], names, strict=True):
        build.update(state, other)
        build.output(name, other)
    session = load(build.program()).session()
    assert [[out[0] for out in session()] for _ in range(4)] == [[1, 0], [0, 1]] * 2


def test_states_count_in_the_memory_ceiling() -> None:
    """Each rounded up to 64 bytes; a limit below it refuses the session."""
    spec = counter(width=100)
    model = load(write_program(spec))
    bare = model.memory_ceiling_bytes - spec.arena_bytes
    kept = -(-len(spec.tensors) * 16 // 64) * 64
    assert bare == kept + 2 * 448
    with pytest.raises(InputError, match="its limit is"):
        model.session(memory_limit_bytes=model.memory_ceiling_bytes - 1)
    model.session(memory_limit_bytes=model.memory_ceiling_bytes)


def test_an_update_holds_its_bytes_to_the_end() -> None:
    """A later tensor over an update is refused, and so is a state with a place in the arena."""
    spec = counter()
    positive = next(op.outputs[0] for op in spec.ops if op.name == "unary")
    kept = spec.ops[-1].outputs[0]
    moved = list(spec.tensors)
    moved[kept] = replace(moved[kept], offset=moved[positive].offset)
    end = max(t.offset + t.size_bytes for t in moved if t.storage is Storage.ARENA)
    with pytest.raises(ProgramError, match="plan_overlap"):
        load(write_program(replace(spec, tensors=tuple(moved), arena_bytes=-(-end // 64) * 64)))
