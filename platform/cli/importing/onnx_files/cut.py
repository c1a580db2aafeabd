"""Finds where a graph can be cut before nodes that are not supported, and says what then is left to the app."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from alcove.platform.cli.importing.onnx_files.build import Scope
from alcove.platform.cli.importing.onnx_files.node import Value
from alcove.platform.cli.importing.onnx_files.reader import read_names
from onnx import GraphProto, NodeProto

MANY: Final = 4
"""More tensors than these are given by those that they come from, where these are fewer."""
MOST: Final = 12
"""More are no help."""
CHOICES: Final = frozenset({"NonMaxSuppression", "NonZero", "Unique", "Compress"})
"""Operators that choose among elements, as many as the elements say."""
LAYERS: Final = frozenset(
    {"Conv", "ConvTranspose", "ConvInteger", "QLinearConv", "FusedConv", "DeformConv", "Gemm", "LSTM", "GRU", "RNN"}
)
"""Operators whose weights are trained, whatever they read."""
PRODUCTS: Final = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul", "Einsum"})
"""Those whose weights are, where they read a tensor of the file."""
THRESHOLDS: Final = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
"""Inputs 2 to 4 of NonMaxSuppression."""


def find_cut(graph: GraphProto, scope: Scope, wanted: Sequence[str]) -> list[str]:
    """Return the names of the tensors to give in place of `wanted`: all before the first nodes that are not supported.

    Args:
        graph: the file's.
        scope: what is known by name; None for what is not.
        wanted: the outputs.

    Returns:
        Names in the order of the file; none if what is not supported takes the inputs of the graph as they are.
    """
    makers = {name: node for node in graph.node for name in node.output if name}
    found = {name for name in wanted if _depends(scope, name)}
    stack = [name for name in wanted if scope.get(name, 0) is None]
    seen = set(stack)
    while stack:
        maker = makers.get(stack.pop())
        for name in () if maker is None else read_names(maker):
            if _depends(scope, name) and name in makers:
                found.add(name)
            elif scope.get(name, 0) is None and name not in seen:
                seen.add(name)
                stack.append(name)
    found = _gather(found, makers, scope)
    order = {name: index for index, node in enumerate(graph.node) for name in node.output}
    return sorted(found, key=order.__getitem__) if len(found) <= MOST else []


def _depends(scope: Scope, name: str) -> bool:
    value = scope.get(name)
    return isinstance(value, Value) and not value.is_constant


def _gather(found: set[str], makers: Mapping[str, NodeProto], scope: Scope) -> set[str]:
    """Return fewer tensors from which the same can be computed, if they are many: one sliced in parts, say."""
    while len(found) > MANY:
        before = {
            name: {each for each in read_names(makers[name]) if _depends(scope, each)}
            for name in found
            if name in makers
        }
        sources = [next(iter(names)) for names in before.values() if len(names) == 1]
        best = max(set(sources), key=lambda name: (sources.count(name), name), default="")
        if best not in makers or sources.count(best) < 2:
            return found
        found = {name for name in found if before.get(name) != {best}} | {best}
    return found


def are_choices(problems: Iterable[tuple[str, int, str]]) -> bool:
    """Return whether problems are choices among elements, and what else depends on elements.

    Args:
        problems: operator, its version, and why it is not supported.
    """
    kinds = {kind.rpartition(".")[2] for kind, _, _ in problems}
    return bool(kinds & CHOICES) and all("depend" in why for _, _, why in problems)


def has_layers(nodes: Sequence[NodeProto], held: Collection[str]) -> bool:
    """Return whether nodes hold trained weights: what lies behind a cut is then no mere choice of boxes.

    Args:
        nodes: behind the cut.
        held: names of the tensors in the file.
    """
    for node in nodes:
        if node.op_type in LAYERS or (node.op_type in PRODUCTS and any(name in held for name in node.input)):
            return True
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                if has_layers(graph.node, {*held, *(each.name for each in graph.initializer)}):
                    return True
    return False


def describe_choice(nodes: Sequence[NodeProto], scope: Scope) -> list[str]:
    """Return with which numbers the file chooses boxes, as far as they are known."""
    found = []
    for node in nodes:
        if node.op_type != "NonMaxSuppression":
            continue
        values = [scope.get(name) for name in node.input[2:]]
        known = [
            f"{word} {value.tensor.flatten()[0].item():g}"
            for word, value in zip(THRESHOLDS, values, strict=False)
            if isinstance(value, Value) and value.is_constant and value.tensor.numel()
        ]
        if known:
            found.append(f"NonMaxSuppression of {node.input[0]} and {node.input[1]} with {', '.join(known)}")
    return found
