"""Several threads give the bits of one, also after a fork; threads that the system does not give are a typed error."""

import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.runtime import InputError, Model, ProgramError, SessionBusyError, load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import NUMPY_TYPES, PLAIN_LINEAR, Assembly, samples
from alcove.runtime.testing_ops import op_samples

THREADS = (1, 2, 3, 4, 16)


def linear(rows: int, outputs: int, inputs: int) -> bytes:
    """A program of one product."""
    random = np.random.default_rng(rows * outputs)
    build = Assembly()
    weight = build.panels(
        "weight", random.standard_normal((outputs, inputs), np.float32), random.standard_normal(outputs, np.float32)
    )
    x = build.input("x", DType.F32, (rows, inputs))
    build.output("y", build.op("linear", [x, weight], (DType.F32, (rows, outputs)), attributes=PLAIN_LINEAR)[0])
    return build.program()


def make_inputs(model: Model) -> list[Any]:
    """An input for each port, of its greatest shape: numbers around 0, or zeros where they may be indices; a text."""
    random = np.random.default_rng(3)
    return [
        random.standard_normal(port.shape, np.float32)
        if port.dtype is DType.F32
        else "the Ænther 42"
        if port.dtype is DType.TEXT
        else np.zeros(port.shape, NUMPY_TYPES[port.dtype])
        for port in model.inputs
    ]


def shared_out(model: Model, threads: int, inputs: Sequence[Any]) -> list[bytes]:
    """The answer of a session that shares out every op that it can, twice."""
    session = model._native.session(threads=threads, part_work=1)
    first = [out.tobytes() for out in session(*inputs)]
    session.reset()
    assert first == [out.tobytes() for out in session(*inputs)]
    return first


@pytest.mark.parametrize("name", sorted(op_samples()))
def test_any_number_of_threads_gives_the_same_bytes(name: str) -> None:
    """Every operator, with any op shared out that can be."""
    model = load(op_samples()[name])
    inputs = make_inputs(model)
    expected = shared_out(model, 1, inputs)
    for threads in THREADS:
        assert shared_out(model, threads, inputs) == expected


@pytest.mark.parametrize("rows", [1, 2, 5, 31, 32, 33, 64, 100])
def test_products_are_shared_out_by_rows_or_by_outputs(rows: int) -> None:
    """Outputs around panels; more threads than panels."""
    for outputs in (1, 15, 16, 17, 48, 100):
        model = load(linear(rows, outputs, 9))
        inputs = make_inputs(model)
        expected = shared_out(model, 1, inputs)
        for threads in THREADS:
            assert shared_out(model, threads, inputs) == expected


