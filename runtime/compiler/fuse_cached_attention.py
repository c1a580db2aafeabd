"""Replaces attention over a cache of keys and values by the operator that reads what the mask allows alone.

A cache is what a module writes rows of (`self.keys.index_copy_(2, position, key)`) and gives to attention whole, with a
mask that says which rows hold something.  Heads of keys that were repeated for groups of queries are read as they were
before, and a mask of 0 and a number far below every score is the bool that it was made from.
"""

import math
from dataclasses import replace

from alcove.runtime.compiler.builder import unary_attributes
from alcove.runtime.compiler.fuse_attention import ungroup
from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.patterns import Scene, rewrite
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import AttentionAttributes, CachedAttentionAttributes
from alcove.runtime.format.spec import DType

_MOST_MASKED = -1e30
"""A score that counts for nothing beside any other."""


def fuse_cached_attention(graph: Graph) -> Graph:
    """Return the graph with one `cached_attention` for each attention over a cache."""
    return rewrite(graph, _cached_attention)


def _cached_attention(scene: Scene, node: Node) -> list[Node] | None:
    if node.op != "attention" or len(node.inputs) != 4:
        return None
    attributes = node.read(AttentionAttributes)
    nodes: list[Node] = []
    query, *_, mask = node.inputs
    key, value = ungroup(scene, nodes, *node.inputs[:3])
    if attributes.is_causal or not all(_is_cache(scene, x) for x in (key, value)):
        return None
    allowed = _bool_mask(scene, nodes, mask, attributes.masked)
    if allowed is None:
        return None
    mask, masked = allowed
    batch, heads, length, _ = scene.shape(query)
    shared, span, width = scene.shape(key)[-3:]
    value_width = scene.shape(value)[-1]
    shape = scene.shape(mask)
    fits = len(shape) > 1 and shape[-1] == span and shape[-2] in {1, length} and set(shape[:-2]) <= {1}
    is_shared = heads % shared == 0 and scene.shape(value)[:3] == scene.shape(key)[:3] and scene.shape(key)[0] == batch
    if not (fits and is_shared and len(shape) <= len(scene.shape(query)) and masked <= _MOST_MASKED):
        return None
    scratch = node.outputs[1]
    size = scratch_bytes("cached_attention", span=span, width=width, value_width=value_width)
    scene.values[scratch] = replace(scene.values[scratch], shape=(size,))
    given = CachedAttentionAttributes(scale=attributes.scale, masked=masked, empty_is_nan=attributes.empty_is_nan)
    return [*nodes, Node("cached_attention", (query, key, value, mask), node.outputs, given, node.origin)]


def _is_cache(scene: Scene, key: str) -> bool:
    """Return whether `key` is [batch, heads, rows, columns], written by rows, or a state."""
    if len(scene.shape(key)) != 4:
        return False
    states = {state.value for state in scene.graph.states}
    while key not in states:
        writer = scene.writers.get(key)
        if writer is None or writer.op not in {"reshape", "index_put"}:
            return False
        if writer.op == "index_put":
            return True
        key = writer.inputs[0]
    return True


def _bool_mask(scene: Scene, nodes: list[Node], mask: str, masked: float) -> tuple[str, float] | None:
    """Return a mask that is true where a score stays, and the score elsewhere."""
    if scene.values[mask].dtype is DType.BOOL:
        return mask, masked
    writer = scene.writers.get(mask)
    if writer is None or writer.op != "where" or scene.shape(writer.inputs[0]) != scene.shape(mask):
        return None
    chosen, *numbers = writer.inputs
    first, second = (_one_number(scene, key) for key in numbers)
    if first == 0 and second is not None:
        return chosen, second
    if second != 0 or first is None:
        return None
    if ("not", chosen) not in scene.kept:
        inverse = scene.new(f"{chosen}:not", DType.BOOL, scene.shape(chosen))
        scene.add(nodes, Node("unary", (chosen,), (inverse,), unary_attributes("logical_not"), scene.origin(chosen)))
        scene.kept["not", chosen] = inverse
    return scene.kept["not", chosen], first


def _one_number(scene: Scene, key: str) -> float | None:
    constant = scene.values[key].constant
    if constant is None or constant.size != 1:
        return None
    number = float(constant.reshape(()))
    return None if math.isnan(number) else number
