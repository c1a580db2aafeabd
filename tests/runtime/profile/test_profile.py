"""A profile has the times of its run, lower bounds measured on the machine, and a trace in the viewers' format."""

import contextlib
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from alcove.runtime import InputError, InvalidTextError, SessionBusyError, _native, load
from alcove.runtime.format.reader import read_spec
from alcove.runtime.profile import Machine, Profile, calibrate, profile_program, trace_json
from alcove.runtime.profile.fused import parts_of
from alcove.runtime.profile.trace import held_bytes
from alcove.runtime.testing import Assembly, samples
from alcove.runtime.testing_ops import op_samples

TEXT = "Wo ist der Bahnhof?"


@pytest.fixture(scope="module")
def machine() -> Machine:
    """This one, measured once."""
    return calibrate()


@pytest.fixture(scope="module")
def profile(machine: Machine) -> Profile:
    """Of a text model."""
    return profile_program(samples()["classifier_int8"], [TEXT], runs=9, machine=machine)


def test_marks_rise_and_a_marked_run_answers_as_any_other(profile: Profile) -> None:
    """Operators and two more for each run, never going back; the session gives the same bits afterwards."""
    session = load(samples()["classifier_int8"]).session()
    before = session(TEXT)
    timestamps = session.timestamps([TEXT], 5)
    assert timestamps.shape == (5, len(read_spec(samples()["classifier_int8"]).ops) + 2)
    assert timestamps.dtype == np.int64
    assert (np.diff(timestamps.ravel()) >= 0).all()
    for one, other in zip(before, session(TEXT), strict=True):
        assert one.tobytes() == other.tobytes()


def test_marked_runs_change_what_a_model_keeps_as_runs_do() -> None:
    """Five profiled runs of a counter are five runs."""
    session, profiled = (load(samples()["counter"]).session() for _ in range(2))
    values = [
        np.ones(port.shape, np.float32) if port.dtype.name == "F32" else np.ones(port.shape, np.int64)
        for port in load(samples()["counter"]).inputs
    ]
    for _ in range(5):
        session(*values)
    profiled.timestamps(values, 5)
    for one, other in zip(session(*values), profiled(*values), strict=True):
        assert one.tobytes() == other.tobytes()


def test_wrong_inputs_and_counts_of_profiled_runs_are_reported() -> None:
    """The same errors as a call; too many timestamps are refused before memory is allocated for them."""
    session = load(samples()["classifier_int8"]).session()
    for runs in (0, 1 << 40):
        with pytest.raises(InputError, match="runs; allowed are 1 to"):
            session.timestamps([TEXT], runs)
    with pytest.raises(InputError, match="takes 1 input, got 2"):
        session.timestamps([TEXT, TEXT], 1)
    with pytest.raises(InvalidTextError):
        session.timestamps([b"\xff"], 1)
    assert session(TEXT)


def two_products() -> tuple[bytes, list[Any]]:
    """A product that takes a while, one that has a 512th of its work, and their input."""
    build = Assembly()
    x = build.input("x", _dtype("F32"), (64, 512))
    wide = build.panels("wide", np.ones((512, 512), np.float32), np.zeros(512, np.float32))
    (y,) = build.op("linear", [x, wide], (_dtype("F32"), (64, 512)), attributes=(0, 0, 0.0, 0.0))
    tiny = build.panels("tiny", np.ones((1, 512), np.float32), np.zeros(1, np.float32))
    (z,) = build.op("linear", [y, tiny], (_dtype("F32"), (64, 1)), attributes=(0, 0, 0.0, 0.0))
    build.output("z", z)
    return build.program(), [np.ones((64, 512), np.float32)]


@pytest.mark.thorough
def test_a_second_thread_is_refused_while_runs_are_marked() -> None:
    """The typed error of any call, and the profiled runs continue."""
    program, argument = two_products()
    session = load(program).session()
    refused = threading.Event()
    done = threading.Event()

    def call() -> None:
        while not (done.is_set() or refused.is_set()):
            try:
                session(*argument)
                done.wait(0.001)  # else it may hold the session whenever the other asks
            except SessionBusyError:
                refused.set()

    thread = threading.Thread(target=call)
    thread.start()
    profiled = 0
    try:
        while not refused.wait(0.0001) and profiled < 10_000:
            with contextlib.suppress(SessionBusyError):  # the other one was first
                profiled += len(session.timestamps(argument, 20))
    finally:
        done.set()
        thread.join()
    assert refused.is_set()
    assert profiled


def test_shares_add_up_and_every_operator_has_its_line(profile: Profile) -> None:
    """Times are those of the operators in order; modules are what weights are named after."""
    spec = read_spec(samples()["classifier_int8"])
    assert [op.op for op in profile.ops] == [op.name for op in spec.ops]
    assert [op.source for op in profile.ops] == [op.source for op in spec.ops]
    assert sum(op.share for op in profile.ops) == pytest.approx(1)
    assert sum(op.time_us for op in profile.ops) == pytest.approx(profile.ops_us)
    assert all(op.time_us >= 0 for op in profile.ops)
    assert profile.call_us > 0
    assert profile.outside_us == pytest.approx(max(0.0, profile.call_us - profile.ops_us))


