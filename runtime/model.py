"""Loads and runs programs: `load` one once, call it from any thread, or keep a session for each thread.

load(path | bytes) ─▶ Model ──session()──▶ Session ──(inputs)──▶ list of arrays
"""

import math
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from alcove.runtime import _native
from alcove.runtime.cancellation import Cancellation
from alcove.runtime.errors import ArgumentError, ProgramError
from alcove.runtime.format.spec import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_IDLE_SESSIONS = 4
"""Sessions that a model keeps for calls from several threads; each takes `memory_ceiling_bytes`."""


MAX_LABELLED_BYTES = 1 << 26
"""Bytes of an output of labels, at 4 a character of the longest name: 64 MiB, where the indices themselves take 2."""


@dataclass(frozen=True)
class Port:
    """An input or output of a program.

    Attributes:
        name: what errors call it.
        dtype: type of the elements; TEXT for `str` or UTF-8 `bytes`.
        shape: dimensions, at their greatest; () for TEXT.
        is_ragged: the leading dimension is an upper bound.
        labels: names of the indices of an output; such an output comes back as names. Empty for others.
        dims: the dimensions for people: "3", or "1..256" where the size comes with an input.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_ragged: bool
    labels: tuple[str, ...]
    dims: tuple[str, ...]


Labels: TypeAlias = "tuple[tuple[int, NDArray[np.str_]], ...]"
"""Of a method: which outputs are indices of names, and the names."""


class Session:
    """Runs a model with memory of its own; one thread at a time. `Model.session()` makes it.

    What the model keeps from run to run (`Model.states`) begins with the session; each run that succeeds changes it,
    whichever method it is of.
    """

    __slots__ = ("_labels", "_labels_of", "_model", "_native")

    def __init__(
        self, native: "_native.NativeSession", model: "_native.NativeModel", labels_of: Mapping[str, Labels]
    ) -> None:
        self._native = native
        self._model = model
        self._labels_of = labels_of
        self._labels = labels_of[model.name]

    def __call__(self, *inputs: Any) -> "list[NDArray[Any]]":
        """Return the outputs for one set of inputs, as new arrays.

        Args:
            inputs: one for each input port: text as `str` or UTF-8 `bytes`, else an array of the port's type and shape:
                numpy's, or anything with `__dlpack__`, as torch's tensors are, in the processor's memory. Arrays that
                do not lie row-major are copied; no type is converted.

        Raises:
            InputError: wrong number, type, shape or device, an index outside the table that it picks from, or sizes
                that take more memory than the session may.
            InvalidTextError: a text is not UTF-8.
            SessionBusyError: another thread is running it.
            RunCancelledError: the session was cancelled.
            MemoryError: the system gave none for these sizes.
        """
        return _with_names(self._native(*inputs), self._labels)

    def run(self, method: str, *inputs: Any) -> "list[NDArray[Any]]":
        """Return the outputs of one of the model's methods; a call runs the first.

        Args:
            method: one of `Model.methods`.
            inputs: as a call takes them, for the inputs of this method.

        Raises:
            ArgumentError: the model has no such method.
            InputError: as a call, and `InvalidTextError`, `SessionBusyError`, `RunCancelledError` and `MemoryError`.
        """
        if method not in self._labels_of:
            raise ArgumentError(f"the program has no method {method!r}; it has {', '.join(self._labels_of)}")
        return _with_names(self._native.run(method, inputs), self._labels_of[method])

    def method(self, method: str) -> "Callable[..., list[NDArray[Any]]]":
        """Return a function that runs one of the model's methods in this session, as `run` does.

        Raises:
            ArgumentError: the model has no such method.
        """
        if method not in self._labels_of:
            raise ArgumentError(f"the program has no method {method!r}; it has {', '.join(self._labels_of)}")
        return partial(self.run, method)

    def timestamps(self, inputs: Sequence[Any], runs: int, method: str | None = None) -> "NDArray[np.int64]":
        """Run several times, for a profile, and return when: nanoseconds of a steady clock, [runs, operators + 2].

        A run takes timestamps before its first operator, after each, and after its states have changed.

        Args:
            inputs: as a call takes them.
            runs: how many, at least 1; as the runs of calls, they change what the model keeps.
            method: one of `Model.methods`; None for the one that a call runs.

        Raises:
            InputError: as a call; or there would be more than 2**23 timestamps.
            InvalidTextError: a text is not UTF-8.
            SessionBusyError: another thread is running it.
            RunCancelledError: the session was cancelled.
            MemoryError: the system gave none for these sizes.
        """
        return self._native.record_timestamps(tuple(inputs), runs, method)

    @property
    def model(self) -> "Model":
        """The model that it runs."""
        return Model(self._model)

    def reset(self) -> None:
        """Make what the model keeps from run to run what it was when the session began.

        Raises:
            SessionBusyError: another thread is running it.
        """
        self._native.reset()

    def cancel(self) -> None:
        """Make the run at hand, and every later one until `uncancel`, end with `RunCancelledError`.

        May be called from any thread, and returns at once. A run looks at it between operators and within long ones
        (docs/robustness.md says how soon it ends); one that has ended already stays as it ended. What the model keeps
        from run to run is as before a run that was stopped.
        """
        self._native.cancel()

    def uncancel(self) -> None:
        """Allow runs that begin from now on."""
        self._native.uncancel()

    @property
    def memory_bytes(self) -> int:
        """What it has allocated; grows with the sizes of its inputs, up to the model's `memory_ceiling_bytes`."""
        return self._native.memory_bytes


