"""Lowers alcove's own operators of decoding: frames of classes to labelings."""

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import Call, Refused, rule
from alcove.runtime.compiler.scratch import scratch_bytes
from alcove.runtime.format.attributes import CtcBeamAttributes
from alcove.runtime.format.spec import DType

MOST_WIDTH = 1024
"""What the operator keeps at most."""


@rule("alcove.ctc_beam.default")
def ctc_beam(call: Call, b: Builder) -> tuple[Value, Value, Value]:
    """The most probable labelings, int64, followed by blanks; how many ids they have; their scores."""
    x, width, blank, paths = call.tensor("log_probs"), call["width"], call["blank"], call["paths"]
    if x.dtype is not DType.F32 or len(x.shape) != 3:
        raise Refused("ctc_beam of float32 [batch, frames, classes]")
    batch, frames, classes = x.shape
    if not 1 <= width <= MOST_WIDTH or not 1 <= paths <= width or not 0 <= blank < classes:
        raise Refused(f"ctc_beam with a width in [1, {MOST_WIDTH}], paths up to it, and a blank below the classes")
    scratch = scratch_bytes("ctc_beam", frames=frames, classes=classes, width=width)
    rows = (batch, paths)
    outputs = [(DType.I64, (*rows, frames)), (DType.I64, rows), (DType.F32, rows), (DType.U8, (scratch,))]
    ids, counts, scores, _ = b.ops("ctc_beam", [x], outputs, CtcBeamAttributes(width=width, blank=blank))
    return ids, counts, scores
