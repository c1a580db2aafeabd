"""Recognizes attention written out by hand, and replaces it with the `attention` operator.

    softmax(query @ key^T * scale + mask) @ value             mask of float32
    softmax(where(mask, query @ key^T * scale, number)) @ value

The scale may stand before the product, at query or key, or be missing; so may the mask.  Keys and values that were
repeated for groups of heads are read as they were before.  Rows whose scores are all minus infinity give NaN, as they
do when written out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from alcove.runtime.compiler.builder import row_major_strides, unary_attributes
from alcove.runtime.compiler.graph import NONE, Graph, Node
from alcove.runtime.compiler.patterns import Scene, rewrite
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import (
    AsStridedCopyAttributes,
    AttentionAttributes,
    MatmulAttributes,
    SoftmaxAttributes,
)
from alcove.runtime.format.spec import DType

_LARGEST: Final = 3.4028234663852886e38
_EMPTY_IS_NAN: Final = 1


@dataclass(frozen=True)
class _Scores:
    """What is between the product of query and key and the softmax.

    Attributes:
        product: the `matmul` of query and key.
        scale: by which its result is multiplied.
        shape: in which the mask is applied, or else that of the product.
        mask: float32 to add, or bool.
        masked: the score where a bool mask says so.
        is_inverted: whether it says so by true, not by false.
    """

    product: Node
    scale: float
    shape: tuple[int, ...]
    mask: str | None = None
    masked: float = -math.inf
    is_inverted: bool = False


def fuse_attention(graph: Graph) -> Graph:
    """Return the graph with one `attention` for each that is written out."""
    return rewrite(graph, _attention)


def _attention(scene: Scene, node: Node) -> list[Node] | None:
    if node.op != "matmul":
        return None
    shares = _skip_reshapes(scene, node.inputs[0])
    if shares is None or shares.op != "softmax" or shares.read(SoftmaxAttributes).is_log:
        return None
    scores = _scores(scene, shares.inputs[0])
    if scores is None:
        return None
    nodes: list[Node] = []
    first = scores.product
    query, key = first.inputs
    if not first.read(MatmulAttributes).is_transposed:
        key = _swap(scene, nodes, key)
    is_transposed = node.read(MatmulAttributes).is_transposed == 1
    value = _swap(scene, nodes, node.inputs[1]) if is_transposed else node.inputs[1]
    query, query_scale = _remove_scale(scene, nodes, query)
    key, key_scale = _remove_scale(scene, nodes, key)
    scale = scores.scale * query_scale * key_scale
    if not 0 < abs(scale) < _LARGEST:
        return None
    placed = _place(scene, nodes, scores, node, (query, key, value))
    if placed is None:
        return None
    query, key, value = placed
    key, value = ungroup(scene, nodes, query, key, value)
    inputs = [query, key, value]
    if scores.mask is not None:
        inputs.append(_invert(scene, nodes, scores.mask) if scores.is_inverted else scores.mask)
    attributes = AttentionAttributes(scale=scale, is_causal=0, masked=scores.masked, empty_is_nan=_EMPTY_IS_NAN)
    nodes += _make_nodes(scene, node, inputs, attributes)
    return nodes


def _make_nodes(scene: Scene, node: Node, inputs: Sequence[str], attributes: AttentionAttributes) -> list[Node]:
    """Return the `attention`, and a reshape where the second product had another batch."""
    out = node.outputs[0]
    length, width = scene.shape(inputs[0])[-2:]
    span, value_width = scene.shape(inputs[2])[-2:]
    bytes_needed = scratch_bytes("attention", length=length, span=span, width=width, value_width=value_width)
    scratch = scene.new(f"{out}:scratch", DType.U8, (bytes_needed,))
    rows = _batch(scene, inputs)
    if (*rows, length, value_width) == scene.shape(out):
        return [Node("attention", tuple(inputs), (out, scratch), attributes, node.origin)]
    result = scene.new(f"{out}:attention", DType.F32, (*rows, length, value_width))
    return [
        Node("attention", tuple(inputs), (result, scratch), attributes, node.origin),
        Node("reshape", (result,), (out,), NONE, node.origin),
    ]


def _batch(scene: Scene, inputs: Sequence[str]) -> tuple[int, ...]:
    """Return the batch of an `attention`: the query's heads, and whatever else is broadcast."""
    shapes = [scene.shape(key)[:-2] for key in inputs[:3]]
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + shape for shape in shapes]
    return tuple(next((size for size in sizes if size != 1), 1) for sizes in zip(*padded, strict=True))


