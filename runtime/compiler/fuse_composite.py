"""Recognizes the mix of two images by a matte, and replaces it with one operator: one pass over memory instead of four.

    background + matte * (frame - background)

of images of one shape and a matte of one channel, channels first or last. A matte that is made larger for the mix
alone, bilinear, is so within the operator. Each step is rounded as before, so the bits stay.
"""

from collections.abc import Iterator

from alcove.runtime.compiler.graph import Graph, Node
from alcove.runtime.compiler.patterns import Scene, rewrite
from alcove.runtime.format.attributes import CompositeAttributes, Resize2dAttributes
from alcove.runtime.format.spec import DType

_BILINEAR = 2
_RANK = 4
_FIRST, _LAST = 1, 3
"""Where the channels are."""


def fuse_composites(graph: Graph) -> Graph:
    """Return the graph with one node for each mix of two images by a matte."""
    return rewrite(graph, _mix)


def _mix(scene: Scene, node: Node) -> tuple[Node, ...] | None:
    out = node.outputs[0]
    if not scene.is_a(node, "binary", "add") or scene.values[out].dtype is not DType.F32:
        return None
    shape = scene.shape(out)
    for background, product in (node.inputs, node.inputs[::-1]):
        for matte, difference in _factors(scene, product):
            is_image = len(shape) == _RANK and scene.shape(background) == scene.shape(difference.inputs[0]) == shape
            channel = _channel(shape, scene.shape(matte)) if is_image else None
            if channel is not None and difference.inputs[1] == background:
                return _replace(scene, node, (background, difference.inputs[0], matte), channel)
    return None


def _factors(scene: Scene, product: str) -> Iterator[tuple[str, Node]]:
    """Give each operand of a product beside the difference that it is multiplied by."""
    node = scene.only(product)
    if node is None or not scene.is_a(node, "binary", "mul"):
        return
    for matte, key in (node.inputs, node.inputs[::-1]):
        difference = scene.only(key)
        if difference is not None and scene.is_a(difference, "binary", "sub"):
            yield matte, difference


def _channel(image: tuple[int, ...], matte: tuple[int, ...]) -> int | None:
    """Return where the channels are of images that have a matte of this shape, None if it is no matte."""
    for channel in (_FIRST, _LAST):
        if matte == (*image[:channel], 1, *image[channel + 1 :]):
            return channel
    return None


def _replace(scene: Scene, node: Node, inputs: tuple[str, str, str], channel: int) -> tuple[Node, ...]:
    background, frame, matte = inputs
    nodes: list[Node] = []
    attributes = CompositeAttributes(
        is_channels_last=int(channel == _LAST), is_resized=0, align_corners=0, scale_h=0.0, scale_w=0.0
    )
    resize = _resize(scene, matte, channel)
    if resize is not None:
        settings = resize.read(Resize2dAttributes)
        attributes = CompositeAttributes(
            is_channels_last=attributes.is_channels_last,
            is_resized=1,
            align_corners=settings.align_corners,
            scale_h=settings.scale_h,
            scale_w=settings.scale_w,
        )
        batch, height, width, _ = scene.shape(resize.inputs[0])
        shape = (batch, height, width, 1) if channel == _LAST else (batch, 1, height, width)
        matte = scene.reshape(nodes, _skip_reshape(scene, resize.inputs[0], shape), shape)
    return (*nodes, Node("composite", (background, frame, matte), node.outputs, attributes, node.origin))


def _resize(scene: Scene, matte: str, channel: int) -> Node | None:
    """Return the bilinear resizing of one channel that gives the matte, and nothing else."""
    shape = scene.shape(matte)
    node = scene.only(matte)
    if node is not None and node.op == "reshape":
        # Of one channel, first and last are the same order.
        if scene.shape(node.inputs[0]) != (*shape[:channel], *shape[channel + 1 :], 1):
            return None
        node = scene.only(node.inputs[0])
    if node is None or node.op != "resize2d" or node.read(Resize2dAttributes).mode != _BILINEAR:
        return None
    return node


def _skip_reshape(scene: Scene, key: str, shape: tuple[int, ...]) -> str:
    """Return what a reshape has made `key` of, if it has this shape already."""
    node = scene.writers.get(key)
    if node is not None and node.op == "reshape" and scene.shape(node.inputs[0]) == shape:
        return node.inputs[0]
    return key
