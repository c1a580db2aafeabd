"""Rows of a state are written where it lies: later operators see them, and a run that fails leaves none behind."""

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from alcove.runtime import InputError, ProgramError, RunCancelledError, load
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, ProgramSpec
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import PLAIN_LINEAR, Assembly
from numpy.typing import NDArray

ROWS = 8
F32, I64 = DType.F32, DType.I64


def cache(*, late: int = 0) -> ProgramSpec:
    """A program that writes two rows twice, shows the state, and then picks a row of a table that may not be there.

    Inputs: where the rows go, the rows, which row of the table. `late` products follow the writes.
    """
    build = Assembly()
    table = build.constant("table", np.arange(12, dtype=np.float32).reshape(4, 3))
    kept = build.state("kept", np.zeros((ROWS, 3), np.float32))
    count = build.state("count", np.zeros(1, np.int64))
    build.update(kept, kept)
    at, rows = build.input("at", I64, (2,)), build.input("rows", F32, (2, 3))
    pick = build.input("pick", I64, (1,))
    build.op("write_rows", [kept, at, rows], (F32, (2, 3)), attributes=(0, 0))
    (total,) = build.op("binary", [rows, rows], (F32, (2, 3)), attributes=(1,))
    build.op("write_rows", [kept, at, total], (F32, (2, 3)), attributes=(0, 0))
    (seen,) = build.op("concat", [kept], (F32, (ROWS, 3)), attributes=(0,))
    if late:
        weight = build.panels("w", np.eye(512, dtype=np.float32), np.zeros(512, np.float32))
        (x,) = build.op("fill", [], (F32, (256, 512)), attributes=(0,))
        for _ in range(late):
            (x,) = build.op("linear", [x, weight], (F32, (256, 512)), attributes=PLAIN_LINEAR)
        build.output("late", x)
    (row,) = build.op("index_select", [table, pick], (F32, (1, 3)), attributes=(0, 0))
    (more,) = build.op("binary", [count, at], (I64, (2,)), attributes=(1,))
    (one,) = build.op("as_strided_copy", [more], (I64, (1,)), attributes=(0, *(0,) * 8))
    build.update(count, one)
    build.output("seen", seen)
    build.output("row", row)
    return build.spec()


def run(session: Any, at: list[int], value: float, pick: int = 0) -> NDArray[np.float32]:
    """The state as the run's last operator saw it."""
    rows = np.full((2, 3), value, np.float32)
    outputs = session(np.array(at), rows, np.array([pick]))
    row: NDArray[np.float32] = outputs[-2]
    return row


def test_operators_see_the_rows_that_earlier_ones_wrote() -> None:
    """The second write is what shows, and the next run finds it."""
    session = load(write_program(cache())).session()
    assert run(session, [0, 3], 1)[:, 0].tolist() == [2, 0, 0, 2, 0, 0, 0, 0]
    assert run(session, [1, 3], 5)[:, 0].tolist() == [2, 10, 0, 10, 0, 0, 0, 0]


def test_the_last_of_equal_indices_wins_and_all_come_back() -> None:
    """Both rows go to one place; the failed run after that leaves it as it was."""
    session = load(write_program(cache())).session()
    assert run(session, [2, 2], 1)[:, 0].tolist() == [0, 0, 2, 0, 0, 0, 0, 0]
    with pytest.raises(InputError):
        run(session, [2, 2], 7, pick=4)
    assert run(session, [0, 0], 3)[:, 0].tolist() == [6, 0, 2, 0, 0, 0, 0, 0]


@pytest.mark.parametrize(("at", "pick"), [([0, 1], 4), ([0, 1], -1), ([0, ROWS], 0), ([-1, 0], 0)])
def test_a_run_that_fails_leaves_the_rows_as_they_were(at: list[int], pick: int) -> None:
    """It fails after both writes, or at the first, whose first row would be good."""
    session = load(write_program(cache())).session()
    before = run(session, [0, 1], 1).tobytes()
    with pytest.raises(InputError):
        run(session, at, 9, pick)
    after = run(session, [0, 1], 1)
    assert after.tobytes() == before


