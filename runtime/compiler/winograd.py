"""Chooses the 3x3 convolutions that take Winograd's form, and transforms their weights.

F(4x4, 3x3) needs a quarter of the products and rounds about twice as much as the direct sum, but its weights are four
times as large: 36 numbers for 9.  The program records the choice, so its bits are the same everywhere.  Formulas and
sources are in kernels/operators/winograd_conv2d/winograd_conv2d.h; this comes after quantization, which knows direct
convolutions only.
"""

import math
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import numpy as np
from alcove.runtime.compiler.costs import Convolution
from alcove.runtime.compiler.graph import Graph, Node, Value, as_f32
from alcove.runtime.compiler.pack import packer
from alcove.runtime.compiler.panels import WINOGRAD_FORM, shape_mark, winograd_weights
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import Conv2dAttributes, WinogradConv2dAttributes
from alcove.runtime.format.spec import PANEL_COLUMNS, DType

GROWTH_BYTES: Final = 8 << 20
"""How much larger a program may get for speed if nobody says how much."""

_LEAST_GAIN: Final = 1.2
"""Expected times closer than this are within the error of the costs."""
_LEAST_SAVED_NS: Final = 5000.0
"""Below this a program is no faster for its user."""


@dataclass(frozen=True)
class Candidate:
    """A convolution that may take Winograd's form.

    Attributes:
        place: which conv2d of the graph, from 0.
        convolution: its sizes.
        growth_bytes: by how much its weights grow.
    """

    place: int
    convolution: Convolution
    growth_bytes: int

    @property
    def saved_ns(self) -> float:
        """Expected."""
        return self.convolution.direct_ns - self.convolution.winograd_ns

    @property
    def is_worth(self) -> bool:
        """Whether the gain is beyond doubt."""
        is_faster = self.convolution.direct_ns > _LEAST_GAIN * self.convolution.winograd_ns
        return is_faster and self.saved_ns > _LEAST_SAVED_NS


def candidates(graph: Graph) -> list[Candidate]:
    """Return the convolutions of a graph, before `pack`, that have the form: 3x3, stride 1, constant weights."""
    found = []
    for place, node in enumerate(node for node in graph.nodes if node.op == "conv2d"):
        constants = all(graph.values[key].constant is not None for key in node.inputs[1:3])
        attributes = node.read(Conv2dAttributes)
        steps = (
            attributes.stride_h,
            attributes.stride_w,
            attributes.dilation_h,
            attributes.dilation_w,
            attributes.groups,
        )
        if not constants or attributes.kernel_h != 3 or attributes.kernel_w != 3 or any(step != 1 for step in steps):
            continue
        images, rows, columns, outputs = graph.values[node.outputs[0]].shape
        inputs = graph.values[node.inputs[0]].shape[3]
        panels = -(-outputs // PANEL_COLUMNS)
        grown = 36 * (inputs + 1) + 1 - (9 * inputs + 1)
        sizes = Convolution(images, rows, columns, inputs, outputs)
        found.append(Candidate(place, sizes, panels * PANEL_COLUMNS * 4 * grown))
    return found


def choose_winograd(graph: Graph, growth_bytes: int) -> frozenset[int]:
    """Return the places of the conv2d that take Winograd's form: those that save most a byte, while bytes last."""
    worth = [each for each in candidates(graph) if each.is_worth]
    chosen = set()
    for each in sorted(worth, key=lambda each: (-each.saved_ns / each.growth_bytes, each.place)):
        if each.growth_bytes <= growth_bytes:
            chosen.add(each.place)
            growth_bytes -= each.growth_bytes
    return frozenset(chosen)


def winograd(graph: Graph, chosen: AbstractSet[int]) -> Graph:
    """Return the graph with the chosen conv2d, by their places among all conv2d, as winograd_conv2d."""
    values = dict(graph.values)
    places = count()
    nodes = [_in_form(values, node) if node.op == "conv2d" and next(places) in chosen else node for node in graph.nodes]
    return replace(graph, nodes=tuple(nodes), values=values)


def _in_form(values: dict[str, Value], node: Node) -> Node:
    scratch = values[node.outputs[1]]
    outputs, inputs = values[node.outputs[0]].shape[3], values[node.inputs[0]].shape[3]
    values[scratch.key] = replace(scratch, shape=(scratch_bytes("winograd_conv2d", in_c=inputs, out_c=outputs),))
    settings = node.read(Conv2dAttributes)
    attributes = WinogradConv2dAttributes(
        pad_top=settings.pad_top,
        pad_left=settings.pad_left,
        pad_bottom=settings.pad_bottom,
        pad_right=settings.pad_right,
        has_residual=settings.has_residual,
        activation=settings.activation,
        low=settings.low,
        high=settings.high,
    )
    return replace(node, op="winograd_conv2d", attributes=attributes)


@packer("winograd_conv2d")
def _pack_winograd(weight: Value, bias: Value, _node: Node) -> Value:
    """Return f32 [floats]: the bias, then the panels of each of the 36 products."""
    packed = as_f32(winograd_weights(weight.array, bias.array))
    mark = shape_mark(weight.shape) + WINOGRAD_FORM
    return Value("", mark, DType.F32, (math.prod(packed.shape),), constant=np.ascontiguousarray(packed))
