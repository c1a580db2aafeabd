"""Measures each operator's time in a run, beside what it has to do and what the machine allows.

    timestamps of N runs ─▶ median of each operator, less the clock's time ─▶ beside its work and the machine's rates

An operator's floor is the greater of its multiply-adds at the machine's peak, and its bytes at the rate of a block as
large as what they lie in: weights in weights and arena together, everything else in the arena.  `roofline` is that
floor beside the time; above 1 for what was nearer than its block.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from alcove.runtime import _native
from alcove.runtime.errors import InputError
from alcove.runtime.format.attributes import NgramHashAttributes
from alcove.runtime.format.fixed import at_sizes, sizes_of
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import DType, OpSpec, ProgramSpec, Storage, TensorSpec
from alcove.runtime.model import Session, load
from alcove.runtime.profile.machine import Machine, calibrate
from alcove.runtime.profile.work import Work, work_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OpProfile", "Profile", "module_of", "profile_program", "shape_text"]

WARM_UP: Final = 3
_TURNS: Final = 20
_CALL_NS: Final = 50_000
"""Short calls are timed in groups of about this long."""


@dataclass(frozen=True)
class OpProfile:
    """One operator in one run.

    Attributes:
        index: which one, from 0.
        op: its name.
        source: line of the model that asked for it; may be empty.
        module: what its weights are named after, or else its line.
        shapes: of its inputs that are no constants, and of its outputs.
        time_us: median over the runs.
        share: of the time of all operators.
        work: what it had to do.
        floor_us: what the machine needs for that at least; 0 for what moves nothing.
        bound: what the floor is: "compute", "memory", or "" for none.
    """

    index: int
    op: str
    source: str
    module: str
    shapes: str
    time_us: float
    share: float
    work: Work
    floor_us: float
    bound: str

    @property
    def roofline(self) -> float:
        """How near to the floor it was: 1 is as fast as the machine; 0 if there is no floor."""
        return self.floor_us / self.time_us if self.time_us else 0.0


@dataclass(frozen=True)
class Profile:
    """A program's runs with one set of inputs.

    Attributes:
        digest: of the program.
        machine: the rates that it is compared with.
        runs: how many.
        sizes: of each symbol, by name.
        ops: in the order in which they run.
        ops_us: of all of them together.
        states_us: median of what comes after the last one: states change.
        call_us: median of a whole call from Python, without timestamps: inputs are copied in, outputs out.
        spec: the program at these sizes.
        timestamps_ns: of the run whose length is the median, from its first one on, [ops + 2].
    """

    digest: str
    machine: Machine
    runs: int
    sizes: Mapping[str, int]
    ops: tuple[OpProfile, ...]
    ops_us: float
    states_us: float
    call_us: float
    spec: ProgramSpec
    timestamps_ns: "NDArray[np.int64]"

    @property
    def outside_us(self) -> float:
        """Of a call, what is spent outside operators: inputs, states, outputs, the call itself."""
        return max(0.0, self.call_us - self.ops_us)


def profile_program(
    program: bytes,
    inputs: Sequence[Any],
    *,
    runs: int = 100,
    threads: int = 1,
    machine: Machine | None = None,
    method: str | None = None,
) -> Profile:
    """Return where the time of runs with these inputs goes.

    What the program keeps goes on from run to run, and begins anew when it is full.

    Args:
        program: its bytes.
        inputs: one for each input port, as a `Session` takes them.
        runs: how many are measured, at least 1.
        threads: of the session, 1 to 16.
        machine: the rates that it is compared with; measured now if it is None.
        method: one of the program's; None for the first.

    Raises:
        ProgramError: the bytes are no valid program.
        ArgumentError: the program has no such method.
        InputError: the inputs don't fit it, or there are too many runs for one answer.
        InvalidTextError: a text is not UTF-8.
    """
    model = load(program)
    model = model if method is None else model.method(method)
    session = model.session(threads=threads)
    machine = machine or calibrate(threads)
    whole = read_spec(program).find_method(model.name)
    for _ in range(WARM_UP):
        _call(session, inputs)
    timestamps, call_us = _measure(session, inputs, runs)
    sizes = sizes_of(whole, [np.shape(argument) for argument in inputs])
    spec = at_sizes(whole, sizes)
    steps = np.maximum(np.median(np.diff(timestamps, axis=1), axis=0) - machine.clock_ns, 0.0) / 1000
    totals = timestamps[:, -1] - timestamps[:, 0]
    middle = int(np.argsort(totals, kind="stable")[runs // 2])
    ops_us = float(steps[:-1].sum())
    return Profile(
        digest=model.digest,
        machine=machine,
        runs=runs,
        sizes={symbol.name: size for symbol, size in zip(whole.symbols, sizes, strict=True)},
        ops=_ops(spec, _rows_in_use(spec, inputs), [float(step) for step in steps[:-1]], machine),
        ops_us=ops_us,
        states_us=float(steps[-1]),
        call_us=call_us,
        spec=spec,
        timestamps_ns=timestamps[middle] - timestamps[middle, 0],
    )


def module_of(spec: ProgramSpec, op: OpSpec) -> str:
    """Return the module whose parameters an operator reads, as their names tell; else the line that asked for it."""
    paths = [path for index in op.inputs for path in _module_paths(spec.tensors[index])]
    if not paths:
        return op.source
    common = paths[0]
    for path in paths[1:]:
        common = [a for a, b in zip(common, path, strict=False) if a == b]
    return ".".join(common) or op.source


def shape_text(spec: ProgramSpec, indices: Sequence[int]) -> str:
    """Return types and shapes of tensors that are no constants, as "f32[1,8] i8[4]"."""
    tensors = [spec.tensors[index] for index in indices]
    return " ".join(_describe_type(tensor) for tensor in tensors if tensor.storage is not Storage.CONSTANT)


def _describe_type(tensor: TensorSpec) -> str:
    if tensor.dtype is DType.TEXT:
        return "text"
    dims = ",".join(map(str, tensor.shape))
    return f"{tensor.dtype.name.lower()}[{'≤' if tensor.is_ragged else ''}{dims}]"


def _module_paths(tensor: TensorSpec) -> list[list[str]]:
    """Return the modules that a constant's name tells of; "=" begins the names of what was computed."""
    if tensor.storage is not Storage.CONSTANT or tensor.name.startswith("="):
        return []
    parts = [part.partition(":")[0].split(".") for part in tensor.name.split("+")]
    return [part[:-1] for part in parts if len(part) > 1]