def test_a_cancelled_run_leaves_the_rows_as_they_were() -> None:
    """Another thread ends runs that have written already; the rows are those of the last good run."""
    session = load(write_program(cache(late=40))).session()
    before = run(session, [0, 1], 1).tobytes()
    raised: list[BaseException] = []
    begun = threading.Event()

    def run_on() -> None:
        try:
            while True:
                begun.set()
                run(session, [4, 5], 9)
        except RunCancelledError as error:
            raised.append(error)

    thread = threading.Thread(target=run_on)
    thread.start()
    begun.wait(60)
    session.cancel()
    thread.join(60)
    session.uncancel()
    assert len(raised) == 1
    after = run(session, [0, 1], 1)
    assert after[:4].tobytes() == before[: 4 * 12]


def test_reset_and_other_sessions_see_nothing_of_the_rows() -> None:
    """A session begins with the constant, and so it does again."""
    model = load(write_program(cache()))
    one, other = model.session(), model.session()
    run(one, [6, 7], 4)
    assert run(other, [0, 1], 1)[6:].tolist() == [[0] * 3] * 2
    one.reset()
    assert run(one, [0, 1], 1)[6:].tolist() == [[0] * 3] * 2
    model.verify_weights()


def refusal(spec: ProgramSpec) -> str:
    """The code that refuses a program."""
    with pytest.raises(ProgramError) as refused:
        load(write_program(spec))
    return refused.value.code


def change_op(op: int, **fields: Any) -> ProgramSpec:
    """The program with one operator changed."""
    spec = cache()
    ops = list(spec.ops)
    ops[op] = replace(ops[op], **fields)
    return replace(spec, ops=tuple(ops))


def test_writes_of_anything_but_such_a_state_are_refused() -> None:
    """A constant, an input, a state that is copied; a state whose own rows it would be given."""
    spec = cache()
    kept, at, rows = spec.ops[0].inputs
    table, count = 0, next(state.tensor for state in spec.states if state.name == "count")
    for other in (table, rows, count):
        assert refusal(change_op(0, inputs=(other, at, rows))) in {"state_tensor", "op_shape", "op_type"}
    assert refusal(change_op(0, inputs=(kept, at, kept))) == "state_tensor"
    assert refusal(change_op(0, inputs=(kept, kept, rows))) == "state_tensor"
    copied = [replace(state, update=spec.ops[3].outputs[0]) for state in spec.states if state.name == "kept"]
    states = (copied[0], *(state for state in spec.states if state.name != "kept"))
    assert refusal(replace(spec, states=states)) == "state_tensor"


def test_what_undoes_a_write_is_seen_by_nobody() -> None:
    """No operator, no port, no state."""
    spec = cache()
    undo = spec.ops[0].outputs[0]
    assert refusal(change_op(1, inputs=(undo, spec.ops[0].inputs[2]))) == "op_type"
    seen = replace(spec.outputs[0], tensor=undo)
    assert refusal(replace(spec, outputs=(seen, spec.outputs[1]))) == "port_tensor"


def test_what_undoes_a_write_keeps_its_bytes_to_the_end() -> None:
    """A later tensor in the place of the rows, or of the indices, is refused."""
    spec = cache()
    for tensor in (spec.ops[0].outputs[0], spec.ops[0].inputs[1]):
        last = spec.ops[-1].outputs[0]
        tensors = list(spec.tensors)
        tensors[last] = replace(tensors[last], offset=tensors[tensor].offset)
        ends = [t.offset + t.size_bytes for t in tensors if t.storage.name == "ARENA"]
        planned = replace(spec, tensors=tuple(tensors), arena_bytes=-(-max(ends) // 64) * 64)
        assert refusal(planned) == "plan_overlap"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"attributes": (2, 0)}, "op_attribute"),
        ({"attributes": (-1, 0)}, "op_attribute"),
        ({"attributes": (0, 2)}, "op_attribute"),
        ({"attributes": (1, 0)}, "op_shape"),
    ],
)
def test_rows_that_are_none_of_the_state_are_refused(fields: dict[str, Any], code: str) -> None:
    """An axis that there is not, or along which the rows have another shape."""
    assert refusal(change_op(0, **fields)) == code


def test_a_reader_gives_back_a_state_that_is_its_own_update() -> None:
    """The spec survives the bytes."""
    spec = cache()
    assert read_spec(write_program(spec)) == spec
