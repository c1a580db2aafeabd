"""How are tables of embeddings stored in int8?  One symmetric scale a column; the rule is in `weights.py`."""

from dataclasses import replace

from alcove.runtime.compiler.graph import Graph, Node, Value
from alcove.runtime.compiler.tidy import without_unused
from alcove.runtime.compiler.weights import SCALE, quantise_columns
from alcove.runtime.errors import ExportError, Finding
from alcove.runtime.format.spec import DType


def with_int8_tables(graph: Graph) -> Graph:
    """Return the graph with the table of every embedding_bag in int8.

    Raises:
        ExportError: a table holds a value that is not finite or too large.
    """
    values = dict(graph.values)
    nodes = [_with_int8_table(values, node) if node.op == "embedding_bag" else node for node in graph.nodes]
    return without_unused(replace(graph, values=values, nodes=tuple(nodes)))


def _with_int8_table(values: dict[str, Value], node: Node) -> Node:
    """Return `node` reading an int8 table and its scales, which are added to `values` (once for each table)."""
    ids, table_key = node.inputs
    table = values[table_key]
    stored_key, scale_key = f"{table_key}:int8", f"{table_key}{SCALE}"
    if stored_key not in values:
        try:
            integers, scale = quantise_columns(table.array)
        except ValueError as error:
            origin = node.origin
            finding = Finding(op=origin.op, module_path=origin.module_path, source=origin.source, nearest=str(error))
            raise ExportError([finding]) from error
        values[stored_key] = Value(stored_key, table.name, DType.I8, table.shape, constant=integers)
        values[scale_key] = Value(scale_key, table.name + SCALE, DType.F32, scale.shape, constant=scale)
    return replace(node, inputs=(ids, stored_key, scale_key))
