"""Proves the memory plan of a program again, from the program alone.

The planner's code is not used here: lifetimes are derived from the operators of the finished `ProgramSpec`, and a sweep
over the steps keeps what holds which bytes.  The native verifier makes the same proof on the device; this one tells the
exporter's author, with names.
"""

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from alcove.runtime import _native
from alcove.runtime.format.liveness import LiveRange, compute_live_ranges
from alcove.runtime.format.spec import DTYPE_BYTES, OpSpec, ProgramSpec

Place: TypeAlias = tuple[int, int]
"""Offset and size in bytes."""

_SHARING: Final = {op.name: op.sharing for op in _native.manifest()}


class PlanError(AssertionError):
    """A plan is wrong: a fault of the exporter, not of the module.

    Attributes:
        tensors: names of the tensors that it is about.
    """

    def __init__(self, message: str, *tensors: str) -> None:
        super().__init__(message)
        self.tensors = tensors


def check_plan(spec: ProgramSpec) -> None:
    """Return if no two tensors that live at the same step share a byte of the arena.

    Raises:
        PlanError: a tensor is not aligned to 64 bytes or ends beyond the arena, the arena is larger than its last
            tensor needs, or two overlap while both live. They may be at the same place if one is a view of the other,
            or if the operator that writes one may overwrite the other, which nothing else uses from then on.
    """
    lifetimes = compute_live_ranges(spec)
    plans = [(bucket.arena_bytes, bucket.places) for bucket in spec.buckets]
    for arena_bytes, places in plans or [(spec.arena_bytes, tuple((t.offset, t.size_bytes) for t in spec.tensors))]:
        _check_extent(spec, lifetimes, arena_bytes, places)
        _sweep(spec, lifetimes, places)


def _check_extent(
    spec: ProgramSpec, lifetimes: Mapping[int, LiveRange], arena_bytes: int, places: Sequence[Place]
) -> None:
    end = 0
    for index in lifetimes:
        name = spec.tensors[index].name
        offset, size = places[index]
        if offset < 0 or offset % 64:
            raise PlanError(f"{name} lies at {offset}, no multiple of 64", name)
        if offset + size > arena_bytes:
            raise PlanError(f"{name} ends at {offset + size}, beyond {arena_bytes}", name)
        end = max(end, offset + size)
    if arena_bytes != (end + 63) // 64 * 64:
        raise PlanError(f"the arena has {arena_bytes} bytes; its tensors end at {end}")


class _Held:
    """The ranges of the arena that are held at one step, each by a group: a tensor and its views."""

    def __init__(self, spec: ProgramSpec, places: Sequence[Place]) -> None:
        self._names = [tensor.name for tensor in spec.tensors]
        self._places = places
        self._by_offset: list[tuple[int, int]] = []  # (offset, the tensor that began the group)
        self._group: dict[int, int] = {}
        self._members: dict[int, set[int]] = {}

    def take(self, index: int) -> None:
        """Give a tensor bytes that nothing holds.

        Raises:
            PlanError: something does.
        """
        offset, size = self._places[index]
        at = bisect_left(self._by_offset, (offset, -1))
        for held, other in self._by_offset[max(0, at - 1) : at + 1]:
            if held < offset + size and offset < held + self._places[other][1]:
                names = self._names[min(self._members[other])], self._names[index]
                raise PlanError(f"{names[0]} and {names[1]} overlap while both live", *names)
        insort(self._by_offset, (offset, index))
        self._group[index] = index
        self._members[index] = {index}

    def join(self, index: int, other: int) -> None:
        """Make a tensor a view of another."""
        self._group[index] = self._group[other]
        self._members[self._group[index]].add(index)

    def is_alone(self, index: int) -> bool:
        """Return whether no view holds the bytes of a tensor too."""
        return self._members[self._group[index]] == {index}

    def give(self, index: int) -> None:
        """End a tensor; its bytes are free when its whole group has ended."""
        group = self._group[index]
        members = self._members[group]
        if index not in members:  # overwritten before
            return
        members.remove(index)
        if not members:
            self._by_offset.remove((self._places[group][0], group))


def _sweep(spec: ProgramSpec, lifetimes: Mapping[int, LiveRange], places: Sequence[Place]) -> None:
    ending: dict[int, list[int]] = {}
    for index, (_, last) in lifetimes.items():
        ending.setdefault(last, []).append(index)
    held = _Held(spec, places)
    for port in spec.inputs:
        if port.tensor in lifetimes:
            held.take(port.tensor)
    for step, op in enumerate(spec.ops):
        for index in ending.get(step - 1, ()):
            held.give(index)
        outputs = [index for index in op.outputs if index in lifetimes]
        sharing = _SHARING[op.name]
        if sharing != "none" and op.inputs[0] in lifetimes and places[op.inputs[0]] == places[op.outputs[0]]:
            source = op.inputs[0]
            if sharing == "alias":
                held.join(outputs.pop(0), source)
            elif lifetimes[source][1] == step and held.is_alone(source) and _may_overwrite(spec, op):
                held.give(source)
        for index in outputs:
            held.take(index)


def _may_overwrite(spec: ProgramSpec, op: OpSpec) -> bool:
    """Return whether output 0 may take the bytes of input 0, which ends here.

    It is read as no other input, has elements of the output's size, and as many at whatever sizes: planned sizes alone
    don't say so.
    """
    if op.inputs[0] in op.inputs[1:]:
        return False
    a, b = spec.tensors[op.inputs[0]], spec.tensors[op.outputs[0]]
    if DTYPE_BYTES[a.dtype] != DTYPE_BYTES[b.dtype]:
        return False
    return not spec.symbols or (a.shape, a.dynamic_dims) == (b.shape, b.dynamic_dims)