def test_floors_are_the_greater_of_arithmetic_and_bytes() -> None:
    """On a made machine: 10 operations and 1 byte a nanosecond, then the other way round."""
    build = Assembly()
    x = build.input("x", _dtype("F32"), (8, 64))
    weights = build.panels("w", np.ones((64, 64), np.float32), np.zeros(64, np.float32))
    (y,) = build.op("linear", [x, weights], (_dtype("F32"), (8, 64)), attributes=(0, 0, 0.0, 0.0))
    build.output("y", y)
    program, argument = build.program(), [np.ones((8, 64), np.float32)]
    flops, moved = 2 * 8 * 64 * 64, 4 * (65 * 64 + 2 * 8 * 64)
    slow_reads = Machine("made", 1, 10.0, 20.0, ((1 << 30, 1.0),), 0.0)
    (op,) = profile_program(program, argument, runs=3, machine=slow_reads).ops
    assert op.bound == "memory"
    assert op.floor_us == pytest.approx(moved / 1000)
    slow_sums = replace(slow_reads, reads=((1 << 30, 100.0),), f32_gflops=1.0)
    (op,) = profile_program(program, argument, runs=3, machine=slow_sums).ops
    assert op.bound == "compute"
    assert op.floor_us == pytest.approx(flops / 1000)
    assert op.roofline == pytest.approx(op.floor_us / op.time_us)
    assert op.work.flops == flops


def _dtype(name: str) -> Any:
    from alcove.runtime.format.spec import DType

    return DType[name]


def test_time_is_put_down_to_the_operator_that_took_it(machine: Machine) -> None:
    """A product beside one that has a 512th of its work: the first has the most."""
    program, argument = two_products()
    found = profile_program(program, argument, runs=9, machine=machine)
    assert found.ops[0].share > 0.5
    assert found.ops[0].roofline > 0


def test_calibration_measures_all_rates_of_a_machine(machine: Machine) -> None:
    """All are there, a block has the rate of the smallest that holds it, and the largest stands for all beyond."""
    assert machine.isa == _native.isa()
    assert machine.f32_gflops > 0
    assert machine.i8_gops > 0
    assert all(rate > 0 for _, rate in machine.reads)
    assert machine.bandwidth(machine.reads[0][0] + 1) == machine.reads[1][1]
    assert 0 < machine.clock_ns < 10_000
    assert machine.bandwidth(1) == machine.reads[0][1]
    assert machine.bandwidth(1 << 40) == machine.reads[-1][1]
    assert machine.peak("i8") == machine.i8_gops


def test_rates_of_what_there_is_not_are_refused() -> None:
    """A type without a peak, a block of no size or beyond all memory."""
    with pytest.raises(ValueError, match="f32 or i8"):
        _native.peak_rate("f64", 1000)
    for size in (0, 1 << 40):
        with pytest.raises(ValueError, match="1 to 2\\^30"):
            _native.read_rate(size, 1000)


def test_a_trace_holds_run_modules_operators_and_memory(profile: Profile) -> None:
    """As the trace format has it: slices with times in microseconds, inside each other, and a counter at each step."""
    trace = json.loads(trace_json(profile, "classifier"), parse_constant=_no_constant)
    events = trace["traceEvents"]
    slices = {track: [e for e in events if e["ph"] == "X" and e["cat"] == track] for track in ("run", "modules", "ops")}
    (run,) = slices["run"]
    assert [e["name"] for e in slices["ops"]] == [op.op for op in profile.ops]
    assert all(e["args"]["source"] == op.source for e, op in zip(slices["ops"], profile.ops, strict=True))
    end = 0.0
    for event in slices["ops"]:
        assert event["ts"] >= end - 1e-9
        end = event["ts"] + event["dur"]
    assert run["ts"] == 0
    assert end <= run["dur"] + 1e-9
    assert sum(len(e["args"]["ops"]) for e in slices["modules"]) == len(profile.ops)
    counters = [e for e in events if e["ph"] == "C"]
    assert len(counters) == len(profile.ops) + 1
    assert all(sum(e["args"].values()) == profile.spec.arena_bytes for e in counters)
    assert {e["args"]["name"] for e in events if e["name"] == "thread_name"} == {"run", "modules", "ops"}


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@pytest.mark.parametrize("name", sorted(samples() | op_samples()))
def test_held_bytes_never_exceed_the_arena(name: str) -> None:
    """At each step of every program whose sizes are known."""
    spec = read_spec((samples() | op_samples())[name])
    if spec.symbols:
        return
    held = held_bytes(spec)
    assert len(held) == len(spec.ops)
    assert all(0 <= used <= spec.arena_bytes for used in held)
    assert not held or max(held) > 0


def test_what_was_fused_is_reported_in_order() -> None:
    """Of the samples of images: blocks of convolutions, gates, and what follows a product."""
    fused = {tuple(parts_of(op)) for name in op_samples() for op in read_spec(op_samples()[name]).ops}
    flat = {part for parts in fused for part in parts}
    assert any(parts[0] == "conv2d 1x1" and parts[-1] != parts[0] for parts in fused)
    assert any("mean" in parts and "mul" in parts for parts in fused)
    assert {"add", "clamp"} <= flat


def test_threads_are_profiled_as_one_is(tmp_path: Path) -> None:
    """Two threads: the same operators and work, compared with the rates of two."""
    machine = Machine("made", 2, 10.0, 20.0, ((1 << 30, 1.0),), 0.0)
    one = profile_program(samples()["classifier_int8"], [TEXT], runs=3, machine=replace(machine, threads=1))
    two = profile_program(samples()["classifier_int8"], [TEXT], runs=3, threads=2, machine=machine)
    assert [op.work for op in one.ops] == [op.work for op in two.ops]
    assert two.machine.threads == 2