class Model:
    """A verified program, ready to run; immutable, safe for several threads. `load` makes it.

    Attributes:
        inputs: what a call takes, in order.
        outputs: what a call returns, in order.
        states: names of what a session keeps from run to run.
        methods: names of the entry points; ("forward",) for most models.
        name: of the method that a call runs.
    """

    def __init__(self, native: "_native.NativeModel") -> None:
        self._native = native
        self.inputs = tuple(map(_port, native.inputs))
        self.outputs = tuple(map(_port, native.outputs))
        self.states = tuple(native.states)
        self.methods = tuple(native.methods)
        self.name = native.name
        self._labels = _labels(self.outputs)
        # Appending and popping are atomic, so that threads need no lock; when it is full the oldest goes.
        self._idle: deque[Session] = deque(maxlen=MAX_IDLE_SESSIONS)

    def __call__(self, *inputs: Any) -> "list[NDArray[Any]]":
        """Return the outputs for one set of inputs; see `Session.__call__`. Threads don't wait for each other.

        Nothing is kept from call to call: a model with states begins each call as a new session does.

        Raises:
            InputError: wrong number, type or shape, or an index outside the table that it picks from.
            InvalidTextError: a text is not UTF-8.
        """
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            if self.states:
                session.reset()
            return session(*inputs)
        finally:
            self._idle.append(session)

    def run(self, inputs: Sequence[Any], cancellation: Cancellation) -> "list[NDArray[Any]]":
        """Return what a call with these inputs returns, unless somebody stops it.

        Args:
            inputs: as a call takes them.
            cancellation: stops the run, from any thread.

        Raises:
            RunCancelledError: it was stopped, or there was no time to begin.
            InputError: as a call; `InvalidTextError` too.
        """
        try:
            session = self._idle.pop()
        except IndexError:
            session = self.session()
        try:
            with cancellation.over(session):
                if self.states:
                    session.reset()
                return session(*inputs)
        finally:
            session.uncancel()
            self._idle.append(session)

    def session(self, *, memory_limit_bytes: int | None = None, threads: int = 1) -> Session:
        """Return a new session.

        It allocates `memory_ceiling_bytes` and nothing after that; where sizes come with the inputs it begins with what
        the smallest take and grows when larger ones come.

        Args:
            memory_limit_bytes: most bytes that it may take; None for no limit but the model's ceiling.
            threads: how many compute large ops together, with the caller's; 1 to 16. Outputs are the same to the bit.
                Each beyond the first takes as much scratch memory as the op that needs most, beside
                `memory_ceiling_bytes`. They live as long as the session; in a forked child it computes alone.

        Raises:
            InputError: even the smallest sizes take more than `memory_limit_bytes`, or `threads` is out of range.
            MemoryError: the system gave none.
            OSError: the system gave no threads.
        """
        return Session(self._native.session(memory_limit_bytes, threads), self._native, self._labels_of)

    def method(self, name: str) -> "Model":
        """Return the model with another of its methods as the one that a call runs: its inputs, outputs and states.

        Raises:
            ArgumentError: there is no such method.
        """
        if name not in self.methods:
            raise ArgumentError(f"the program has no method {name!r}; it has {', '.join(self.methods)}")
        return Model(self._native.method(name))

    @cached_property
    def _labels_of(self) -> dict[str, Labels]:
        """The labels of each method, by its name."""
        if len(self.methods) == 1:
            return {self.methods[0]: self._labels}
        return {name: _labels(tuple(map(_port, self._native.method(name).outputs))) for name in self.methods}

    def verify_weights(self) -> None:
        """Compare the weights with their digest: at installation, not at every load.

        Raises:
            ProgramError: they differ.
        """
        self._native.verify_weights()

    @property
    def memory_ceiling_bytes(self) -> int:
        """What each session allocates, or grows to: arena, states, inputs and outputs, bookkeeping."""
        return self._native.memory_ceiling_bytes

    @property
    def is_mapped(self) -> bool:
        """Whether the file is mapped (it is ours, and nobody may write it) and not read."""
        return self._native.is_mapped

    @property
    def certificate(self) -> bytes:
        """The parity certificate inside the program; empty if there is none."""
        return self._native.certificate

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the whole program, 64 hexadecimal digits."""
        return self._native.digest().hex()


def load(program: str | os.PathLike[str] | bytes) -> Model:
    """Return the model in a file or in bytes, after verifying all of it but the weights' digest.

    A file that belongs to this user and that nobody may write is mapped, so its bytes are read when they are used;
    any other is read whole, so that a process that can change the file cannot change what was checked.

    Args:
        program: path of an `.alc` file, or its bytes.

    Raises:
        ProgramError: the bytes are no valid program, or its labels would take more than `MAX_LABELLED_BYTES`.
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
        OSError: the file cannot be read.
        ValueError: the path holds a null byte.
    """
    if isinstance(program, bytes):
        return Model(_native.open_bytes(program))
    return Model(_native.open_file(os.fsencode(program)))


def _with_names(outputs: "list[NDArray[Any]]", labels: Labels) -> "list[NDArray[Any]]":
    """Return the outputs with names in place of the indices of names."""
    for index, names in labels:
        outputs[index] = names.take(outputs[index])
    return outputs


def _labels(outputs: Sequence[Port]) -> Labels:
    return tuple((index, _label_array(port)) for index, port in enumerate(outputs) if port.labels)


def _label_array(port: Port) -> "NDArray[np.str_]":
    """Return the names of an output's indices; numpy gives each element as much room as the longest name takes."""
    labels = np.array(port.labels)
    size_bytes = math.prod(port.shape) * labels.itemsize
    if size_bytes > MAX_LABELLED_BYTES:
        raise ProgramError(
            "program",
            None,
            None,
            "port_labels",
            f"the labels of output {port.name!r} would take {size_bytes} bytes, the cap is {MAX_LABELLED_BYTES}",
        )
    return labels


def _port(fields: "_native.PortFields") -> Port:
    name, dtype, shape, is_ragged, labels, least = fields
    dims = tuple(str(high) if low == high else f"{low}..{high}" for low, high in zip(least, shape, strict=True))
    return Port(name, DType(dtype), shape, is_ragged, labels, dims)