def _measure(session: Session, inputs: Sequence[Any], runs: int) -> "tuple[NDArray[np.int64], float]":
    """Return the timestamps of all runs and the median of a call, measured by turns so that noise affects both."""
    start = time.perf_counter_ns()
    _call(session, inputs)
    group = range(max(1, _CALL_NS // max(1, time.perf_counter_ns() - start)))
    turns = min(runs, _TURNS)
    timestamps, calls_ns = [], []
    for turn in range(turns):
        count = runs * (turn + 1) // turns - runs * turn // turns
        timestamps += _timestamps(session, inputs, count)
        for _ in range(count):
            start = time.perf_counter_ns()
            for _ in group:
                _call(session, inputs)
            calls_ns.append((time.perf_counter_ns() - start) / len(group))
    return np.concatenate(timestamps), statistics.median(calls_ns) / 1000


def _call(session: Session, inputs: Sequence[Any]) -> None:
    """Run once, in a session that begins anew if it has no place for these inputs."""
    try:
        session(*inputs)
    except InputError:
        session.reset()
        session(*inputs)


def _timestamps(session: Session, inputs: Sequence[Any], count: int) -> "list[NDArray[np.int64]]":
    """Return timestamps of so many runs; those that do not fit one after the other begin anew in between."""
    try:
        return [session.timestamps(inputs, count)]
    except InputError:
        session.reset()
        if count == 1:
            return [session.timestamps(inputs, 1)]
        half = count // 2
        return _timestamps(session, inputs, half) + _timestamps(session, inputs, count - half)


def _rows_in_use(spec: ProgramSpec, inputs: Sequence[Any]) -> dict[int, int]:
    """Return the rows of ragged tensors: of inputs as they were given, of ids as many as the text has."""
    rows = {
        port.tensor: np.shape(argument)[0]
        for port, argument in zip(spec.inputs, inputs, strict=True)
        if spec.tensors[port.tensor].is_ragged
    }
    given_to = {port.tensor: argument for port, argument in zip(spec.inputs, inputs, strict=True)}
    for op in spec.ops:
        if op.name == "ngram_hash":
            argument = NgramHashAttributes.from_numbers(op.attributes)
            orders = (argument.min_order, argument.max_order)
            capacity = spec.tensors[op.outputs[0]].shape[0]
            ids = _native.ngram_hash(given_to[op.inputs[0]], *orders, argument.buckets, argument.seed, capacity)
            rows[op.outputs[0]] = len(ids)
    return rows


def _ops(
    spec: ProgramSpec, rows: Mapping[int, int], times_us: Sequence[float], machine: Machine
) -> tuple[OpProfile, ...]:
    total = sum(times_us) or 1.0
    weights = sum(len(tensor.data) for tensor in spec.tensors)
    far, near = machine.bandwidth(weights + spec.arena_bytes), machine.bandwidth(spec.arena_bytes)
    found = []
    for index, (op, time_us) in enumerate(zip(spec.ops, times_us, strict=True)):
        work = work_of(spec, op, rows)
        compute = work.flops / machine.peak(work.arithmetic) / 1000
        memory = (work.weight_bytes / far + work.activation_bytes / near) / 1000
        floor = max(compute, memory)
        found.append(
            OpProfile(
                index=index,
                op=op.name,
                source=op.source,
                module=module_of(spec, op),
                shapes=f"{shape_text(spec, op.inputs)} → {shape_text(spec, op.outputs[:1])}".strip(),
                time_us=time_us,
                share=time_us / total,
                work=work,
                floor_us=floor,
                bound="" if not floor else "compute" if compute >= memory else "memory",
            )
        )
    return tuple(found)
