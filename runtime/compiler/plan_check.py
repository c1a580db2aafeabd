"""Does the memory plan of a program hold?  Proved again from the program alone.

The planner's code is not used here: lifetimes are derived from the operators of the finished `ProgramSpec`, and a sweep
over the steps keeps what holds which bytes.  The native verifier makes the same proof on the device; this one tells the
exporter's author, with names.
"""

from bisect import bisect_left, insort
from typing import Final

from alcove.runtime import _native
from alcove.runtime.format.spec import OpSpec, ProgramSpec, Storage

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
    lifetimes = _lifetimes(spec)
    end = 0
    for index in lifetimes:
        tensor = spec.tensors[index]
        if tensor.offset < 0 or tensor.offset % 64:
            raise PlanError(f"{tensor.name} lies at {tensor.offset}, no multiple of 64", tensor.name)
        if tensor.offset + tensor.size_bytes > spec.arena_bytes:
            raise PlanError(
                f"{tensor.name} ends at {tensor.offset + tensor.size_bytes}, beyond {spec.arena_bytes}", tensor.name
            )
        end = max(end, tensor.offset + tensor.size_bytes)
    if spec.arena_bytes != (end + 63) // 64 * 64:
        raise PlanError(f"the arena has {spec.arena_bytes} bytes; its tensors end at {end}")
    _sweep(spec, lifetimes)


def _lifetimes(spec: ProgramSpec) -> dict[int, tuple[int, int]]:
    """Return (first step, last step) of every tensor of the arena; inputs start at -1, outputs end at len(ops)."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for port in spec.inputs:
        first[port.tensor] = last[port.tensor] = -1
    for step, op in enumerate(spec.ops):
        for index in op.outputs:
            first[index] = step
            last[index] = step
        for index in op.inputs:
            last[index] = step
    for port in spec.outputs:
        last[port.tensor] = len(spec.ops)
    return {
        index: (first[index], last[index])
        for index, tensor in enumerate(spec.tensors)
        if tensor.storage is Storage.ARENA and tensor.size_bytes and index in first
    }


class _Held:
    """The ranges of the arena that are held at one step, each by a group: a tensor and its views."""

    def __init__(self, spec: ProgramSpec) -> None:
        self._spec = spec
        self._by_offset: list[tuple[int, int]] = []  # (offset, the tensor that began the group)
        self._group: dict[int, int] = {}
        self._members: dict[int, set[int]] = {}

    def take(self, index: int) -> None:
        """Give a tensor bytes that nothing holds.

        Raises:
            PlanError: something does.
        """
        tensor = self._spec.tensors[index]
        at = bisect_left(self._by_offset, (tensor.offset, -1))
        for _, other in self._by_offset[max(0, at - 1) : at + 1]:
            held = self._spec.tensors[other]
            if held.offset < tensor.offset + tensor.size_bytes and tensor.offset < held.offset + held.size_bytes:
                member = self._spec.tensors[min(self._members[other])]
                raise PlanError(f"{member.name} and {tensor.name} overlap while both live", member.name, tensor.name)
        insort(self._by_offset, (tensor.offset, index))
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
            self._by_offset.remove((self._spec.tensors[group].offset, group))


def _sweep(spec: ProgramSpec, lifetimes: dict[int, tuple[int, int]]) -> None:
    ending: dict[int, list[int]] = {}
    for index, (_, last) in lifetimes.items():
        ending.setdefault(last, []).append(index)
    held = _Held(spec)
    for port in spec.inputs:
        if port.tensor in lifetimes:
            held.take(port.tensor)
    for step, op in enumerate(spec.ops):
        for index in ending.get(step - 1, ()):
            held.give(index)
        outputs = [index for index in op.outputs if index in lifetimes]
        if _is_same_place(spec, op):
            source = op.inputs[0]
            if _SHARING[op.name] == "alias":
                held.join(outputs.pop(0), source)
            elif _SHARING[op.name] == "in_place" and lifetimes[source][1] == step and held.is_alone(source):
                held.give(source)
        for index in outputs:
            held.take(index)


def _is_same_place(spec: ProgramSpec, op: OpSpec) -> bool:
    """Return whether output 0 has exactly the bytes of input 0."""
    if not op.inputs or not op.outputs:
        return False
    a, b = spec.tensors[op.inputs[0]], spec.tensors[op.outputs[0]]
    return a.storage is Storage.ARENA and a.size_bytes > 0 and (a.offset, a.size_bytes) == (b.offset, b.size_bytes)
