"""A model serves many threads at once; a session serves one, and refuses a second with a typed error."""

import resource
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from alcove.runtime import SessionBusyError, load
from alcove.runtime.format.spec import DType
from alcove.runtime.model import MAX_IDLE_SESSIONS
from alcove.runtime.testing import PLAIN_LINEAR, Assembly, samples

TEXTS = [f"Wo ist der {word}?" for word in ("Bahnhof", "Markt", "Hafen", "Turm", "Park", "Zoo", "Dom")]


def resident_bytes() -> int:
    """Memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def slow_program() -> bytes:
    """A program whose run takes milliseconds: [512, 256] times [256, 256]."""
    build = Assembly()
    weight = build.panels("weight", np.ones((256, 256), np.float32), np.zeros(256, np.float32))
    x = build.input("x", DType.F32, (512, 256))
    build.output("y", build.op("linear", [x, weight], (DType.F32, (512, 256)), attributes=PLAIN_LINEAR)[0])
    return build.program()


def test_a_model_answers_many_threads_as_it_answers_one() -> None:
    """Eight threads, every text many times: equal answers, and only a few idle sessions are kept."""
    model = load(samples()["classifier_int8"])
    expected = {text: [out.tolist() for out in model(text)] for text in TEXTS}
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda text: (text, [out.tolist() for out in model(text)]), TEXTS * 100))
    assert all(answer == expected[text] for text, answer in answers)
    assert len(model._idle) <= MAX_IDLE_SESSIONS


def test_a_session_refuses_a_second_thread_while_it_runs() -> None:
    """A typed error, at once; the first thread's answer is right, and the session works afterwards."""
    session = load(slow_program()).session()
    x = np.ones((512, 256), np.float32)
    refused = threading.Event()
    wrong: list[float] = []

    def run() -> None:
        while not refused.is_set():
            try:
                (y,) = session(x)
            except SessionBusyError:
                refused.set()
            else:
                wrong.extend(y[y != 256].tolist())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert refused.is_set()
    assert not wrong
    assert (session(x)[0] == 256).all()


def test_three_hundred_sessions_live_side_by_side() -> None:
    """Each with its own memory and the same answer."""
    model = load(samples()["classifier_int8"])
    sessions = [model.session() for _ in range(300)]
    expected = model(TEXTS[0])[0].tolist()
    for session in sessions[::-1]:
        session(TEXTS[1])
    assert all(session(TEXTS[0])[0].tolist() == expected for session in sessions)


def test_opening_and_closing_leaks_nothing() -> None:
    """Thousands of models, sessions and errors leave the process as large as it was."""
    program = samples()["classifier_int8"]

    def round_trip() -> None:
        model = load(program)
        session = model.session()
        session("a")
        with pytest.raises(Exception, match="UTF-8"):
            session(b"\xff")
        with pytest.raises(Exception, match="digest"):
            load(program[:40] + b"xxxx" + program[44:])

    for _ in range(200):
        round_trip()
    before = resident_bytes()
    for _ in range(2000):
        round_trip()
    grown = resident_bytes() - before
    assert grown < 4 << 20, f"2000 rounds of 22 kB programs grew the process by {grown} bytes"


def test_a_session_that_gets_no_memory_is_a_memory_error() -> None:
    """Under a limit of address space: MemoryError, not a crash."""
    code = """
import resource
import numpy as np
from alcove.runtime import load
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
build = Assembly()
build.output("x", build.input("x", DType.U8, (200 << 20,)))
model = load(build.program())
assert model.memory_ceiling_bytes == (200 << 20) + 64
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (100 << 20), resource.RLIM_INFINITY))
try:
    model.session()
except MemoryError as error:
    print("refused:", error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.startswith("refused: the system gave no 209715264 bytes")
