"""Computes the lifetime of each tensor in the arena from the operators alone, without a planner."""

from typing import TypeAlias

from alcove.runtime.format.spec import DType, ProgramSpec, Storage

__all__ = ["LiveRange", "compute_live_ranges"]

LiveRange: TypeAlias = tuple[int, int]
"""First and last step, both included."""


def compute_live_ranges(spec: ProgramSpec) -> dict[int, LiveRange]:
    """Return the life of every tensor of the arena; inputs start at -1, outputs and updates end at len(ops).

    So does what undoes a write of rows.
    """
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
    kept = [index for op in spec.ops if op.name == "write_rows" for index in (op.inputs[1], op.outputs[0])]
    for index in [port.tensor for port in spec.outputs] + [state.update for state in spec.states] + kept:
        last[index] = len(spec.ops)
    return {
        index: (first[index], last[index])
        for index, tensor in enumerate(spec.tensors)
        if tensor.storage is Storage.ARENA and tensor.dtype is not DType.TEXT and index in first
    }
