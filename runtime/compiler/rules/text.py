"""Lowers alcove's own operators of texts."""

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.format.attributes import NgramHashAttributes
from alcove.runtime.format.spec import DType

MAX_BAG_IDS = 2**20
"""The format's own cap, runtime/native/core/limits.h."""


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
    return b.ops("ngram_hash", [text], [(DType.I32, (capacity,))], attributes, ragged=True)[0]