# -- from the softmax back to the product -----------------------------------------------------------------------------


def _skip_reshapes(scene: Scene, key: str) -> Node | None:
    """Return what writes `key`, read once, before a reshape of its batch."""
    node = scene.only(key)
    if node is not None and node.op == "reshape" and _keeps_matrices(scene, node):
        return scene.only(node.inputs[0])
    return node


def _keeps_matrices(scene: Scene, node: Node) -> bool:
    before, after = scene.shape(node.inputs[0]), scene.shape(node.outputs[0])
    return len(before) >= 2 and len(after) >= 2 and before[-2:] == after[-2:]


def _scores(scene: Scene, key: str) -> _Scores | None:
    """Return how `key`, which nothing else reads, is made of a product."""
    node = scene.only(key)
    if node is None or scene.values[key].dtype is not DType.F32:
        return None
    if node.op == "matmul":
        return _Scores(node, 1.0, scene.shape(key))
    if node.op == "reshape" and _keeps_matrices(scene, node):
        found = _scores(scene, node.inputs[0])
        return found if found is None or found.mask is not None else replace(found, shape=scene.shape(key))
    if node.op == "where":
        return _match_fill(scene, node)
    return _match_sum(scene, node) if scene.is_a(node, "binary", "add") else _match_scale(scene, node)


def _match_scale(scene: Scene, node: Node) -> _Scores | None:
    """Return scores times a number; a mask that has been added is not scaled with them."""
    scaled = scene.with_number(node, "mul", "div")
    if scaled is None:
        return None
    key, number = scaled
    found = _scores(scene, key)
    if found is None or number == 0 or (found.mask is not None and scene.values[found.mask].dtype is DType.F32):
        return None
    factor = number if scene.is_a(node, "binary", "mul") else 1 / number
    found = replace(found, scale=found.scale * factor)
    if found.mask is None:
        return found
    return replace(found, masked=found.masked * factor) if found.masked * factor <= _LARGEST else None


def _match_sum(scene: Scene, node: Node) -> _Scores | None:
    """Return scores with a mask that is added."""
    for key, mask in (node.inputs, node.inputs[::-1]):
        if scene.shape(key) != scene.shape(node.outputs[0]):
            continue
        found = _scores(scene, key)
        if found is not None and found.mask is None:
            return replace(found, shape=scene.shape(key), mask=mask)
    return None


def _match_fill(scene: Scene, node: Node) -> _Scores | None:
    """Return scores with a number in the place of some."""
    mask, *branches = node.inputs
    for key, other in (branches, branches[::-1]):
        value = scene.values[other]
        if value.constant is None or value.constant.size != 1 or scene.shape(key) != scene.shape(node.outputs[0]):
            continue
        number = float(value.constant.reshape(()))
        found = _scores(scene, key) if number <= _LARGEST else None
        if found is not None and found.mask is None:
            is_inverted = key == branches[1]
            return replace(found, shape=scene.shape(key), mask=mask, masked=number, is_inverted=is_inverted)
    return None


def _invert(scene: Scene, nodes: list[Node], mask: str) -> str:
    """Return a mask that is true where `mask` is false."""
    writer = scene.writers.get(mask)
    if writer is not None and scene.is_a(writer, "unary", "logical_not"):
        return writer.inputs[0]
    if ("not", mask) in scene.kept:
        return scene.kept["not", mask]
    value = scene.values[mask]
    if value.constant is not None:
        result = scene.constant(mask, ~value.constant, shape=value.shape)
    else:
        result = scene.new(f"{mask}:not", DType.BOOL, value.shape)
        scene.add(nodes, Node("unary", (mask,), (result,), unary_attributes("logical_not"), scene.origin(mask)))
    scene.kept["not", mask] = result
    return result


# -- operands ---------------------------------------------------------------------------------------------------------


