"""What keeps a graph from being a program?  All of it, at once.

The last pass that may fail: what comes out has only operators of the runtime, on ports that a program can have.
"""

import difflib
from collections.abc import Sequence
from typing import Final

from alcove.runtime import _native
from alcove.runtime.compiler.graph import Graph, Node, Port, Value
from alcove.runtime.compiler.rules import NEAREST, TEXT_ONLY
from alcove.runtime.compiler.weights import column_scales
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.spec import DType

OPERATORS: Final = tuple(sorted(op.name for op in _native.manifest()))
"""What the runtime runs: the kernels' own manifest."""

# The format's own caps, runtime/native/core/limits.h.
MAX_BAG_IDS: Final = 2**20
MAX_TOPK: Final = 1024
MAX_LABEL_BYTES: Final = 255
MAX_NAME_BYTES: Final = 240  # of 255; the rest is for the marks of weights.py

MODES: Final = (None, "int8")


def legalise(graph: Graph, quantize: str | None) -> Graph:
    """Return `graph` unchanged.

    Args:
        graph: after folding.
        quantize: None or "int8".

    Raises:
        ExportError: something in the graph has no place in a program; findings in the order inputs, nodes, outputs.
    """
    findings = _port_findings(graph, "input", graph.inputs)
    for node in graph.nodes:
        reason = _refusal(graph, node, quantize)
        if reason:
            findings.append(
                Finding(
                    op=node.origin.op, module_path=node.origin.module_path, source=node.origin.source, nearest=reason
                )
            )
    findings += _port_findings(graph, "output", graph.outputs)
    if not graph.outputs:
        findings.append(Finding(op="output", module_path="", source="", nearest="return at least one tensor"))
    if findings:
        raise ExportError(findings)
    return graph


def _port_findings(graph: Graph, kind: str, ports: Sequence[Port]) -> list[Finding]:
    found = []
    for port in ports:
        reason = port.refusal
        if not reason and 0 in graph.values[port.value].shape:
            reason = f"it has no elements, its shape is {list(graph.values[port.value].shape)}"
        bad = next((label for label in port.labels if not _is_label(label)), None)
        if not reason and bad is not None:
            reason = f"label {bad!r} is not printable or has more than {MAX_LABEL_BYTES} bytes"
        if reason:
            found.append(Finding(op=f"{kind} {port.name}", module_path="", source="", nearest=reason))
    return found


def _is_label(label: str) -> bool:
    try:
        size = len(label.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    return size <= MAX_LABEL_BYTES and not any(ord(letter) < 0x20 or ord(letter) == 0x7F for letter in label)


def _refusal(graph: Graph, node: Node, quantize: str | None) -> str:
    """Return why `node` is no step of a program, with the nearest form that is; "" if it is one."""
    values = [graph.values[key] for key in node.inputs]
    if node.refusal:
        return node.refusal
    if node.op not in OPERATORS:
        if any(value.dtype is DType.TEXT for value in values):
            return TEXT_ONLY
        return nearest_form(node.op)
    if node.op == "embedding_bag":
        return _bag_refusal(graph, values, quantize)
    return _limit_refusal(graph, node, values)


def _limit_refusal(graph: Graph, node: Node, values: list[Value]) -> str:
    if node.op == "ngram_hash" and not 1 <= graph.values[node.outputs[0]].shape[0] <= MAX_BAG_IDS:
        return f"ngram_hash with a capacity in [1, {MAX_BAG_IDS}]"
    if node.op == "topk" and not 1 <= node.attributes[0] <= MAX_TOPK:
        return f"topk with k in [1, {MAX_TOPK}]"
    if node.op == "linear" and len("+".join(value.name for value in values[1:]).encode()) > MAX_NAME_BYTES:
        return f"the names of its parameters are longer than {MAX_NAME_BYTES} bytes together; nest modules less deeply"
    return ""


def _bag_refusal(graph: Graph, values: list[Value], quantize: str | None) -> str:
    ids, table = values
    source = next((other for other in graph.nodes if ids.key in other.outputs), None)
    if source is not None and source.op == "ngram_hash" and source.attributes[2] > table.shape[0]:
        return f"the table has {table.shape[0]} rows for {source.attributes[2]} buckets of ngram_hash; make them equal"
    if quantize == "int8":
        try:
            column_scales(table.array)
        except ValueError as error:
            return str(error)
    return ""


def nearest_form(op: str) -> str:
    """Return the nearest supported form of a torch operator, such as "aten.gelu.default"."""
    name = op.split(".")[1] if op.count(".") else op
    name = name.rstrip("_")
    if name in NEAREST:
        return NEAREST[name]
    near = difflib.get_close_matches(name, OPERATORS, n=1, cutoff=0.7)
    if near:
        return near[0]
    return f"none; a program has {', '.join(OPERATORS)}"
