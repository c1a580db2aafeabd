"""Checks that a graph is a program, and reports everything that keeps it from being one, all at once.

The last pass that may fail: what comes out has only operators of the runtime, on ports that a program can have.
"""

from collections.abc import Sequence
from typing import Final

from alcove.runtime import _native
from alcove.runtime.compiler.builder import FOLLOWER
from alcove.runtime.compiler.graph import Graph, Node, Port, Value
from alcove.runtime.compiler.pack import PACKERS, joined_name
from alcove.runtime.compiler.rules import TEXT_ONLY
from alcove.runtime.compiler.suggestions import suggest_form
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.spec import DType

OPERATORS: Final = frozenset(op.name for op in _native.manifest())
"""What the runtime runs: the kernels' own manifest."""

# The format's own caps, runtime/native/core/limits.h.
MAX_LABEL_BYTES: Final = 255
MAX_PORTS: Final = 64
MAX_RANK: Final = 8
MAX_NAME_BYTES: Final = 200  # a parameter's, or a weight's joined with its bias; its marks must fit in 255


def legalize(graph: Graph) -> Graph:
    """Return `graph` unchanged.

    Raises:
        ExportError: something in the graph has no place in a program; findings in the order inputs, nodes, states,
            outputs.
    """
    findings = _port_findings(graph, "input", graph.inputs)
    for node in graph.nodes:
        reason = _refusal(graph, node)
        if reason:
            findings.append(
                Finding(
                    op=node.origin.op, module_path=node.origin.module_path, source=node.origin.source, suggestion=reason
                )
            )
    findings += [
        Finding(op=f"buffer {state.name}", module_path="", source="", suggestion=state.refusal)
        for state in graph.states
        if state.refusal
    ]
    findings += _port_findings(graph, "output", graph.outputs)
    if not graph.outputs:
        findings.append(Finding(op="output", module_path="", source="", suggestion="return at least one tensor"))
    if findings:
        raise ExportError(findings)
    return graph


def _port_findings(graph: Graph, kind: str, ports: Sequence[Port]) -> list[Finding]:
    found = []
    if len(ports) > MAX_PORTS:
        reason = f"there are {len(ports)}, a program has at most {MAX_PORTS}; join some with torch.stack or torch.cat"
        found.append(Finding(op=f"{kind}s", module_path="", source="", suggestion=reason))
    for port in ports:
        reason = port.refusal or _shape_refusal(graph.values[port.value].shape)
        bad = next((label for label in port.labels if not _is_label(label)), None)
        if not reason and bad is not None:
            reason = f"label {bad!r} is not printable or has more than {MAX_LABEL_BYTES} bytes"
        if reason:
            found.append(Finding(op=f"{kind} {port.name}", module_path="", source=port.source, suggestion=reason))
    return found


def _shape_refusal(shape: Sequence[int]) -> str:
    if 0 in shape:
        return f"it has no elements, its shape is {list(shape)}"
    advice = f"a tensor of a program at most {MAX_RANK}; join neighbours with flatten before, and unflatten behind"
    return f"it has {len(shape)} dimensions, {advice}" if len(shape) > MAX_RANK else ""


def _is_label(label: str) -> bool:
    try:
        size = len(label.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    return size <= MAX_LABEL_BYTES and not any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in label)


def _refusal(graph: Graph, node: Node) -> str:
    """Return why `node` is no step of a program, with the nearest form that is; "" if it is one."""
    values = [graph.values[key] for key in node.inputs]
    if node.refusal or node.op == FOLLOWER:
        return node.refusal
    if node.op not in OPERATORS:
        return TEXT_ONLY if any(value.dtype is DType.TEXT for value in values) else suggest_form(node.op)
    return _refused_constants(node, values)


def _refused_constants(node: Node, values: list[Value]) -> str:
    constants = [value for value in values if value.constant is not None]
    names = [value.name for value in constants]
    if node.op in PACKERS and len(constants) > 1:
        names.append(joined_name(constants[0], constants[1]))
    if any(len(name.encode()) > MAX_NAME_BYTES for name in names):
        return f"the names of its parameters are longer than {MAX_NAME_BYTES} bytes; nest modules less deeply"
    empty = next((value for value in values if 0 in value.shape), None)
    if empty is not None:
        return f"{empty.name} has no elements, its shape is {list(empty.shape)}"
    return ""
