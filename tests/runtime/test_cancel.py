"""Runs that another thread cancels: how they end, and what they leave behind."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from alcove.runtime import Cancellation, Model, RunCancelledError, load
from alcove.runtime.cancellation import Alarm
from alcove.runtime.format.spec import DType
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import PLAIN_LINEAR, Assembly, counter

WIDTH = 512


def deep(layers: int) -> Model:
    """A program of `layers` products of [256, 512] with [512, 512]: about a millisecond each."""
    build = Assembly()
    random = np.random.default_rng(3)
    weight = build.panels(
        "w", random.standard_normal((WIDTH, WIDTH), np.float32) / np.float32(23), np.zeros(WIDTH, np.float32)
    )
    x = build.input("x", DType.F32, (256, WIDTH))
    for _ in range(layers):
        (x,) = build.op("linear", [x, weight], (DType.F32, (256, WIDTH)), attributes=PLAIN_LINEAR)
    build.output("y", x)
    return load(build.program())


INPUT = np.ones((256, WIDTH), np.float32)


def in_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[BaseException]]:
    """Begin `work`; what it raises is in the list when the thread has ended."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, raised


def test_cancelled_session_refuses_runs_until_it_is_taken_back() -> None:
    """Before a run, twice; then it answers as ever."""
    session = deep(2).session()
    (expected,) = session(INPUT)
    session.cancel()
    for _ in range(2):
        with pytest.raises(RunCancelledError):
            session(INPUT)
    session.uncancel()
    assert session(INPUT)[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("threads", [1, 3])
def test_run_at_hand_ends_long_before_its_end(threads: int) -> None:
    """A thread that begins one run after the other gets the error; the session works afterwards."""
    model = deep(400)
    session = model.session(threads=threads)
    begun = threading.Event()

    def run() -> None:
        while True:
            begun.set()
            session(INPUT)

    thread, raised = in_thread(run)
    begun.wait(60)
    session.cancel()
    thread.join(60)
    assert not thread.is_alive()
    assert [type(error) for error in raised] == [RunCancelledError]
    session.uncancel()
    assert np.isfinite(session(INPUT)[0]).all()


def test_state_is_as_before_a_run_that_was_stopped() -> None:
    """What a model keeps changes with runs that succeed alone."""
    model = load(write_program(counter()))
    session, other = model.session(), model.session()
    inputs = [np.zeros(port.shape, np.float32) for port in model.inputs]
    session(*inputs)
    other(*inputs)
    session.cancel()
    with pytest.raises(RunCancelledError):
        session(*inputs)
    session.uncancel()
    assert [out.tobytes() for out in session(*inputs)] == [out.tobytes() for out in other(*inputs)]


def test_cancellation_stops_what_is_joined_and_what_comes_later_and_nothing_that_has_left() -> None:
    """C1 and C2; sessions that it stopped serve other calls."""
    model = deep(2)
    (expected,) = model(INPUT)
    first = Cancellation()
    assert model.run([INPUT], first)[0].tobytes() == expected.tobytes()
    first.cancel()
    assert model(INPUT)[0].tobytes() == expected.tobytes()
    for _ in range(3):
        with pytest.raises(RunCancelledError):
            model.run([INPUT], first)
    assert model.run([INPUT], Cancellation())[0].tobytes() == expected.tobytes()
    assert len(model._idle) == 1


def test_a_cancellation_over_another_ends_both() -> None:
    """Who closes stops each run with a deadline of its own."""
    model, closing, late = deep(400), Cancellation(), Cancellation()
    begun = threading.Event()

    def run() -> None:
        with closing.over(late):
            while True:
                begun.set()
                model.run([INPUT], late)

    thread, raised = in_thread(run)
    begun.wait(60)
    closing.cancel()
    thread.join(60)
    assert [type(error) for error in raised] == [RunCancelledError]
    assert late.is_cancelled


def test_alarm_calls_what_outlasts_its_time_once_and_nothing_that_has_ended() -> None:
    """The same thread serves one block after another, and is gone after `close`."""
    alarm, called = Alarm(), threading.Event()
    with alarm.after(3600, lambda: pytest.fail("it had ended before")):
        pass
    count: list[int] = []

    def note() -> None:
        count.append(1)
        called.set()

    with alarm.after(0.001, note):
        assert called.wait(30)
    with alarm.after(3600, note):
        pass
    assert count == [1]
    alarm.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "alcove-alarm"]


