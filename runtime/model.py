"""How does an app run a program?  `load` it once, call it from any thread, or keep a session for each thread.

load(path | bytes) ─▶ Model ──session()──▶ Session ──(inputs)──▶ list of arrays
"""

import os
import threading
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from alcove.runtime import _native
from alcove.runtime.format.spec import DType

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_IDLE_SESSIONS = 4
"""Sessions that a model keeps for calls from several threads; each takes `memory_ceiling_bytes`."""


@dataclass(frozen=True)
class Port:
    """An input or output of a program.

    Attributes:
        name: what errors call it.
        dtype: type of the elements; TEXT for `str` or UTF-8 `bytes`.
        shape: dimensions; () for TEXT.
        is_ragged: the leading dimension is an upper bound.
        labels: names of the indices of an output; such an output comes back as names. Empty for others.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    is_ragged: bool
    labels: tuple[str, ...]


class Session:
    """Runs a model with memory of its own; one thread at a time. `Model.session()` makes it."""

    __slots__ = ("_labels", "_native")

    def __init__(self, native: "_native.NativeSession", labels: "tuple[tuple[int, NDArray[np.str_]], ...]") -> None:
        self._native = native
        self._labels = labels

    def __call__(self, *inputs: Any) -> "list[NDArray[Any]]":
        """Return the outputs for one set of inputs, as new arrays.

        Args:
            inputs: one for each input port: text as `str` or UTF-8 `bytes`, else an array of the port's type and shape.
                Arrays that are not contiguous are copied; no type is converted.

        Raises:
            InputError: wrong number, type or shape, or an index outside the table that it picks from.
            InvalidTextError: a text is not UTF-8.
            SessionBusyError: another thread is running it.
        """
        outputs = self._native(*inputs)
        for index, labels in self._labels:
            outputs[index] = labels.take(outputs[index])
        return outputs


class Model:
    """A verified program, ready to run; immutable, safe for several threads. `load` makes it.

    Attributes:
        inputs: what a call takes, in order.
        outputs: what a call returns, in order.
    """

    def __init__(self, native: "_native.NativeModel") -> None:
        self._native = native
        self.inputs = tuple(_port(*fields) for fields in native.inputs)
        self.outputs = tuple(_port(*fields) for fields in native.outputs)
        self._labels = tuple((index, np.array(port.labels)) for index, port in enumerate(self.outputs) if port.labels)
        self._idle: list[Session] = []
        self._lock = threading.Lock()

    def __call__(self, *inputs: Any) -> "list[NDArray[Any]]":
        """Return the outputs for one set of inputs; see `Session.__call__`. Threads don't wait for each other.

        Raises:
            InputError: wrong number, type or shape, or an index outside the table that it picks from.
            InvalidTextError: a text is not UTF-8.
        """
        with self._lock:
            session = self._idle.pop() if self._idle else None
        session = session or self.session()
        try:
            return session(*inputs)
        finally:
            with self._lock:
                if len(self._idle) < MAX_IDLE_SESSIONS:
                    self._idle.append(session)

    def session(self) -> Session:
        """Return a new session; it allocates `memory_ceiling_bytes`, and nothing after that.

        Raises:
            MemoryError: the system gave none.
        """
        return Session(self._native.session(), self._labels)

    def verify_weights(self) -> None:
        """Compare the weights with their digest: at installation, not at every load.

        Raises:
            ProgramError: they differ.
        """
        self._native.verify_weights()

    @property
    def memory_ceiling_bytes(self) -> int:
        """What each session allocates: arena, inputs and outputs, bookkeeping."""
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
    any other is read whole, so that whoever can change it cannot change what was checked.

    Args:
        program: path of an `.alc` file, or its bytes.

    Raises:
        ProgramError: the bytes are no valid program.
        IsaError: ALCOVE_ISA names an instruction set that is unknown or that this machine lacks.
        OSError: the file cannot be read.
        ValueError: the path holds a null byte.
    """
    if isinstance(program, bytes):
        return Model(_native.open_bytes(program))
    return Model(_native.open_file(os.fsencode(program)))


def _port(name: str, dtype: int, shape: tuple[int, ...], is_ragged: bool, labels: tuple[str, ...]) -> Port:
    return Port(name, DType(dtype), shape, is_ragged, labels)
