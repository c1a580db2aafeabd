"""Finds what would break an app that was built for one version of a feature and calls another.  Pure.

An app was built against a signature that it cannot change any more: what it passes must still be taken, and what it
reads must still be there, at its place, under its name.  A program may give more than before: another output after the
known ones, another label.  There is no way to break it on purpose, whatever the version number: that is a new feature.
"""

from collections.abc import Sequence
from typing import Protocol

__all__ = ["differences"]


class Port(Protocol):
    """One input or output, of a manifest or of an app's contract."""

    @property
    def name(self) -> str:
        """Return its name."""
        ...

    @property
    def dtype(self) -> str:
        """Return the type of its elements."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Return its dimensions, at their greatest."""
        ...

    @property
    def is_ragged(self) -> bool:
        """Tell whether the first dimension is an upper bound."""
        ...

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names that an output chooses from."""
        ...


class Signature(Protocol):
    """What is passed and read."""

    @property
    def inputs(self) -> Sequence[Port]:
        """Return what is passed, in order."""
        ...

    @property
    def outputs(self) -> Sequence[Port]:
        """Return what is read, in order."""
        ...


_SHOWN = 5  # labels in a sentence


def differences(before: Signature, after: Signature) -> list[str]:
    """Return what an app that calls `before` would trip over in `after`, a sentence each; empty: nothing."""
    found = []
    if len(after.inputs) != len(before.inputs):
        found.append(f"it takes {len(after.inputs)} inputs, apps pass {len(before.inputs)}")
    found += [
        sentence
        for old, new in zip(before.inputs, after.inputs, strict=False)
        for sentence in _input(old, new)
    ]  # fmt: skip
    if len(after.outputs) < len(before.outputs):
        found.append(f"it gives {len(after.outputs)} outputs, apps read {len(before.outputs)}")
    found += [
        sentence
        for old, new in zip(before.outputs, after.outputs, strict=False)
        for sentence in _output(old, new)
    ]  # fmt: skip
    return found


def _input(old: Port, new: Port) -> list[str]:
    found = _same(f"input {old.name!r}", old, new)
    if old.is_ragged and not new.is_ragged:
        found.append(f"input {old.name!r} must be full, apps pass up to {old.shape[0]} rows")
    elif new.is_ragged and old.is_ragged and new.shape[1:] == old.shape[1:] and new.shape[0] < old.shape[0]:
        found.append(f"input {old.name!r} takes up to {new.shape[0]} rows, apps pass up to {old.shape[0]}")
    elif new.shape != old.shape and not (new.is_ragged and _fits(old, new)):
        found.append(f"input {old.name!r} has shape {_shape(new)}, apps pass {_shape(old)}")
    return found


def _output(old: Port, new: Port) -> list[str]:
    found = _same(f"output {old.name!r}", old, new)
    missing = [label for label in old.labels if label not in set(new.labels)]
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        found.append(f"output {old.name!r} lacks the labels {', '.join(missing[:_SHOWN])}{more}")
    if bool(new.labels) != bool(old.labels) and not missing:
        found.append(f"output {old.name!r} has labels, apps read none")
    if new.is_ragged != old.is_ragged or len(new.shape) != len(old.shape):
        found.append(f"output {old.name!r} has shape {_shape(new)}, apps read {_shape(old)}")
    elif new.shape != old.shape and not (old.labels and _covers(old, new)):
        # The number of ranked labels may grow with the labels; any other size is what an app reads.
        found.append(f"output {old.name!r} has shape {_shape(new)}, apps read {_shape(old)}")
    return found


def _covers(old: Port, new: Port) -> bool:
    return all(larger >= size for size, larger in zip(old.shape, new.shape, strict=True))


def _same(what: str, old: Port, new: Port) -> list[str]:
    found = []
    if new.name != old.name:
        found.append(f"{what} is now called {new.name!r}")
    if new.dtype != old.dtype:
        found.append(f"{what} is {new.dtype}, apps use {old.dtype}")
    return found


def _fits(old: Port, new: Port) -> bool:
    """Tell whether every input of the old shape is within the new bound."""
    return len(old.shape) == len(new.shape) and old.shape[1:] == new.shape[1:] and old.shape[0] <= new.shape[0]


def _shape(port: Port) -> str:
    sizes = [f"up to {size}" if port.is_ragged and not place else str(size) for place, size in enumerate(port.shape)]
    return f"({', '.join(sizes)})"
