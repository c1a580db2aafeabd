"""Lowers alcove's own operators of texts."""

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import NgramHashAttributes, TokenizeAttributes
from alcove.runtime.format.spec import DType

MAX_BAG_IDS = 2**20
"""The format's own cap, runtime/native/core/limits.h."""
MAX_TEXT_BYTES = 2**18
"""What the op budget admits."""


@rule("alcove.ngram_hash.default")
def ngram_hash(call: Call, b: Builder) -> Value:
    """Text to ids, int32 of varying number."""
    text = call["utf8"]
    if not isinstance(text, Value) or text.dtype is not DType.TEXT:
        raise Refused("alcove::ngram_hash of a text: pass a str as the example argument, use it as it comes")
    capacity = call["capacity"]
    if not 1 <= capacity <= MAX_BAG_IDS:
        raise Refused(f"ngram_hash with a capacity in [1, {MAX_BAG_IDS}]")
    attributes = NgramHashAttributes(
        min_order=call["min_order"], max_order=call["max_order"], buckets=call["buckets"], seed=call["seed"]
    )
    inputs = [text] if call["table"] is None else [text, call.tensor("table")]
    return b.ops("ngram_hash", inputs, [(DType.I32, (capacity,))], attributes, ragged=True)[0]


@rule("alcove.tokenize.default")
def tokenize(call: Call, b: Builder) -> tuple[Value, Value]:
    """Text to tokens, int64, padded; and how many there are."""
    text = call["utf8"]
    if not isinstance(text, Value) or text.dtype is not DType.TEXT:
        raise Refused("alcove::tokenize of a text: pass a str as the example argument, use it as it comes")
    capacity, max_bytes = call["capacity"], call["max_bytes"]
    if not 1 <= capacity <= MAX_BAG_IDS or not 1 <= max_bytes <= MAX_TEXT_BYTES:
        raise Refused(f"tokenize with a capacity in [1, {MAX_BAG_IDS}] and max_bytes in [1, {MAX_TEXT_BYTES}]")
    scratch = scratch_bytes("tokenize", max_bytes=max_bytes)
    outputs = [(DType.I64, (capacity,)), (DType.U8, (scratch,)), (DType.I64, (1,))]
    ids, _, count = b.ops("tokenize", [text, call.tensor("table")], outputs, TokenizeAttributes(max_bytes=max_bytes))
    return ids, count


@rule("alcove.detokenize.default")
def detokenize(call: Call, b: Builder) -> tuple[Value, Value]:
    """Tokens to bytes; and how many there are."""
    if len(call.tensor("ids").shape) != 1:
        raise Refused("detokenize of ids [tokens]")
    outputs = [(DType.U8, (call["capacity"],)), (DType.I64, (1,))]
    utf8, size = b.ops("detokenize", [call.tensor("ids"), call.tensor("table")], outputs)
    return utf8, size
