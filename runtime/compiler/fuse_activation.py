"""Recognizes activations written out by hand, and replaces each with one operator.

    0.5 * x * (1 + erf(x / sqrt(2)))                                 gelu
    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3)))     gelu_tanh
    x * sigmoid(x), x / (1 + exp(-x))                                silu
    x * clamp(x + 3, 0, 6) / 6, x * hardsigmoid(x)                   hardswish

A product is read as a coefficient and powers of its factors, so their order and where the numbers stand don't matter.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from alcove.runtime.compiler.builder import unary_attributes
from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.patterns import Scene, rewrite
from alcove.runtime.format.attributes import UnaryAttributes
from alcove.runtime.format.spec import DType

_MOST_POWERS: Final = 4
_TOLERANCE: Final = 1e-5
"""Of a coefficient, relative: numbers in models are written with six digits or more."""


def fuse_activations(graph: Graph) -> Graph:
    """Return the graph with one node for each activation that is written out."""
    return rewrite(graph, _activation)


def _activation(scene: Scene, node: Node) -> tuple[Node, ...] | None:
    if not scene.is_a(node, "binary", "mul", "div") or scene.values[node.outputs[0]].dtype is not DType.F32:
        return None
    if _is_silu_quotient(scene, node):
        return (_unary(node, "silu", node.inputs[0]),)
    coefficient, powers = _product(scene, node)
    if sum(powers.values()) != 2 or len(powers) != 2:
        return None
    for x in powers:
        gate = next(key for key in powers if key != x)
        for function, matches in _GATES.items():
            if scene.shape(x) == scene.shape(node.outputs[0]) and matches(scene, x, gate, coefficient):
                return (_unary(node, function, x),)
    return None


def _unary(node: Node, function: str, x: str) -> Node:
    return replace(node, op="unary", inputs=(x,), attributes=unary_attributes(function))


def _is(number: float, wanted: float) -> bool:
    return math.isclose(number, wanted, rel_tol=_TOLERANCE)


# -- products ---------------------------------------------------------------------------------------------------------


def _product(scene: Scene, node: Node) -> tuple[float, Counter[str]]:
    """Return what a product is: a coefficient, and its factors with their powers."""
    scaled = scene.with_number(node, "mul", "div")
    if scaled is not None:
        key, number = scaled
        coefficient, powers = _factors(scene, key)
        if scene.is_a(node, "binary", "mul"):
            return coefficient * number, powers
        if number != 0:
            return coefficient / number, powers
    if scene.is_a(node, "binary", "mul"):
        first, second = (_factors(scene, key) for key in node.inputs)
        return first[0] * second[0], first[1] + second[1]
    return 1.0, Counter(node.outputs[:1])


def _factors(scene: Scene, key: str) -> tuple[float, Counter[str]]:
    """Return what `key` is as a product; itself, where something else reads it too."""
    node = scene.only(key)
    if node is None:
        return 1.0, Counter([key])
    power = _power(scene, node)
    if power > 1:
        coefficient, powers = _factors(scene, node.inputs[0])
        if sum(powers.values()) * power <= _MOST_POWERS:
            return coefficient**power, Counter({base: count * power for base, count in powers.items()})
        return 1.0, Counter([key])
    coefficient, powers = _product(scene, node)
    return (coefficient, powers) if sum(powers.values()) <= _MOST_POWERS else (1.0, Counter([key]))


def _power(scene: Scene, node: Node) -> int:
    """Return to which whole power a node raises what it reads, 1 for other nodes."""
    if scene.is_a(node, "unary", "square"):
        return 2
    raised = scene.with_number(node, "pow")
    if raised is None or raised[0] != node.inputs[0]:
        return 1
    return int(raised[1]) if raised[1] in {2.0, 3.0} else 1


def _only(scene: Scene, key: str, op: str, *functions: str) -> Node | None:
    """Return the writer of `key` if that is such a node and nothing else reads it."""
    node = scene.only(key)
    return node if scene.is_a(node, op, *functions) else None


def _one_plus(scene: Scene, key: str) -> str | None:
    """Return y where `key` is 1 + y."""
    node = _only(scene, key, "binary", "add")
    found = None if node is None else scene.with_number(node, "add")
    return found[0] if found is not None and found[1] == 1 else None


# -- gates ------------------------------------------------------------------------------------------------------------


def _is_gelu(scene: Scene, x: str, gate: str, coefficient: float) -> bool:
    y = _one_plus(scene, gate)
    erf = None if y is None else _only(scene, y, "unary", "erf")
    if erf is None or not _is(coefficient, 0.5):
        return False
    scale, powers = _factors(scene, erf.inputs[0])
    return powers == {x: 1} and _is(scale, math.sqrt(0.5))


def _is_gelu_tanh(scene: Scene, x: str, gate: str, coefficient: float) -> bool:
    y = _one_plus(scene, gate)
    tanh = None if y is None else _only(scene, y, "unary", "tanh")
    if tanh is None or not _is(coefficient, 0.5):
        return False
    scale, powers = _factors(scene, tanh.inputs[0])
    if not _is(scale, math.sqrt(2 / math.pi)):
        return False
    if powers[x] == 1 and len(powers) == 2:  # x * (1 + c * x ** 2)
        squares = _one_plus(scene, next(key for key in powers if key != x))
        return squares is not None and _is_term(scene, squares, x, 2)
    node = _only(scene, next(iter(powers)), "binary", "add") if len(powers) == 1 else None
    if node is None or x not in node.inputs:
        return False
    return _is_term(scene, node.inputs[1] if node.inputs[0] == x else node.inputs[0], x, 3)


def _is_term(scene: Scene, key: str, x: str, power: int) -> bool:
    scale, powers = _factors(scene, key)
    return powers == {x: power} and _is(scale, 0.044715)


def _is_silu(scene: Scene, x: str, gate: str, coefficient: float) -> bool:
    sigmoid = _only(scene, gate, "unary", "sigmoid")
    return sigmoid is not None and sigmoid.inputs[0] == x and coefficient == 1


def _is_silu_quotient(scene: Scene, node: Node) -> bool:
    x, divisor = node.inputs
    y = _one_plus(scene, divisor) if scene.is_a(node, "binary", "div") else None
    exp = None if y is None else _only(scene, y, "unary", "exp")
    neg = None if exp is None else _only(scene, exp.inputs[0], "unary", "neg")
    return neg is not None and neg.inputs[0] == x and scene.shape(x) == scene.shape(node.outputs[0])


def _is_hardswish(scene: Scene, x: str, gate: str, coefficient: float) -> bool:
    hard = _only(scene, gate, "unary", "hardsigmoid")
    if hard is not None:
        return hard.inputs[0] == x and coefficient == 1
    clamp = _only(scene, gate, "unary", "clamp")
    if clamp is None or not _is(coefficient, 1 / 6):
        return False
    bounds = clamp.read(UnaryAttributes)
    if (bounds.a, bounds.b) != (0.0, 6.0):
        return False
    node = _only(scene, clamp.inputs[0], "binary", "add")
    return node is not None and scene.with_number(node, "add") == (x, 3.0)


_GATES: Final[Mapping[str, Callable[[Scene, str, str, float], bool]]] = {
    "gelu": _is_gelu,
    "gelu_tanh": _is_gelu_tanh,
    "silu": _is_silu,
    "hardswish": _is_hardswish,
}
