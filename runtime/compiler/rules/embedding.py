"""Lowers bags of embeddings: rows of a table, summed, averaged or compared, one bag at a time."""

import numpy as np
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import TEXT_ONLY, Call, Refused, rule, usable
from alcove.runtime.compiler.rules.text import MAX_BAG_IDS
from alcove.runtime.format.attributes import EmbeddingBagOffsetsAttributes, TextEmbeddingBagAttributes
from alcove.runtime.format.spec import DType

SUM, MEAN, MAX = range(3)


@rule("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(call: Call, b: Builder) -> Value:
    """One row a bag; only the first of torch's results has a meaning at inference."""
    table, ids, offsets = call.tensor("weight"), call["indices"], call.tensor("offsets")
    weights, padding, mode = call.optional("per_sample_weights"), int(call["padding_idx"]), int(call["mode"])
    if table.dtype is not DType.F32:
        raise Refused("embedding_bag of a float32 table")
    if not isinstance(ids, Value) or ids.dtype is DType.TEXT:
        raise Refused(TEXT_ONLY)
    is_plain = weights is None and padding < 0 and mode in (SUM, MEAN)
    is_one_bag = offsets.constant is not None and offsets.constant.tolist() == [0]
    if ids.is_ragged and not (is_plain and is_one_bag and not call["include_last_offset"]):
        raise Refused("embedding_bag of one bag, mode='sum' or mode='mean', offsets [0], for ids that vary in number")
    if is_one_bag and is_plain and _is_hashed_form(b, ids) and table.constant is not None:
        if not np.isfinite(table.constant).all():
            raise Refused(f"the table {table.name!r} holds a value that is not finite")
        return b.op("text_embedding_bag", [ids, table], DType.F32, call.shape, TextEmbeddingBagAttributes(mode=mode))
    return _bags(call, b, usable(ids), offsets)


def _is_hashed_form(b: Builder, ids: Value) -> bool:
    """Return whether `ids` are as the bag of a text has them: int32, from the caller or from the hash."""
    is_given = not any(ids.key in node.outputs for node in b.nodes)
    return (
        ids.dtype is DType.I32 and len(ids.shape) == 1 and (ids.is_ragged or is_given) and ids.shape[0] <= MAX_BAG_IDS
    )


def _bags(call: Call, b: Builder, ids: Value, offsets: Value) -> Value:
    bags = call.shape[0]
    weights = call.optional("per_sample_weights")
    inputs = [ids, call.tensor("weight")]
    length = _length(offsets, ids.shape[0], bags)
    if length is None:
        inputs.append(offsets)
    else:
        inputs[0] = b.reshape(ids, (bags, length))
    if weights is not None:
        inputs.append(b.reshape(weights, inputs[0].shape))
    attributes = EmbeddingBagOffsetsAttributes(
        mode=int(call["mode"]),
        padding=int(call["padding_idx"]),
        has_offsets=int(length is None),
        has_weights=int(weights is not None),
    )
    return b.op("embedding_bag_offsets", inputs, DType.F32, call.shape, attributes)


def _length(offsets: Value, count: int, bags: int) -> int | None:
    """Return how many ids each bag has if the offsets are constant and say that all have as many; else None."""
    if offsets.constant is None or count % bags != 0:
        return None
    length = count // bags
    regular = np.arange(len(offsets.constant)) * length
    return length if np.array_equal(offsets.constant, regular) else None