def _swap(scene: Scene, nodes: list[Node], key: str) -> str:
    """Return `key` with its last two dimensions swapped; of a copy, what it copied."""
    value, writer = scene.values[key], scene.writers.get(key)
    rank = len(value.shape)
    order = (*range(rank - 2), rank - 1, rank - 2)
    shape = tuple(value.shape[axis] for axis in order)
    if value.constant is not None:
        return scene.constant(key, value.constant.transpose(order), shape=shape)
    if writer is not None and writer.op == "as_strided_copy":
        copy = writer.read(AsStridedCopyAttributes)
        return scene.copy_strided(nodes, writer.inputs[0], shape, [copy.strides[axis] for axis in order], copy.offset)
    if writer is not None and writer.op == "reshape" and _keeps_matrices(scene, writer):
        return scene.reshape(nodes, _swap(scene, nodes, writer.inputs[0]), shape)
    strides = list(row_major_strides(value.shape))
    return scene.copy_strided(nodes, key, shape, [strides[axis] for axis in order], 0)


def _remove_scale(scene: Scene, nodes: list[Node], key: str) -> tuple[str, float]:
    """Return `key` before it was multiplied by a number, and the number; movements after that are added again."""
    node = scene.only(key)
    if node is None:
        return key, 1.0
    scaled = scene.with_number(node, "mul", "div")
    if scaled is not None:
        source, number = scaled
        if number == 0:
            return key, 1.0
        return source, number if scene.is_a(node, "binary", "mul") else 1 / number
    if node.op not in {"reshape", "as_strided_copy"}:
        return key, 1.0
    source, factor = _remove_scale(scene, nodes, node.inputs[0])
    if factor == 1.0:
        return key, 1.0
    moved = scene.new(f"{key}:unscaled", DType.F32, scene.shape(key))
    return scene.add(nodes, replace(node, inputs=(source,), outputs=(moved,))), factor


def _place(
    scene: Scene, nodes: list[Node], scores: _Scores, last: Node, operands: tuple[str, str, str]
) -> tuple[str, str, str] | None:
    """Return query, key and value with the batch in which the mask is applied, or None if they have no such form."""
    batch = scores.shape[:-2]
    first_batch, last_batch = scene.shape(scores.product.outputs[0])[:-2], scene.shape(last.inputs[0])[:-2]
    if batch == first_batch == last_batch and scene.shape(last.outputs[0])[:-2] == batch:
        return operands
    wholes = (first_batch, first_batch, last_batch)
    if any(scene.shape(key)[:-2] != whole for key, whole in zip(operands, wholes, strict=True)):
        return None
    query, key, value = (scene.reshape(nodes, key, (*batch, *scene.shape(key)[-2:])) for key in operands)
    return query, key, value


@dataclass(frozen=True)
class _Repeated:
    """A tensor whose heads, dimension -3, are each there `group` times: the copy that would make each once."""

    source: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    group: int


def _match_repeat(scene: Scene, key: str) -> _Repeated | None:
    """Return what `key` [..., heads * group, rows, columns] repeats, or None."""
    merged = scene.writers.get(key)
    copy = scene.writers.get(merged.inputs[0]) if merged is not None and merged.op == "reshape" else None
    if copy is None or copy.op != "as_strided_copy":
        return None
    shape = scene.shape(copy.outputs[0])
    if len(shape) < 4 or scene.shape(key) != (*shape[:-4], shape[-4] * shape[-3], *shape[-2:]):
        return None
    attributes = copy.read(AsStridedCopyAttributes)
    strides = attributes.strides[: len(shape)]
    if strides[-3] != 0 or shape[-3] == 1:
        return None
    return _Repeated(
        copy.inputs[0], (*shape[:-3], *shape[-2:]), (*strides[:-3], *strides[-2:]), attributes.offset, shape[-3]
    )


def ungroup(scene: Scene, nodes: list[Node], query: str, key: str, value: str) -> tuple[str, str]:
    """Return key and value as they were before each of their heads was repeated for a group of queries."""
    heads = {scene.shape(x)[-3:-2] for x in (query, key, value)}
    repeated = [_match_repeat(scene, x) for x in (key, value)]
    if len(heads) > 1 or len({None if found is None else (found.group, found.shape[-3]) for found in repeated}) > 1:
        return key, value
    key, value = (
        x if found is None else scene.copy_strided(nodes, found.source, found.shape, found.strides, found.offset)
        for x, found in zip((key, value), repeated, strict=True)
    )
    return key, value