def test_alarm_sleeps_through_blocks_that_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream sets it at every frame: its thread gets a turn at the first deadline, and for one that is earlier."""
    alarm, called = Alarm(), threading.Event()
    turns: list[int] = []
    notify = alarm._changed.notify

    def count() -> None:
        turns.append(1)
        notify()

    monkeypatch.setattr(alarm._changed, "notify", count)
    for _ in range(100):
        with alarm.after(3600, lambda: pytest.fail("it had ended before")):
            pass
    assert len(turns) == 1
    with alarm.after(0.001, called.set):
        assert called.wait(30)
    assert len(turns) == 2
    alarm.close()


def test_large_products_in_pieces_give_the_same_bytes() -> None:
    """Beyond 2**28 multiply-adds a product is computed in pieces: by rows, by panels, by bands."""
    random = np.random.default_rng(5)
    build = Assembly()
    weight = random.standard_normal((600, 600), np.float32)
    x = build.input("x", DType.F32, (1500, 600))
    panels = build.panels("w", weight, np.ones(600, np.float32))
    build.output("y", build.op("linear", [x, panels], (DType.F32, (1500, 600)), attributes=PLAIN_LINEAR)[0])
    right = build.constant("right", np.ascontiguousarray(weight.T))
    room = (DType.U8, (1 << 20,))
    build.output("z", build.op("matmul", [x, right], (DType.F32, (1500, 600)), room, attributes=(0,))[0])
    model = load(build.program())
    rows = random.standard_normal((1500, 600), np.float32)
    whole, product = model(rows)
    for first in (0, 7, 720, 1490):
        some = np.zeros_like(rows)
        some[first : first + 10] = rows[first : first + 10]
        part = model(some)
        assert part[0][first : first + 10].tobytes() == whole[first : first + 10].tobytes()
        assert part[1][first : first + 10].tobytes() == product[first : first + 10].tobytes()
    np.testing.assert_allclose(whole - 1, product, rtol=2e-4, atol=2e-4)


def test_large_convolution_in_pieces_gives_the_bytes_of_small_ones() -> None:
    """Four images that are computed in bands, and each alone, which is small enough not to be."""

    def convolution(batch: int) -> Model:
        build = Assembly()
        weight = np.random.default_rng(6).standard_normal((64, 9 * 64), np.float32)
        x = build.input("x", DType.F32, (batch, 48, 48, 64))
        panels = build.panels("w", weight, np.ones(64, np.float32))
        window = (3, 3, 1, 1, 1, 1, 1, 1, 1, 1)
        room = (DType.U8, (1 << 20,))
        shape = (DType.F32, (batch, 48, 48, 64))
        build.output("y", build.op("conv2d", [x, panels], shape, room, attributes=(*window, 1, 0, 0, 0.0, 0.0))[0])
        return load(build.program())

    images = np.random.default_rng(7).standard_normal((4, 48, 48, 64), np.float32)
    alone = convolution(1)
    (together,) = convolution(4)(images)
    assert together.tobytes() == b"".join(alone(image[None])[0].tobytes() for image in images)


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ((5_000_000,), (0,)),
        ((3, 2_000_000), (1, 0)),
        ((2, 3, 1, 1_500_000), (2, 3, 1, 0)),
        ((3000, 3000), (1, 0)),
        ((2, 5_000_000), (0, 1)),
    ],
)
def test_large_copies_in_pieces_are_numpys(shape: tuple[int, ...], order: tuple[int, ...]) -> None:
    """Above four million elements a walk is taken in pieces, along whichever dimension; backwards too."""
    values = np.random.default_rng(8).integers(-128, 128, shape, np.int8)
    sign = -1 if len(shape) > 1 else 1
    strides = [sign * step for step in values.strides]
    offset = sum((size - 1) * step for size, step in zip(shape, values.strides, strict=True)) if sign < 0 else 0
    walk = (offset, *(strides[axis] for axis in order), *(0,) * (8 - len(order)))
    build = Assembly()
    x = build.input("x", DType.I8, shape)
    result = tuple(shape[axis] for axis in order)
    build.output("y", build.op("as_strided_copy", [x], (DType.I8, result), attributes=walk)[0])
    expected = (values[(slice(None, None, -1),) * len(shape)] if sign < 0 else values).transpose(order)
    assert np.array_equal(load(build.program())(values)[0], expected)
