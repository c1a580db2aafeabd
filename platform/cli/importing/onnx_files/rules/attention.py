"""Rules of attention and of what lies around it in transformers, as ONNX Runtime fuses them."""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - the name that torch uses
from alcove.platform.cli.importing.onnx_files.errors import UnsupportedError
from alcove.platform.cli.importing.onnx_files.node import Function, Node, rule
from torch import Tensor

MASKED = -10000.0
"""What ONNX Runtime adds to a score that is masked, unless the node says otherwise."""


def pick(tensors: tuple[Any, ...], index: int) -> Any:
    """Return an input of a node, or None if it is left out."""
    return tensors[index] if index < len(tensors) else None


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Return [batch, steps, heads * size] as [batch, heads, steps, size]."""
    batch, steps, width = x.shape
    return x.reshape(batch, steps, heads, width // heads).permute(0, 2, 1, 3)


def join_heads(x: Tensor) -> Tensor:
    """Return [batch, heads, steps, size] as [batch, steps, heads * size]."""
    batch, heads, steps, size = x.shape
    return x.permute(0, 2, 1, 3).reshape(batch, steps, heads * size)


def attend(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, *, is_causal: bool = False
) -> Tensor:
    """Return the values [batch, heads, steps, size] by the softmax of scaled products and of what is added to them."""
    if is_causal:
        steps, total = query.shape[2], key.shape[2]
        future = torch.ones((steps, total), dtype=torch.bool).triu(total - steps + 1)
        hidden = torch.zeros((steps, total)).masked_fill(future, torch.finfo(torch.float32).min)
        bias = hidden if bias is None else bias + hidden
    return F.scaled_dot_product_attention(query, key, value, bias, scale=scale)


def mask_of(node: Node, index: int, batch: int, total: int) -> Callable[[Tensor], Tensor]:
    """Return what makes numbers that are added to scores of a mask of whole numbers, in any of its five forms."""
    value = node.float_of("mask_filter_value", MASKED)
    shape = node.shape(index)

    def bias_of(keeps: Tensor) -> Tensor:
        return (1.0 - keeps.to(torch.float32)) * value

    if len(shape) == 2 and shape == (batch, total):
        return lambda mask: bias_of(mask[:, None, None, :])
    if len(shape) == 3:
        return lambda mask: bias_of(mask[:, None])
    if len(shape) == 4:
        return lambda mask: bias_of(mask[:, :, -1:, :total] if mask.shape[2] == 1 else mask[:, :, :, :total])
    if shape == (batch,):
        return lambda mask: bias_of(torch.arange(total)[None, :] < mask[:, None])[:, None, None, :]
    if shape == (2 * batch,):

        def between(mask: Tensor) -> Tensor:
            ends, starts, places = mask[:batch, None], mask[batch:, None], torch.arange(total)[None, :]
            return bias_of((places < ends) & (places >= starts))[:, None, None, :]

        return between
    raise UnsupportedError(f"a mask of shape {list(shape)} for {batch} sequences of {total} steps")


def _scale(node: Node, size: int) -> float:
    return node.float_of("scale") or 1 / math.sqrt(size)


@rule("com.microsoft.Attention", "com.microsoft.QAttention")
def attention(node: Node) -> Function:
    """Over one sequence, whose products for query, key and value are one matrix, of levels in `QAttention`."""
    if node.int_of("do_rotary") or node.int_of("past_present_share_buffer"):
        raise UnsupportedError("rotary embedding or a shared cache in it")
    is_quantized = node.kind.endswith("QAttention")
    places = {"mask": 5, "past": 8} if is_quantized else {"mask": 3, "past": 4, "bias": 5}
    heads, is_causal = node.int_of("num_heads"), bool(node.int_of("unidirectional"))
    batch, steps, _ = node.shape()
    width = node.shape(1)[1]
    widths = node.ints("qkv_hidden_sizes", []) or [width // 3] * 3
    before = node.shape(places["past"])[3] if node.has(places["past"]) else 0
    mask = mask_of(node, places["mask"], batch, before + steps) if node.has(places["mask"]) else None
    scale = _scale(node, widths[0] // heads)

    def function(x: Tensor, weight: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        given = (x, weight, *rest)
        if is_quantized:
            zero_x, zero_w = pick(given, 6), pick(given, 7)
            x = (x.float() if zero_x is None else x.float() - zero_x.float()) * given[3]
            weight = (weight.float() if zero_w is None else weight.float() - zero_w.float()) * given[4]
        bias = pick(given, 2)
        joined = F.linear(x, weight.T, bias)
        query, key, value = (split_heads(part, heads) for part in torch.split(joined, widths, -1))
        past = pick(given, places["past"])
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        added = None if mask is None else mask(pick(given, places["mask"]))
        more = pick(given, places["bias"]) if "bias" in places else None
        added = more if added is None else added if more is None else added + more
        found = join_heads(attend(query, key, value, added, scale, is_causal=is_causal))
        return found, torch.stack([key, value]) if len(node.outputs) > 1 and node.outputs[1] else found

    return function


def _parts(node: Node, heads: int) -> tuple[int, Function]:
    """Return the number of keys, and what gives query, key and value by heads of the first three inputs."""
    if node.rank() == 5:
        return node.shape()[1], lambda q, _k, _v: q.permute(3, 0, 2, 1, 4).unbind(0)
    if node.rank(1) == 5:
        return node.shape(1)[1], lambda q, k, _v: (split_heads(q, heads), *k.permute(3, 0, 2, 1, 4).unbind(0))
    if node.rank(1) == 4:
        return node.shape(1)[2], lambda q, k, v: (split_heads(q, heads), k, v)
    return node.shape(1)[1], lambda q, k, v: tuple(split_heads(part, heads) for part in (q, k, v))


@rule("com.microsoft.MultiHeadAttention")
def multi_head_attention(node: Node) -> Function:
    """Of queries, keys and values, whose products are made before it."""
    heads, is_causal = node.int_of("num_heads"), bool(node.int_of("unidirectional"))
    length, parts = _parts(node, heads)
    batch = node.shape()[0]
    before = node.shape(6)[2] if node.has(6) else 0
    mask = mask_of(node, 4, batch, before + length) if node.has(4) else None
    has_cache = any(node.outputs[1:])

    def function(query: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        given = (query, *rest)
        q, k, v = parts(query, pick(given, 1), pick(given, 2))
        bias = pick(given, 3)
        if bias is not None:
            sizes = [heads * q.shape[3], heads * q.shape[3], bias.shape[0] - 2 * heads * q.shape[3]]
            shifts = [each.reshape(1, heads, 1, -1) for each in torch.split(bias, sizes)]
            q, k, v = q + shifts[0], k + shifts[1], v + shifts[2]
        if pick(given, 6) is not None:
            k, v = torch.cat([given[6], k], 2), torch.cat([given[7], v], 2)
        added = None if mask is None else mask(given[4])
        more = pick(given, 5)
        added = more if added is None else added if more is None else added + more
        found = join_heads(attend(q, k, v, added, _scale(node, q.shape[3]), is_causal=is_causal))
        return (found, k, v) if has_cache else (found,)

    return function


def rotate(x: Tensor, cosine: Tensor, sine: Tensor, *, is_interleaved: bool) -> Tensor:
    """Return the first elements of the last axis turned in pairs: neighbors, or those of two halves."""
    half = cosine.shape[-1]
    turned, rest = x[..., : 2 * half], x[..., 2 * half :]
    if is_interleaved:
        left, right = turned[..., 0::2], turned[..., 1::2]
        pairs = torch.stack([left * cosine - right * sine, right * cosine + left * sine], -1).flatten(-2)
    else:
        left, right = turned[..., :half], turned[..., half:]
        pairs = torch.cat([left * cosine - right * sine, right * cosine + left * sine], -1)
    return torch.cat([pairs, rest], -1) if rest.shape[-1] else pairs


@rule("com.microsoft.RotaryEmbedding")
def rotary_embedding(node: Node) -> Function:
    """Turns each pair by the angle of its place, from tables of cosines and sines."""
    if node.int_of("is_packed_batching"):
        raise UnsupportedError("packed batches")
    shape, table = node.shape(), node.shape(2)
    is_interleaved = bool(node.int_of("interleaved"))
    heads = node.int_of("num_heads") or (shape[2] // (2 * table[1]) if len(shape) == 3 else shape[1])
    steps = shape[-2]

    def function(x: Tensor, positions: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        places = positions.long()
        places = places + torch.arange(steps) if places.numel() == 1 else places
        cosine, sine = (F.embedding(places.reshape(-1, steps), each)[:, None] for each in (cosines, sines))
        turned = rotate(split_heads(x, heads) if x.dim() == 3 else x, cosine, sine, is_interleaved=is_interleaved)
        return join_heads(turned) if x.dim() == 3 else turned

    return function


@rule("com.microsoft.GroupQueryAttention")
def group_query_attention(node: Node) -> Function:
    """Causal attention whose keys and values serve several heads, over a cache that is full."""
    heads, groups = node.int_of("num_heads"), node.int_of("kv_num_heads")
    if node.int_of("local_window_size", -1) > 0 or node.float_of("softcap") or not node.has(1):
        raise UnsupportedError("a sliding window, softcap or packed products")
    if node.int_of("smooth_softmax") or any(node.has(index) for index in range(9, len(node.inputs))):
        raise UnsupportedError("positions, biases or sinks as inputs")
    batch, steps, width = node.shape()
    before = node.shape(3)[2] if node.has(3) else 0
    value = node.value(5)
    if value is None or not value.is_constant or any(n != before + steps - 1 for n in node.integers(5, "lengths")):
        raise UnsupportedError(
            f"seqlens_k must be known, {before + steps - 1} here: --constant NAME={before + steps - 1} for the input "
            "that it comes from"
        )
    scale, size = _scale(node, width // heads), width // heads
    has_rotary, is_interleaved = bool(node.int_of("do_rotary")), bool(node.int_of("rotary_interleaved"))

    def function(query: Tensor, key: Tensor, *rest: Any) -> tuple[Tensor, ...]:
        given = (query, key, *rest)
        q, k, v = split_heads(query, heads), split_heads(key, groups), split_heads(given[2], groups)
        if has_rotary:
            tables = (each[before : before + steps] for each in given[7:9])
            cosine, sine = tables
            q = rotate(q, cosine, sine, is_interleaved=is_interleaved)
            k = rotate(k, cosine, sine, is_interleaved=is_interleaved)
        if before:
            k, v = torch.cat([given[3], k], 2), torch.cat([given[4], v], 2)
        wide = [
            each[:, :, None].expand(batch, groups, heads // groups, before + steps, size).flatten(1, 2)
            for each in (k, v)
        ]
        return join_heads(attend(q, wide[0], wide[1], None, scale, is_causal=True)), k, v

    return function


@rule("com.microsoft.EmbedLayerNormalization", "com.microsoft.QEmbedLayerNormalization")
def embed_layer_norm(node: Node) -> Function:
    """Sums of words', positions' and segments' rows, normalized; and how many elements of the mask are 1."""
    is_quantized = node.kind.endswith("QEmbedLayerNormalization")
    epsilon = node.float_of("epsilon", 1e-12)
    steps = node.shape()[-1]

    def function(*given: Any) -> tuple[Tensor, ...]:
        ids, segments, mask = given[0].long(), pick(given, 1), pick(given, 7)
        tables: list[Any] = [pick(given, index) for index in range(2, 7)]
        if is_quantized:
            scales = given[8:13]
            zeros = [pick(given, index) for index in range(13, 18)]
            tables = [
                None if table is None else (table.float() - (0.0 if zero is None else zero.float())) * scale
                for table, scale, zero in zip(tables, scales, zeros, strict=True)
            ]
        words, positions, kinds, gamma, beta = tables
        places = None if is_quantized else pick(given, 8)
        total = F.embedding(ids, words)
        total = total + (positions[:steps] if places is None else F.embedding(places.long(), positions))
        if segments is not None and kinds is not None:
            total = total + F.embedding(segments.long(), kinds)
        lengths = torch.zeros_like(ids[:, 0]).int() if mask is None else (mask == 1).sum(-1).int()
        return F.layer_norm(total, (total.shape[-1],), gamma, beta, epsilon), lengths, total

    return function


@rule("com.microsoft.BiasSoftmax")
def bias_softmax(node: Node) -> Function:
    """Of a sum, over all axes from one on."""
    axis, shape = node.axis(1), node.shape()
    rows, bias = math.prod(shape[:axis]), node.shape(1)
    is_inner = bool(node.int_of("is_inner_broadcast"))

    def function(x: Tensor, added: Tensor) -> Tensor:
        if added.dim() != len(shape) or is_inner:
            total = x + added
        else:
            repeats = shape[0] // bias[0]
            total = x + (added.repeat_interleave(repeats, 0) if repeats > 1 and bias[0] > 1 else added)
        return torch.softmax(total.reshape(rows, -1), -1).reshape(shape)

    return function


@rule("com.microsoft.BiasAdd")
def bias_add(_node: Node) -> Function:
    """A sum of three."""
    return lambda x, bias, skip: x + bias + skip
