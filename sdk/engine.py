"""Loads and runs programs on a device, through a narrow protocol that tests can implement without a runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from alcove import __version__

if TYPE_CHECKING:
    from alcove.registry.program_verification import ProgramVerifier
    from alcove.runtime.cancellation import Cancellation
    from alcove.runtime.format.spec import DType
    from alcove.sdk.capability import Capability


class PortView(Protocol):
    """What is read of a program's input or output."""

    @property
    def name(self) -> str:
        """Return the port's name."""
        ...

    @property
    def dtype(self) -> "DType":
        """Return the type of its elements."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Return its dimensions, at their greatest; () for a text."""
        ...

    @property
    def is_ragged(self) -> bool:
        """Tell whether the first dimension is an upper bound."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names that an output chooses from; () where it has none."""
        ...

    @property
    def dims(self) -> tuple[str, ...]:
        """Return the dimensions for people: "3", or "1..256" where the size comes with an input."""
        ...


class Runnable(Protocol):
    """A loaded program; several threads may call it at a time."""

    @property
    def inputs(self) -> Sequence[PortView]:
        """Return the inputs, in the order that a call takes them."""
        ...

    @property
    def outputs(self) -> Sequence[PortView]:
        """Return the outputs, in the order that a call returns them."""
        ...

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the outputs for one set of inputs.

        Raises:
            InputError: the inputs do not fit; `InvalidTextError` for text that is not UTF-8.
            AlcoveRuntimeError: the run failed.
        """
        ...


class Session(Protocol):
    """A run of a program after the other, with what it keeps between them; one thread at a time."""

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the outputs for one set of inputs; as `Runnable`, and `RunCancelledError` where it was stopped.

        What a run that raises would have kept is not kept.
        """
        ...

    def reset(self) -> None:
        """Keep nothing of the runs so far."""
        ...

    def cancel(self) -> None:
        """Stop the run at hand and later ones, until `uncancel`; from any thread, returns at once."""
        ...

    def uncancel(self) -> None:
        """Allow runs that begin from now on."""
        ...


class Stateless:
    """A session of a program whose engine has none: it keeps nothing, and a run cannot be stopped.

    Args:
        model: the program.
    """

    def __init__(self, model: Runnable) -> None:
        self._model = model

    def __call__(self, *inputs: Any) -> list[Any]:
        """Return the outputs; see `Session`."""
        return self._model(*inputs)

    def reset(self) -> None:
        """Do nothing: nothing is kept."""

    def cancel(self) -> None:
        """Do nothing: a run ends when it ends."""

    def uncancel(self) -> None:
        """Do nothing."""


def begin_session(model: Runnable, threads: int = 1) -> Session:
    """Return a new session of a loaded program.

    Args:
        model: the program.
        threads: how many compute together, where the engine can.

    Raises:
        InputError: the program's smallest sizes take more than a session may.
        MemoryError: the system has none.
        OSError: the system has no threads.
    """
    begin = getattr(model, "session", None)
    session: Session = Stateless(model) if begin is None else begin(threads=threads)
    return session


def call(model: Runnable, inputs: Sequence[Any], cancellation: "Cancellation | None") -> list[Any]:
    """Return the outputs for one set of inputs; the run of a runtime that cannot stop one continues to its end.

    Args:
        model: a loaded program.
        inputs: one for each input.
        cancellation: stops the run; None where nobody would.

    Raises:
        RunCancelledError: it was stopped.
        InputError: the inputs do not fit; `InvalidTextError` for text that is not UTF-8.
        AlcoveRuntimeError: the run failed.
    """
    run = None if cancellation is None else getattr(model, "run", None)
    outputs: list[Any] = model(*inputs) if run is None else run(inputs, cancellation)
    return outputs


class Engine(Protocol):
    """Loads installed programs and judges downloaded ones."""

    @property
    def version(self) -> str:
        """Return the runtime's version, "MAJOR.MINOR.PATCH"."""
        ...

    @property
    def capability(self) -> "Capability":
        """Return what the device has, by which variants are chosen."""
        ...

    @property
    def verifier(self) -> "ProgramVerifier":
        """Return what judges the bytes of a program that was downloaded."""
        ...

    def load(self, path: Path) -> Runnable:
        """Return the program in a file that nobody writes to while it is loaded.

        Raises:
            AlcoveRuntimeError: the runtime refuses it.
            OSError: the file cannot be read.
        """
        ...


class NativeEngine:
    """The native runtime, loaded on first use.

    Args:
        closing: ends checks of programs at hand, and all later ones.
    """

    def __init__(self, closing: "Cancellation | None" = None) -> None:
        self._closing = closing

    @property
    def version(self) -> str:
        """Return the version of this distribution, which the runtime is part of."""
        return __version__

    @property
    def capability(self) -> "Capability":
        """Return what this machine says of itself."""
        from alcove.runtime._native import machine_isas  # noqa: PLC0415 - loads the native library
        from alcove.sdk.capability import this_machine  # noqa: PLC0415

        return this_machine(tuple(machine_isas()))

    @property
    def verifier(self) -> "ProgramVerifier":
        """Return the registry's own inspector: a device judges a program as the publisher did."""
        from alcove.registry.program_verification import RuntimeVerifier  # noqa: PLC0415 - loads pydantic

        return RuntimeVerifier(self._closing)

    def load(self, path: Path) -> Runnable:
        """Return the program in `path`, mapped and verified.

        Raises:
            AlcoveRuntimeError: the runtime refuses it.
            OSError: the file cannot be read.
        """
        from alcove.runtime import load  # noqa: PLC0415 - loads the native library and numpy

        program: Runnable = load(path)
        return program
