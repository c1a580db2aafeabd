"""Recognizes layer and RMS norms over the last dimensions, written out by hand; replaces each with one operator.

    (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight + bias     layer
    x * rsqrt(mean(x ** 2) + eps) * weight + bias                            rms

Weight and bias may be missing, squares may be products, the mean square may be a variance of torch without correction.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.patterns import Scene, rewrite
from alcove.runtime.compiler.rules.reduction import FOLDS
from alcove.runtime.format.attributes import LayerNormAttributes, RavelMultiIndexAttributes, ReduceAttributes
from alcove.runtime.format.spec import DType

_MOST_EPS: Final = 1e6  # runtime/native/core/ops/normalization.cpp
_WEIGHT, _BIAS = 1, 2


@dataclass(frozen=True)
class _Norm:
    """What a `layer_norm` would compute."""

    x: str
    is_rms: bool
    axis_count: int
    eps: float
    weight: str | None = None
    bias: str | None = None


def fuse_norms(graph: Graph) -> Graph:
    """Return the graph with one node for each norm that is written out."""
    return rewrite(graph, _written_norm)


def _written_norm(scene: Scene, node: Node) -> tuple[Node, ...] | None:
    norm = _norm(scene, node)
    if norm is None:
        return None
    sizes = scene.shape(norm.x)[-norm.axis_count :]
    affine = [_reshape(scene, key, sizes) for key in (norm.weight, norm.bias) if key is not None]
    mask = (_WEIGHT if norm.weight is not None else 0) | (_BIAS if norm.bias is not None else 0)
    attributes = LayerNormAttributes(
        is_rms=int(norm.is_rms), axis_count=norm.axis_count, mask=mask, eps=norm.eps, activation=0, low=0.0, high=0.0
    )
    return (replace(node, op="layer_norm", inputs=(norm.x, *affine), attributes=attributes),)


def _norm(scene: Scene, node: Node) -> _Norm | None:
    """Return the norm whose last node is `node`."""
    if not scene.is_a(node, "binary", "add", "mul", "div") or scene.values[node.outputs[0]].dtype is not DType.F32:
        return None
    plain = _plain(scene, node)
    if plain is not None:
        return plain
    for key, other in (node.inputs, node.inputs[::-1]):
        writer = scene.only(key)
        inner = None if writer is None else _norm(scene, writer)
        if inner is None or inner.bias is not None or not _fits(scene, other, inner):
            continue
        if scene.is_a(node, "binary", "mul") and inner.weight is None:
            return replace(inner, weight=other)
        if scene.is_a(node, "binary", "add"):
            return replace(inner, bias=other)
    return None


def _fits(scene: Scene, key: str, norm: _Norm) -> bool:
    """Return whether `key` can be a weight: of the sizes that are normed, or a constant with ones before them."""
    sizes, shape = scene.shape(norm.x)[-norm.axis_count :], scene.shape(key)
    if scene.values[key].dtype is not DType.F32 or shape[-norm.axis_count :] != sizes:
        return False
    is_constant = scene.values[key].constant is not None
    return shape == sizes or (is_constant and math.prod(shape) == math.prod(sizes) and len(shape) <= _rank(scene, norm))


def _rank(scene: Scene, norm: _Norm) -> int:
    return len(scene.shape(norm.x))


def _reshape(scene: Scene, key: str, sizes: tuple[int, ...]) -> str:
    value = scene.values[key]
    if value.shape == sizes:
        return key
    kept = ("shaped", key)
    if kept not in scene.kept:
        scene.kept[kept] = scene.constant(key, value.array.reshape(sizes), value.name)
    return scene.kept[kept]


def _plain(scene: Scene, node: Node) -> _Norm | None:
    """Return the norm without weight and bias whose last node is `node`."""
    if scene.is_a(node, "binary", "add"):
        return None
    is_division = scene.is_a(node, "binary", "div")
    for x, scale in (node.inputs,) if is_division else (node.inputs, node.inputs[::-1]):
        if scene.shape(x) != scene.shape(node.outputs[0]):
            continue
        found = _eps_of_scale(scene, scale, is_division=is_division)
        if found is None:
            continue
        squares, eps = found
        mean = _mean_square(scene, squares)
        if mean is None or abs(eps) > _MOST_EPS:
            continue
        squared, count = mean
        if scene.shape(scale) != (*scene.shape(x)[:-count], *(1 for _ in range(count))):
            continue
        centred, other = _match_centered(scene, x, count), _match_centered(scene, squared, count)
        if centred is not None and (x == squared or centred == other):
            return _Norm(centred, is_rms=False, axis_count=count, eps=eps)
        if x == squared:
            return _Norm(x, is_rms=True, axis_count=count, eps=eps)
    return None


def _eps_of_scale(scene: Scene, key: str, *, is_division: bool) -> tuple[str, float] | None:
    """Return m and eps where `key`, which nothing else reads, is rsqrt(m + eps), or sqrt(m + eps) to divide by."""
    node = _find_writer(scene, key)
    if not is_division and node is not None and scene.is_a(node, "unary", "reciprocal"):
        node, is_division = _find_writer(scene, node.inputs[0]), True
    if node is None or not scene.is_a(node, "unary", "sqrt" if is_division else "rsqrt"):
        return None
    total = _find_writer(scene, node.inputs[0])
    return None if total is None else scene.with_number(total, "add")


def _find_writer(scene: Scene, key: str) -> Node | None:
    """Return what writes the numbers of `key`, one a row, before reshapes and products with 1; others read none."""
    node = scene.only(key)
    while node is not None and (node.op == "reshape" or scene.with_number(node, "mul") == (*node.inputs[:1], 1.0)):
        node = scene.only(node.inputs[0])
    return node


def _mean_square(scene: Scene, key: str) -> tuple[str, int] | None:
    """Return y and over how many of its last dimensions `key` is the mean of its squares, which nothing else reads."""
    node = _find_writer(scene, key)
    if node is None:
        return None
    function = "mean"
    count = None
    if scene.is_a(node, "binary", "div"):  # torch's variance: the sum over how many there are
        function, count = "sum", _count(scene, node.inputs[1])
        if count is None:
            return None
        node = _find_writer(scene, node.inputs[0])
    folded = None if node is None else _match_fold(scene, node, function)
    squares = None if folded is None else scene.only(folded[0])
    if folded is None or squares is None:
        return None
    is_product = scene.is_a(squares, "binary", "mul") and squares.inputs[0] == squares.inputs[1]
    if not is_product and not scene.is_a(squares, "unary", "square"):
        return None
    base = squares.inputs[0]
    if count is not None and count != math.prod(scene.shape(base)[-folded[1] :]):
        return None
    return base, folded[1]


def _count(scene: Scene, key: str) -> int | None:
    """Return the number of elements that the rule of torch.var, without correction, divides by: max(last + 1, 0)."""
    number = scene.number(key)
    if number is not None and number == int(number):
        return int(number)
    bounded = scene.writers.get(key)
    bound = None if bounded is None else scene.with_number(bounded, "maximum")
    total = None if bound is None or bound[1] != 0 else scene.writers.get(bound[0])
    last = None if total is None else scene.with_number(total, "add")
    cast = None if last is None or last[1] != 1 else scene.writers.get(last[0])
    index = scene.writers.get(cast.inputs[0]) if cast is not None and cast.op == "cast" else None
    if index is None or index.op != "ravel_multi_index" or len(index.inputs) != 1:
        return None
    at = scene.values[index.inputs[0]].constant
    return index.read(RavelMultiIndexAttributes).bounds[0] if at is not None and at.tolist() == -1 else None


def _match_fold(scene: Scene, node: Node, function: str) -> tuple[str, int] | None:
    """Return what a fold over the last dimensions reads, and how many they are."""
    attributes = node.attributes
    if not isinstance(attributes, ReduceAttributes) or attributes.function != FOLDS[function]:
        return None
    is_last = attributes.first_axis + attributes.axis_count == len(scene.shape(node.inputs[0]))
    return (node.inputs[0], attributes.axis_count) if is_last else None


def _match_centered(scene: Scene, key: str, count: int) -> str | None:
    """Return y where `key` is y - mean(y) over the last `count` dimensions."""
    node = scene.writers.get(key)
    if node is None or not scene.is_a(node, "binary", "sub"):
        return None
    mean = scene.writers.get(node.inputs[1])
    if mean is None or mean.op != "reshape":
        return None
    fold = scene.writers.get(mean.inputs[0])
    if fold is None or fold.op != "reduce" or fold.inputs[0] != node.inputs[0]:
        return None
    rank = len(scene.shape(node.inputs[0]))
    wanted = ReduceAttributes(function=FOLDS["mean"], first_axis=rank - count, axis_count=count)
    is_kept = scene.shape(node.outputs[0]) == scene.shape(node.inputs[0])
    is_ones = scene.shape(mean.outputs[0]) == (*scene.shape(node.inputs[0])[: rank - count], *(1,) * count)
    return node.inputs[0] if fold.attributes == wanted and is_kept and is_ones else None