@pytest.mark.parametrize(
    ("left", "right"), [((1, 5, 7), (1, 5, 7)), ((1, 5, 7), (7,)), ((1, 1, 7), (5, 1)), ((3,), (1,)), ((), ())]
)
def test_functions_are_shared_out_by_elements_or_by_the_outermost_dimension(
    left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    """Operands that are repeated; results of one byte; more elements than a thread takes at a time."""
    build = Assembly()
    a, b = build.input("a", DType.F32, left), build.input("b", DType.F32, right)
    long = build.input("long", DType.F32, (3, 1000))
    shape = np.broadcast_shapes(left, right)
    for name, function, dtype in (("add", 1, DType.F32), ("lt", 25, DType.BOOL)):
        build.output(name, build.op("binary", [a, b], (dtype, shape), attributes=(function,))[0])
    for name, function, dtype in (("silu", 43, DType.F32), ("isnan", 51, DType.BOOL)):
        attributes = (function, 0.0, 0.0, 0.0)
        build.output(name, build.op("unary", [long], (dtype, (3, 1000)), attributes=attributes)[0])
    model = load(build.program())
    inputs = make_inputs(model)
    expected = shared_out(model, 1, inputs)
    for threads in THREADS:
        assert shared_out(model, threads, inputs) == expected


def test_large_ops_are_shared_out_without_being_asked() -> None:
    """With the work that is worth a thread, through the public interface."""
    model = load(linear(512, 256, 256))
    inputs = make_inputs(model)
    (alone,), (together,) = model.session()(*inputs), model.session(threads=2)(*inputs)
    assert alone.tobytes() == together.tobytes()


def reading_scratch(how: str) -> bytes:
    """A program in which something sees the scratch of a linear_qd8_qc8w."""
    build = Assembly()
    weight = build.constant("weight", np.zeros((1, 192), np.int8))
    x = build.input("x", DType.F32, (1, 4))
    y, scratch = build.op("linear_qd8_qc8w", [x, weight], (DType.F32, (1, 5)), (DType.U8, (8224,)))
    build.output("y", y)
    if how == "an output":
        build.output("scratch", scratch)
    else:
        build.output("seen", build.op("reshape", [scratch], (DType.U8, (8, 1028)))[0])
    return build.program()


@pytest.mark.parametrize(("how", "code"), [("an output", "port_tensor"), ("an input", "op_type")])
def test_what_threads_leave_in_scratch_cannot_be_seen(how: str, code: str) -> None:
    """It depends on their number; the program is refused."""
    with pytest.raises(ProgramError, match=f"{how} has the scratch of an op") as refused:
        load(reading_scratch(how))
    assert refused.value.code == code


@pytest.mark.parametrize("threads", [0, -1, 17, 1 << 32, 1 << 40])
def test_a_number_of_threads_out_of_range_is_refused(threads: int) -> None:
    """A typed error that names the bound and the value."""
    with pytest.raises(InputError, match=f"a session of {threads} threads; allowed are 1 to 16"):
        load(samples()["layers"]).session(threads=threads)


def test_scratch_of_threads_counts_as_the_sessions_memory() -> None:
    """The limit holds for it, and one thread takes what it took."""
    model = load(op_samples()["images"])
    alone, together = model.session(), model.session(threads=3)
    assert alone.memory_bytes == model.memory_ceiling_bytes
    scratch = together.memory_bytes - alone.memory_bytes
    assert scratch > 0
    assert model.session(threads=2).memory_bytes - alone.memory_bytes == scratch // 2
    assert model.session(threads=3, memory_limit_bytes=together.memory_bytes).memory_bytes == together.memory_bytes
    with pytest.raises(InputError, match="its limit is"):
        model.session(threads=3, memory_limit_bytes=together.memory_bytes - 1)


def test_a_session_with_threads_still_belongs_to_one_caller() -> None:
    """The second gets the error that it gets without threads; both are right when they take turns."""
    model = load(linear(512, 256, 256))
    session = model.session(threads=2)
    inputs = make_inputs(model)
    expected = session(*inputs)[0].tobytes()
    refused = threading.Event()

    def run() -> None:
        while not refused.is_set():
            try:
                assert session(*inputs)[0].tobytes() == expected
            except SessionBusyError:
                refused.set()

    callers = [threading.Thread(target=run) for _ in range(2)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert refused.is_set()
    assert session(*inputs)[0].tobytes() == expected


SESSIONS_COME_AND_GO = """
import os, sys
import numpy as np
from alcove.runtime import load

model = load(open(sys.argv[1], "rb").read())
inputs = [np.zeros(port.shape, np.float32) for port in model.inputs]
before = len(os.listdir("/proc/self/task"))
for count in range(50):
    session = model._native.session(threads=4, part_work=1)
    if count % 2 == 0:
        session(*inputs)
    del session
print(before, len(os.listdir("/proc/self/task")))
"""


def test_sessions_come_and_go_without_leaving_threads(tmp_path: Path) -> None:
    """As many threads as before, whether they ran or not; in a process of its own, where no other test has threads."""
    program = tmp_path / "program.alcv"
    program.write_bytes(linear(64, 64, 64))
    command = [sys.executable, "-c", SESSIONS_COME_AND_GO, str(program)]
    before, after = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert after == before


def _in_child(session: Any, inputs: list[Any], pipe: Any) -> None:
    pipe.send_bytes(session(*inputs)[0].tobytes())
    pipe.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_child_runs_alone_and_ends() -> None:
    """The same answer, and neither the run nor the session's end waits for threads that are not there."""
    model = load(linear(64, 64, 64))
    session, inputs = model._native.session(threads=4, part_work=1), make_inputs(model)
    expected = session(*inputs)[0].tobytes()
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(session, inputs, theirs))
    child.start()
    assert ours.poll(60)
    assert ours.recv_bytes() == expected
    child.join(60)
    assert child.exitcode == 0
    assert session(*inputs)[0].tobytes() == expected


def test_threads_that_the_system_does_not_give_are_a_typed_error() -> None:
    """With no room for their stacks; the process continues, and a session without threads works."""
    code = """
import resource
import numpy as np
from alcove.runtime import load
from alcove.runtime.testing import samples
model = load(samples()["layers"])
model.session(threads=2)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (12 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
try:
    model.session(threads=16)
except OSError as error:
    print(error)
model.session()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "of 16 threads" in done.stdout
