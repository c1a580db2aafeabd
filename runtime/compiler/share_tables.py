"""Lets a table of embeddings and a product that have one weight share its bytes.

An embedding picks rows of a matrix, and the head of a language model multiplies by the same matrix.  The product reads
it packed, so the embedding reads the packed form too, and nothing is stored twice.
"""

from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.dead_code_elimination import remove_unused
from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.format.attributes import EmbeddingPanelsAttributes, IndexSelectAttributes
from alcove.runtime.format.spec import DType

FORMS: Final = {"linear": 0, "linear_f32_qc8w": 1, "linear_qd8_qc8w": 1, "linear_f32_qb4w": 2, "linear_qd8_qb4w": 3}
"""`PanelForm` of kernels/microkernels/embedding_panels, by the product that reads the weights."""


def share_tables(graph: Graph, packed: dict[str, tuple[str, Node]]) -> Graph:
    """Return the graph with each table that a product has packed read from there.

    Args:
        graph: whose products read packed weights.
        packed: key of a matrix [rows, width] -> key of its packed form, and a product that reads it.
    """
    nodes = tuple(_share(graph, packed, node) for node in graph.nodes)
    return remove_unused(replace(graph, nodes=nodes))


def _share(graph: Graph, packed: dict[str, tuple[str, Node]], node: Node) -> Node:
    if node.op != "index_select" or node.inputs[0] not in packed:
        return node
    table, ids = (graph.values[key] for key in node.inputs)
    attributes = node.read(IndexSelectAttributes)
    is_plain = attributes.axis == 0 and attributes.wraps == 0 and len(table.shape) == 2
    if not is_plain or table.dtype is not DType.F32 or ids.constant is not None or ids.is_ragged:
        return node
    key, product = packed[table.key]
    form = FORMS[product.op]
    group = getattr(product.attributes, "group", 0)
    given = EmbeddingPanelsAttributes(rows=table.shape[0], form=form, group=group)
    return replace(node, op="embedding_panels", inputs=(ids.key, key), attributes=given)
