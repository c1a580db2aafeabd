"""Makes the seed corpora of the fuzz targets: the tests' samples, and for the verifier each operator alone.

A program of one operator is a tenth of a sample that has them all: it is digested, copied and judged in a tenth of the
time, and a change of it is more often one of what its operator's rule looks at.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

from alcove.runtime.format import records
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.records import align_up
from alcove.runtime.format.spec import DType, PortSpec, ProgramSpec, StateSpec, Storage
from alcove.runtime.format.writer import write_program
from alcove.runtime.testing import samples
from alcove.runtime.testing_ops import SCRATCH, op_samples

if TYPE_CHECKING:
    from alcove.runtime.format.spec import OpSpec, TensorSpec


def alone(spec: ProgramSpec, op: OpSpec) -> bytes:
    """Return a program of one operator: the caller gives what it reads and gets what it writes, constants stay.

    A state that it writes rows of stays too, and the caller gets the rows.

    Args:
        spec: a program without symbols, whose sizes would be those of inputs that are not there.
        op: one of its operators.
    """
    tensors: list[TensorSpec] = []
    places: dict[int, int] = {}
    inputs: list[PortSpec] = []
    outputs: list[PortSpec] = []
    states: list[StateSpec] = []
    end = 0
    for index in (*op.inputs, *op.outputs):
        if index in places:
            continue
        tensor = spec.tensors[index]
        places[index] = len(tensors)
        if tensor.storage is Storage.STATE and op.name == "write_rows":
            state = next(state for state in spec.states if state.tensor == index)
            states.append(StateSpec("s", places[index], len(tensors) + 1, places[index]))
            tensors += [replace(tensor, name="s"), replace(spec.tensors[state.initial], name="initial")]
            continue
        if tensor.storage is not Storage.CONSTANT:
            if index in op.inputs:
                inputs.append(PortSpec(f"i{len(inputs)}", places[index]))
            elif (tensor.dtype, tensor.shape) != SCRATCH and not states:
                outputs.append(PortSpec(f"o{len(outputs)}", places[index]))
            is_text = tensor.dtype is DType.TEXT
            tensor = replace(tensor, storage=Storage.ARENA, offset=0 if is_text else end)
            end = align_up(end + tensor.size_bytes, records.TENSOR_ALIGNMENT)
        tensors.append(replace(tensor, name=f"t{places[index]}"))
    one = replace(
        op, inputs=tuple(places[i] for i in op.inputs), outputs=tuple(places[i] for i in op.outputs), source=""
    )
    outputs = outputs or [PortSpec("o0", inputs[-1].tensor)]
    return write_program(ProgramSpec(tuple(tensors), (one,), tuple(inputs), tuple(outputs), end, states=tuple(states)))


def seeds(target: str) -> dict[str, bytes]:
    """Return what a target of `fuzz_native.py` begins with, by name; none for `ops`, whose inputs are no programs."""
    if target == "ops":
        return {}
    whole = samples() | op_samples()
    if target != "open":
        return whole
    result = dict(samples())
    for program in whole.values():
        spec = read_spec(program)
        for op in spec.ops if not spec.symbols else ():
            output = alone(spec, op)
            result[f"{op.name}-{hashlib.sha256(output).hexdigest()[:8]}"] = output
    return result
