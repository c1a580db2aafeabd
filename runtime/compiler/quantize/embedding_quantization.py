"""Quantizes embedding tables to int8, with one symmetric scale a column by the rule in `weights.py`."""

from dataclasses import replace
from typing import Final

import numpy as np
from alcove.runtime.compiler.dead_code_elimination import remove_unused
from alcove.runtime.compiler.graph import NONE, Graph, Node, Value
from alcove.runtime.compiler.quantize.report import LayerReport, layer_name
from alcove.runtime.compiler.weights import INT8_MAX, LARGEST_SCALE, SCALE, quantize_columns
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.attributes import IndexSelectAttributes
from alcove.runtime.format.spec import DType

_LARGEST: Final = INT8_MAX * LARGEST_SCALE


def quantize_embeddings(graph: Graph) -> Graph:
    """Return the graph with the tables that text_embedding_bag and index_select pick rows from in int8.

    A table that something else reads too, such as the linear that shares its weight, stays as it is: it would be stored
    twice.

    Raises:
        ExportError: the table of a bag holds a value that is not finite or too large.
    """
    values = dict(graph.values)
    nodes = [_smaller(graph, values, node) for node in graph.nodes]
    return remove_unused(replace(graph, values=values, nodes=tuple(nodes)))


def table_reports(graph: Graph) -> tuple[LayerReport, ...]:
    """Return what is said of a graph's int8 tables."""
    return tuple(
        LayerReport(
            layer_name(node.origin.module_path, node.outputs[0]),
            node.op,
            "int8 table",
            float_bytes=4 * table.size,
            stored_bytes=table.nbytes + 4 * table.shape[1],
        )
        for node in graph.nodes
        if node.op == "embedding_i8" or (node.op == "text_embedding_bag" and len(node.inputs) == 3)
        for table in [graph.values[node.inputs[1]].array]
    )


def _smaller(graph: Graph, values: dict[str, Value], node: Node) -> Node:
    if node.op == "text_embedding_bag":
        return _with_int8_table(values, node)
    if node.op == "index_select" and _is_table(graph, node):
        table, ids = node.inputs
        return replace(_with_int8_table(values, replace(node, inputs=(ids, table))), op="embedding_i8", attributes=NONE)
    return node


def _is_table(graph: Graph, node: Node) -> bool:
    """Return whether an index_select picks rows, by indices that are computed, from a table that nothing else reads."""
    attributes = node.read(IndexSelectAttributes)
    table, ids = (graph.values[key] for key in node.inputs)
    if (
        attributes.axis != 0
        or attributes.wraps != 0
        or table.constant is None
        or table.dtype is not DType.F32
        or len(table.shape) != 2
    ):
        return False
    is_usable = ids.constant is None and ids.dtype in (DType.I32, DType.I64) and not ids.is_ragged
    is_sane = bool((np.abs(table.constant) < _LARGEST).all())
    return is_usable and is_sane and all(reader.op == "index_select" for reader in graph.consumers(table.key))


def _with_int8_table(values: dict[str, Value], node: Node) -> Node:
    """Return `node` reading an int8 table and its scales, which are added to `values` (once for each table)."""
    ids, table_key = node.inputs
    table = values[table_key]
    stored_key, scale_key = f"{table_key}:int8", f"{table_key}{SCALE}"
    if stored_key not in values:
        try:
            integers, scale = quantize_columns(table.array)
        except ValueError as error:
            origin = node.origin
            finding = Finding(op=origin.op, module_path=origin.module_path, source=origin.source, suggestion=str(error))
            raise ExportError([finding]) from error
        values[stored_key] = Value(stored_key, table.name, DType.I8, table.shape, constant=integers)
        values[scale_key] = Value(scale_key, table.name + SCALE, DType.F32, scale.shape, constant=scale)
    return replace(node, inputs=(ids, stored_key, scale_key))
