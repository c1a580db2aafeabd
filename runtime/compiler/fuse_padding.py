"""Fuses zeros around an image into the convolution that reads it, which has padding of its own on each side.

Networks ported from TensorFlow pad by a step of their own, more behind than before: a pass over the image, and one that
keeps a convolution from its neighbors.
"""

from dataclasses import replace

from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.format.attributes import Conv2dAttributes, DepthwiseConv2dAttributes, PadAttributes

_ROWS, _COLUMNS = 1, 2
"""Dimensions of an image [n, h, w, c]."""


def fuse_padding(graph: Graph) -> Graph:
    """Return the graph whose convolutions pad their input themselves; a pad that nothing reads any more stays."""
    makers = {node.outputs[0]: node for node in graph.nodes if node.op == "pad"}
    return replace(graph, nodes=tuple(_take_padding(node, makers) for node in graph.nodes))


def _take_padding(node: Node, makers: dict[str, Node]) -> Node:
    window = node.attributes
    pad = makers.get(node.inputs[0]) if node.inputs else None
    if pad is None or not isinstance(window, Conv2dAttributes | DepthwiseConv2dAttributes):
        return node
    margins = pad.read(PadAttributes)
    is_zero = margins.mode == 0 and margins.bits == 0
    others = [size for axis in range(8) if axis not in {_ROWS, _COLUMNS} for size in _margin(margins, axis)]
    (top, bottom), (left, right) = _margin(margins, _ROWS), _margin(margins, _COLUMNS)
    if not is_zero or any(others) or min(top, bottom, left, right) < 0:
        return node
    attributes = replace(
        window,
        pad_top=window.pad_top + top,
        pad_bottom=window.pad_bottom + bottom,
        pad_left=window.pad_left + left,
        pad_right=window.pad_right + right,
    )
    return replace(node, inputs=(pad.inputs[0], *node.inputs[1:]), attributes=attributes)


def _margin(margins: PadAttributes, axis: int) -> tuple[int, int]:
    return margins.before[axis], margins.after[axis]
