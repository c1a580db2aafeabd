"""Compares a program with its module layer by layer, to find the first layer that departs from torch.

Every step of the traced module is run twice on the same inputs, by torch and by the native runtime as part of a program
that hands its intermediate results out, and compared.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import torch
import torch.utils._pytree as pytree
from alcove.runtime.certificate import TOLERANCES, relative_difference
from alcove.runtime.compiler.capture import Captured, capture
from alcove.runtime.compiler.codegen import generate_program
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import Graph, Origin, Port
from alcove.runtime.compiler.legalize import legalize
from alcove.runtime.compiler.lower import lower_with_taps
from alcove.runtime.compiler.lowering.nodes import origin_of
from alcove.runtime.compiler.pipeline import export
from alcove.runtime.format.reader import read_spec
from alcove.runtime.format.spec import HALVES, Data, DType, OpSpec, ProgramSpec, Storage
from alcove.runtime.model import load
from numpy.typing import NDArray
from torch import fx, nn
from torch.export.graph_signature import InputKind

PORTS: Final = 48  # of 64 that a program may have


@dataclass(frozen=True)
class LayerComparison:
    """How one step of a module does natively.

    Attributes:
        layer: torch's name of the step, unique in the module.
        op: torch's operator.
        module_path: as in `named_modules()`.
        source: "file.py:line" of the user's code; may be "".
        shape: of the result.
        difference: largest |native - torch| / max(1, |torch|); infinite where one is no number and the other is, 0 or
            infinite for integers.
        is_within: whether the difference is within the tolerance.
    """

    layer: str
    op: str
    module_path: str
    source: str
    shape: tuple[int, ...]
    difference: float
    is_within: bool


def compare_layers(module: nn.Module, args: Sequence[object], *, tolerance: str = "standard") -> list[LayerComparison]:
    """Return a comparison of each step, in the order in which they run; the first that is not within departs.

    Args:
        module: in eval mode.
        args: inputs to compare with, as for `export`; texts as `str`.
        tolerance: a key of `TOLERANCES`.

    Raises:
        ExportError: the module cannot become a program.
        KeyError: no such tolerance.
    """
    bound = TOLERANCES[tolerance]
    captured = capture(module, args, None)
    graph, taps = lower_with_taps(captured)
    legalize(eliminate_dead_code(graph))
    eager = _Recorder(captured).record(args)
    found = []
    for layer, native in _native(graph, taps, args):
        expected, origin = eager[layer]
        difference = _difference(expected, native)
        found.append(
            LayerComparison(
                layer, origin.op, origin.module_path, origin.source, native.shape, difference, difference <= bound
            )
        )
    return found


def compare_program(program: bytes, module: nn.Module, args: Sequence[object]) -> float:
    """Return the largest difference of a program's numeric outputs from its module's, as in `LayerComparison`.

    Raises:
        ProgramError: the bytes are no program.
        InputError: it takes other inputs.
    """
    model = load(program)
    native = model(*(value if isinstance(value, str) else value.numpy() for value in _flat(args)))
    with torch.no_grad():
        eager = module(*pytree.tree_map(_as_tensor, tuple(args)))
    leaves = [leaf.numpy() for leaf in pytree.tree_leaves(eager) if isinstance(leaf, torch.Tensor)]
    labels = [port.labels for port in model.outputs]
    pairs = zip(leaves, native, labels, strict=True)
    return max((_difference(expected, seen) for expected, seen, named in pairs if not named), default=0.0)


def is_quantized(program: bytes) -> bool:
    """Return whether a program holds rounded weights, so that it differs from its module by more than float32 does.

    Raises:
        ProgramError: the bytes are no program.
    """
    constants = (tensor for tensor in read_spec(program).tensors if tensor.storage is Storage.CONSTANT)
    return any(
        tensor.dtype in HALVES or (tensor.dtype in (DType.I8, DType.U8) and len(tensor.shape) > 1)
        for tensor in constants
    )


def first_other_step(program: bytes, module: nn.Module, args: Sequence[object]) -> tuple[int, OpSpec] | None:
    """Return the first step of a float32 program that an export of the module has not, with its index; None if none.

    It is another operator, or has other weights; in a program without sizes that vary also other attributes.

    Raises:
        ProgramError: the bytes are no program.
        ExportError: the module cannot become a program.
    """
    spec, other = read_spec(program), read_spec(bytes(export(module, args)))
    takes_attributes = not spec.symbols
    for index, (step, fresh) in enumerate(zip(spec.ops, other.ops, strict=False)):
        is_same = step.name == fresh.name and _weights(spec, step) == _weights(other, fresh)
        if not is_same or (takes_attributes and step.attributes != fresh.attributes):
            return index, step
    count = len(other.ops)
    return (count, spec.ops[count]) if len(spec.ops) > count else None


def _weights(spec: ProgramSpec, step: OpSpec) -> list[Data]:
    tensors = [spec.tensors[index] for index in step.inputs]
    return [tensor.data for tensor in tensors if tensor.storage is Storage.CONSTANT]


def _native(
    graph: Graph, taps: Mapping[str, tuple[str, ...]], args: Sequence[object]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Run the graph in parts of `PORTS` results each; yield (layer, result)."""
    written = {key for node in graph.nodes for key in node.outputs}
    wanted = [(layer, keys[0]) for layer, keys in taps.items() if keys[0] in written]
    inputs = [value if isinstance(value, str) else value.numpy() for value in _flat(args)]
    for start in range(0, len(wanted), PORTS):
        part = wanted[start : start + PORTS]
        ports = tuple(Port(f"layer_{index}", key) for index, (_, key) in enumerate(part))
        program = generate_program(eliminate_dead_code(replace(graph, outputs=ports)))
        for (layer, _), result in zip(part, load(program)(*inputs), strict=True):
            yield layer, result


def _flat(args: Sequence[object]) -> list[Any]:
    """Return the tensors and texts among the arguments, as the program takes them."""
    return [value for value in pytree.tree_leaves(tuple(args)) if isinstance(value, str | torch.Tensor)]


class _Recorder(fx.Interpreter):
    """Runs torch's graph and keeps each step's first result with where it comes from."""

    def __init__(self, captured: Captured) -> None:
        super().__init__(captured.program.graph_module)
        self._captured = captured
        self._found: dict[str, tuple[NDArray[Any], Origin]] = {}

    def record(self, args: Sequence[object]) -> Mapping[str, tuple[NDArray[Any], Origin]]:
        """Return what each step gives for `args`."""
        program = self._captured.program
        argument = iter(pytree.tree_leaves(tuple(args)))
        values: list[object] = []
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                values.append(_as_tensor(next(argument)))
            else:
                target = str(spec.target)
                stored = program.state_dict.get(target)
                values.append(program.constants[target] if stored is None else stored.clone())
        with torch.no_grad():
            self.run(*values)
        return self._found

    def run_node(self, n: fx.Node) -> Any:
        """Run one step, and keep it."""
        result = super().run_node(n)
        first = result[0] if isinstance(result, tuple | list) and result else result
        if isinstance(first, torch.Tensor):
            self._found[n.name] = (first.detach().cpu().numpy().copy(), origin_of(n))
        return result


def _as_tensor(value: object) -> object:
    return torch.tensor(list(value.encode()), dtype=torch.uint8) if isinstance(value, str) else value


def _difference(expected: NDArray[Any], native: NDArray[Any]) -> float:
    if expected.shape != native.shape:
        return math.inf
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(expected, native) else math.inf
    return relative_difference(expected, native)[0]
