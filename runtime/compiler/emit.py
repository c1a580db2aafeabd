"""How does a planned graph become a program?

Constants first, by first use; then inputs; then what the operators write, in order.  So every operator refers
backwards, and the same graph gives the same bytes.
"""

from alcove.runtime.compiler.graph import Array, Graph, Value
from alcove.runtime.compiler.plan import Plan
from alcove.runtime.compiler.source import short
from alcove.runtime.compiler.weights import COPY
from alcove.runtime.format.spec import DType, OpSpec, PortSpec, ProgramSpec, Storage, TensorSpec

_STORED = {DType.F32: "<f4", DType.I8: "i1", DType.I32: "<i4", DType.I64: "<i8", DType.U8: "u1", DType.BOOL: "?"}


def emit(graph: Graph, plan: Plan) -> ProgramSpec:
    """Return the program of a legal, laid out and planned graph."""
    order: list[str] = []
    for node in graph.nodes:
        order += [key for key in node.inputs if graph.values[key].constant is not None]
    order += [port.value for port in graph.inputs]
    for node in graph.nodes:
        order += node.outputs
    keys = list(dict.fromkeys(order))
    index = {key: position for position, key in enumerate(keys)}
    names: dict[str, int] = {}
    tensors = tuple(_tensor(graph.values[key], plan.offsets.get(key, 0), names) for key in keys)
    ops = tuple(
        OpSpec(
            name=node.op,
            inputs=tuple(index[key] for key in node.inputs),
            outputs=tuple(index[key] for key in node.outputs),
            attributes=node.attributes,
            source=short(node.origin.source),
        )
        for node in graph.nodes
    )
    return ProgramSpec(
        tensors=tensors,
        ops=ops,
        inputs=tuple(PortSpec(port.name, index[port.value]) for port in graph.inputs),
        outputs=tuple(PortSpec(port.name, index[port.value], port.labels) for port in graph.outputs),
        arena_bytes=plan.arena_bytes,
    )


def _tensor(value: Value, offset: int, names: dict[str, int]) -> TensorSpec:
    names[value.name] = names.get(value.name, 0) + 1
    name = value.name if names[value.name] == 1 else f"{value.name}{COPY}{names[value.name]}"
    if value.constant is not None:
        return TensorSpec(
            name=name,
            dtype=value.dtype,
            shape=value.shape,
            storage=Storage.CONSTANT,
            layout=value.layout,
            data=_stored(value.constant, value.dtype),
        )
    return TensorSpec(
        name=name,
        dtype=value.dtype,
        shape=value.shape,
        storage=Storage.ARENA,
        is_ragged=value.is_ragged,
        offset=offset,
    )


def _stored(array: Array, dtype: DType) -> bytes:
    return array.astype(_STORED[dtype], copy=False).tobytes()
