"""Does the memory plan of a program hold?  Proved again from the program alone.

The planner's code is not used here: lifetimes are derived from the operators of the finished `ProgramSpec`.  The
native verifier makes the same proof on the device; this one tells the exporter's author, with names.
"""

from collections.abc import Mapping

from alcove.runtime import _native
from alcove.runtime.format.spec import ProgramSpec, Storage, TensorSpec

_IN_PLACE = frozenset(op.name for op in _native.manifest() if op.is_in_place)


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
            tensor needs, or two overlap while both live (a relu may write where it reads, if it reads it last).
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
    indices = sorted(lifetimes)
    for position, one in enumerate(indices):
        for other in indices[position + 1 :]:
            if _clash(spec, lifetimes, one, other):
                names = (spec.tensors[one].name, spec.tensors[other].name)
                raise PlanError(f"{names[0]} and {names[1]} overlap while both live", *names)


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


def _clash(spec: ProgramSpec, lifetimes: Mapping[int, tuple[int, int]], one: int, other: int) -> bool:
    a, b = spec.tensors[one], spec.tensors[other]
    if not _overlap(a, b):
        return False
    (first_a, last_a), (first_b, last_b) = lifetimes[one], lifetimes[other]
    if first_a > last_b or first_b > last_a:
        return False
    early, late = (one, other) if first_a < first_b else (other, one)
    return not _is_in_place(spec, lifetimes, early, late)


def _overlap(a: TensorSpec, b: TensorSpec) -> bool:
    return a.offset < b.offset + b.size_bytes and b.offset < a.offset + a.size_bytes


def _is_in_place(spec: ProgramSpec, lifetimes: Mapping[int, tuple[int, int]], early: int, late: int) -> bool:
    """Return whether `late` is written by a relu over `early`, at its place, when nothing needs `early` any more."""
    step = lifetimes[late][0]
    if lifetimes[early][1] != step or not 0 <= step < len(spec.ops):
        return False
    op = spec.ops[step]
    a, b = spec.tensors[early], spec.tensors[late]
    return (
        op.name in _IN_PLACE
        and op.inputs == (early,)
        and op.outputs == (late,)
        and a.offset == b.offset
        and a.size_bytes == b.size_bytes
    )
