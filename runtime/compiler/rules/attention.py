"""Lowers scaled dot-product attention to one op for scores, mask, softmax and the sum of values."""

import math

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.matmul import FLOAT_ONLY
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import AttentionAttributes
from alcove.runtime.format.spec import DType


@rule("aten.scaled_dot_product_attention.default", keep=True)
def attention(call: Call, b: Builder) -> Value:
    """With a mask of bool or float32, causal or not, with as many heads or groups of them."""
    query, key, value = (call.tensor(name) for name in ("query", "key", "value"))
    mask = call.optional("attn_mask")
    if call["dropout_p"] != 0:
        raise Refused("dropout_p=0: write `dropout_p if self.training else 0.0`, and call module.eval() before export")
    if any(x.dtype is not DType.F32 for x in (query, key, value)):
        raise Refused(FLOAT_ONLY)
    if any(0 in x.shape for x in (query, key, value)):
        raise Refused("queries, keys and values with elements")
    if call["enable_gqa"] and key.shape[-3] != value.shape[-3]:
        raise Refused("as many heads of values as of keys")
    scale = call["scale"]
    length, width = query.shape[-2:]
    span, value_width = value.shape[-2:]
    inputs = [query, key, value] if mask is None else [query, key, value, mask]
    scratch = scratch_bytes("attention", length=length, span=span, width=width, value_width=value_width)
    number = 1 / math.sqrt(width) if scale is None else float(scale)
    outputs = [(DType.F32, call.shape), (DType.U8, (scratch,))]
    attributes = AttentionAttributes(scale=number, is_causal=int(call["is_causal"]), masked=-math.inf, empty_is_nan=0)
    return b.ops("attention", inputs, outputs, attributes)[0]
