"""Lowers alcove's own operators of regions: components of masks, and boxes that overlap."""

import math

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import ConnectedComponentsAttributes, NonMaximumSuppressionAttributes
from alcove.runtime.format.spec import DType

_CORNERS = 4


@rule("alcove.connected_components.default")
def connected_components(call: Call, b: Builder) -> tuple[Value, Value]:
    """Labels of components and the area of each pixel's component, int32."""
    mask, connectivity = call.tensor("mask"), int(call["connectivity"])
    if mask.dtype is not DType.BOOL or len(mask.shape) != 3:
        raise Refused("connected_components of bool [batch, height, width]")
    if connectivity not in {4, 8}:
        raise Refused("connected_components with a connectivity of 4 or 8")
    scratch = scratch_bytes("connected_components", height=mask.shape[1], width=mask.shape[2])
    outputs = [(DType.I32, mask.shape), (DType.I32, mask.shape), (DType.U8, (scratch,))]
    attributes = ConnectedComponentsAttributes(connectivity=connectivity)
    labels, areas, _ = b.ops("connected_components", [mask], outputs, attributes)
    return labels, areas


@rule("alcove.non_maximum_suppression.default")
def non_maximum_suppression(call: Call, b: Builder) -> tuple[Value, Value]:
    """Indices of the boxes that are kept, int64, -1 behind them; how many there are."""
    boxes, scores, classes = call.tensor("boxes"), call.tensor("scores"), call.optional("classes")
    iou_threshold, score_threshold = float(call["iou_threshold"]), float(call["score_threshold"])
    most = call["max_output"]
    if boxes.dtype is not DType.F32 or len(boxes.shape) != 3 or boxes.shape[2] != _CORNERS:
        raise Refused("non_maximum_suppression of float32 boxes [batch, count, 4]")
    if scores.dtype is not DType.F32 or scores.shape != boxes.shape[:2]:
        raise Refused("non_maximum_suppression with float32 scores [batch, count]")
    if classes is not None and (classes.dtype is not DType.I64 or classes.shape != scores.shape):
        raise Refused("non_maximum_suppression with int64 classes [batch, count]")
    if not 0 <= iou_threshold <= 1 or math.isnan(score_threshold) or most < 1:
        raise Refused("non_maximum_suppression with an iou_threshold in [0, 1], a score_threshold and 1 box or more")
    batch, count = scores.shape
    scratch = scratch_bytes("non_maximum_suppression", count=count, most=most)
    outputs = [(DType.I64, (batch, most)), (DType.I64, (batch,)), (DType.U8, (scratch,))]
    inputs = [boxes, scores] if classes is None else [boxes, scores, classes]
    attributes = NonMaximumSuppressionAttributes(iou_threshold=iou_threshold, score_threshold=score_threshold)
    indices, counts, _ = b.ops("non_maximum_suppression", inputs, outputs, attributes)
    return indices, counts
