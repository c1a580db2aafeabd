"""Quantizes the weights of linears and recurrent layers, without calibration.

    int8_dynamic   int8 weights; each row of inputs is quantized by its own range as it comes
    int4_dynamic   weights of 4 bits, a scale for each group of inputs; each group is quantized to int8 as it comes
    int8_weights   int8 weights, one scale an output; the arithmetic stays float32
    int4_weights   weights of 4 bits, a scale for each group of inputs; likewise

What a linear does beside its product (a sum, bounds) becomes nodes of their own again.  Recurrent layers have int8
weights in all four modes; with the dynamic ones the rows of their inputs and states are quantized for the products,
while gates and cells stay float32.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from alcove.runtime.compiler.builder import unary_attributes
from alcove.runtime.compiler.dead_code_elimination import eliminate_dead_code
from alcove.runtime.compiler.graph import NONE, Graph, Node, Value
from alcove.runtime.compiler.panels import unpanel
from alcove.runtime.compiler.quantize.options import Quantization
from alcove.runtime.compiler.quantize.packing import (
    biased_panels_i8,
    dynamic_panels_i8,
    panels_i4,
    panels_i8,
    panels_qb4,
    quantize_i4,
)
from alcove.runtime.compiler.quantize.partitioner import without_residuals
from alcove.runtime.compiler.quantize.quantizable_ops import LAYERS, MAX_PRODUCTS, kind_of, layer_attributes, rows_of
from alcove.runtime.compiler.quantize.report import LayerReport, QuantizationReport, decibels, layer_name
from alcove.runtime.compiler.quantize.scales import quantize_rows, weight_scales
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.compiler.share_tables import share_tables
from alcove.runtime.compiler.sizes import Size
from alcove.runtime.compiler.weights import COMPUTED
from alcove.runtime.format.attributes import LinearF32Qb4wAttributes, LinearQd8Qb4wAttributes
from alcove.runtime.format.spec import DType, Layout
from numpy.typing import NDArray

MANY_ROWS: Final = 64
"""That the kernel of `int8_dynamic` multiplies at a time, if there is room."""
RECURRENT: Final = ("rnn", "gru", "lstm")
OPS = {
    "int8_dynamic": "linear_qd8_qc8w",
    "int8_weights": "linear_f32_qc8w",
    "int4_dynamic": "linear_qd8_qb4w",
    "int4_weights": "linear_f32_qb4w",
}
_MOST_GROUPS: Final = 1024
"""Of a product with inputs in groups: a sum of floats of more would be taken in blocks."""


def quantize_without_calibration(graph: Graph, options: Quantization) -> tuple[Graph, QuantizationReport]:
    """Return a fused graph whose linears have weights as the options say, and what that did."""
    base = without_residuals(graph)
    values = dict(base.values)
    nodes: list[Node] = []
    layers: list[LayerReport] = []
    products: dict[str, Node] = {}  # by the keys of their weights as they were
    for node in base.nodes:
        if node.op in RECURRENT:
            recurrent, layer = _recurrent(values, node, is_dynamic=options.mode.endswith("_dynamic"))
            nodes.append(recurrent)
            layers.append(layer)
            continue
        if node.op not in LAYERS:
            nodes.append(node)
            continue
        reason = _reason(base, node, options)
        if reason:
            nodes.append(node)
            size = sum(
                base.values[key].array.nbytes for key in node.inputs[1:3] if base.values[key].constant is not None
            )
            name = layer_name(node.origin.module_path, node.outputs[0])
            layers.append(LayerReport(name, node.op, "float32", reason, float_bytes=size, stored_bytes=size))
            continue
        output, layer = smaller_linear(values, node, options)
        products[node.inputs[1]] = output[0]
        nodes += output
        layers.append(layer)
    packed = {weight: (product.inputs[1], product) for weight, product in products.items()}
    result = share_tables(eliminate_dead_code(replace(base, values=values, nodes=tuple(nodes))), packed)
    return result, QuantizationReport(options.mode, tuple(layers))


def _reason(graph: Graph, node: Node, options: Quantization) -> str:
    """Return why a layer stays float32."""
    if node.op != "linear":
        return "only linears have smaller weights without calibration"
    kind, reason = kind_of(graph, node)
    most = min(MAX_PRODUCTS, _MOST_GROUPS * options.group) if options.mode == "int4_dynamic" else MAX_PRODUCTS
    too_long = graph.values[node.inputs[0]].shape[-1] > most
    return reason if kind is None else f"sums of more than {most} products" if too_long else ""


def smaller_linear(values: dict[str, Value], node: Node, options: Quantization) -> tuple[list[Node], LayerReport]:
    """Return nodes that stand for a product of rows, with weights as the options say; add their values.

    Args:
        values: of the graph.
        node: for which `is_product_of_rows`, without a residual.
        options: of a mode without calibration.
    """
    weight, bias = values[node.inputs[1]], values[node.inputs[2]]
    rows = rows_of(weight.array)
    packed, approximate = _pack_rows(rows, options)
    is_grouped = options.mode.startswith("int4")
    key = f"{weight.key}:{options.mode}{options.group if is_grouped else ''}"
    values[key] = Value(key, COMPUTED + key, DType.I8, packed.shape, constant=packed)
    settings = layer_attributes(node)
    is_clamped = settings.activation == 1
    out = node.outputs[0]
    nodes, source = [], values[node.inputs[0]]
    if source.shape[-1] != rows.shape[1]:  # a window that is the whole image
        flat = f"{out}:window"
        values[flat] = replace(source, key=flat, name=flat, shape=(*values[out].shape[:-1], rows.shape[1]))
        nodes.append(Node("reshape", (source.key,), (flat,), NONE, node.origin))
        source = values[flat]
    plain = f"{out}:plain" if is_clamped else out
    values[plain] = replace(values[out], key=plain, name=plain) if is_clamped else values[out]
    inputs = (source.key, key, *([bias.key] if bias.array.any() else []))
    attributes = NONE
    outputs: tuple[str, ...] = (plain,)
    if options.mode == "int4_weights":
        attributes = LinearF32Qb4wAttributes(group=options.group)
    if options.mode == "int4_dynamic":
        attributes = LinearQd8Qb4wAttributes(group=options.group)
    if options.mode.endswith("_dynamic"):
        scratch = f"{out}:scratch"
        needed = {"group": options.group} if is_grouped else {"rows": _most_rows(values[out].shape)}
        size = scratch_bytes(OPS[options.mode], inputs=rows.shape[1], **needed)
        values[scratch] = Value(scratch, scratch, DType.U8, (size,))
        outputs = (plain, scratch)
    nodes.append(Node(OPS[options.mode], inputs, outputs, attributes, node.origin))
    if is_clamped:
        clamp = unary_attributes("clamp", settings.low, settings.high)
        nodes.append(Node("unary", (plain,), (out,), clamp, node.origin))
    wide = rows.astype(np.float64)
    bias_bytes = bias.array.nbytes if bias.array.any() else 0
    layer = LayerReport(
        layer_name(node.origin.module_path, out),
        node.op,
        options.mode.replace("_", " "),
        snr_db=decibels(float((wide**2).sum()), float(((wide - approximate) ** 2).sum())),
        float_bytes=rows.nbytes + bias_bytes,
        stored_bytes=packed.nbytes + bias_bytes,
    )
    return nodes, layer


def _recurrent(values: dict[str, Value], node: Node, *, is_dynamic: bool) -> tuple[Node, LayerReport]:
    """Return a recurrent layer that reads int8 weights, packed with their biases in float32."""
    inputs, longest = list(node.inputs), 0
    signal = noise = 0.0
    before = after = 0
    for place, key in enumerate(inputs):
        value = values[key]
        if value.layout is not Layout.PANEL16:
            continue
        rows, bias = unpanel(value.array.reshape(-1), value.shape[0], value.shape[1])
        scales = weight_scales(rows, np.zeros(len(rows)), 1.0)
        integers = quantize_rows(rows, scales)
        pack = dynamic_panels_i8 if is_dynamic else biased_panels_i8
        packed, longest = pack(integers, bias, scales), max(longest, rows.shape[1])
        inputs[place] = result = f"{key}:int8_dynamic" if is_dynamic else f"{key}:int8"
        values[result] = Value(result, COMPUTED + result, DType.I8, packed.shape, constant=packed)
        wide = rows.astype(np.float64)
        signal += float((wide**2).sum())
        noise += float(((wide - integers * scales.astype(np.float64)[:, None]) ** 2).sum())
        before, after = before + value.array.nbytes, after + packed.nbytes
    if is_dynamic:
        scratch = values[node.outputs[-1]]
        (size,) = scratch.shape
        values[scratch.key] = replace(scratch, shape=(size + _dynamic_scratch_bytes(longest),))
    layer = LayerReport(
        layer_name(node.origin.module_path, node.outputs[0]),
        node.op,
        "int8 dynamic" if is_dynamic else "int8 weights",
        snr_db=decibels(signal, noise),
        float_bytes=before,
        stored_bytes=after,
    )
    return replace(node, inputs=tuple(inputs)), layer


def _most_rows(shape: Sequence[int]) -> int:
    """Return the rows of an output, or so many that more need no more scratch."""
    rows = shape[:-1]
    return MANY_ROWS if any(isinstance(size, Size) for size in rows) else min(math.prod(rows), MANY_ROWS)


def _dynamic_scratch_bytes(inputs: int) -> int:
    return scratch_bytes("linear_qd8_qc8w", inputs=inputs, rows=1)


def _pack_rows(rows: NDArray[np.float32], options: Quantization) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """Return packed weights and what they stand for."""
    if options.mode.startswith("int4"):
        is_dynamic = options.mode == "int4_dynamic"
        integers, scales = quantize_i4(rows, options.group, has_half_scales=is_dynamic)
        spread = np.repeat(scales.astype(np.float64), options.group, axis=1)[:, : rows.shape[1]]
        return (panels_qb4 if is_dynamic else panels_i4)(integers, scales, options.group), integers * spread
    scales = weight_scales(rows, np.zeros(len(rows)), 1.0)
    integers = quantize_rows(rows, scales)
    packed = panels_i8(integers, integers.astype(np.int64).sum(axis=1), scales)
    return packed, integers * scales.astype(np.float64)[:, None]
