"""Lowers what `nonzero` and `torch.where(mask)` give: the numbers of the places that a mask picks.

They are the numbers of all places with the mask beside them (`picks.py`).  Rows taken by them are rows of all places;
what is written at them, or added, goes into a tensor that has one row more, which takes what lies outside the mask.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.picks import ADVICE, Pick, fill
from alcove.runtime.compiler.rules import RULES, Call, Refused
from alcove.runtime.format.attributes import ArangeAttributes, RavelMultiIndexAttributes
from alcove.runtime.format.spec import DType


def number_places(b: Builder, mask: Value) -> tuple[Value, Pick]:
    """Return the numbers of all places of a mask [places, dimensions], and which it picks.

    Raises:
        Refused: the mask is a scalar.
    """
    if not mask.shape:
        raise Refused(ADVICE)
    if mask.dtype is not DType.BOOL:
        mask = b.binary("ne", mask, b.scalar(0, mask.dtype), DType.BOOL)
    count = math.prod(mask.shape)
    columns = []
    for axis, size in enumerate(mask.shape):
        numbers = b.op("arange", [], DType.I64, (size,), ArangeAttributes(start=0.0, step=1.0))
        shape = [1] * len(mask.shape)
        shape[axis] = size
        columns.append(b.reshape(b.expand(b.reshape(numbers, shape), mask.shape), (count, 1)))
    return b.concat(columns, 1), Pick(b.reshape(mask, (count,)), 0)


def take_rows(b: Builder, call: Call, picks: Mapping[int, Pick]) -> Call:
    """Return `x[i, j]` for all places, by numbers that are in the tensor everywhere.

    Args:
        b: takes the nodes.
        call: of `index`, its indices of all places.
        picks: by position, of the indices that a mask picks.

    Raises:
        Refused: an index is a mask, or is picked in another dimension than its last.
    """
    _check(call, picks)
    indices = [
        fill(b, value, picks[place], 0) if place in picks else value for place, value in enumerate(call["indices"])
    ]
    return replace(call, arguments=dict(call.arguments) | {"indices": indices})


def write_rows(b: Builder, call: Call, picks: Mapping[int, Pick]) -> Value:
    """Return `x` with `x[i, j] = values` written, or added, at the places that a mask picks.

    Args:
        b: takes the nodes.
        call: of `index_put`, its indices and values of all places.
        picks: by position, of the indices that a mask picks; one at least.

    Raises:
        Refused: as `take_rows`.
    """
    _check(call, picks)
    x, indices = call.tensor("self"), list(call["indices"])
    axis = min(picks)  # in which there is one row more
    extended = b.concat([x, b.slice(x, axis, 0, 1)], axis)
    for place, picked in picks.items():
        within = _in_range(b, fill(b, indices[place], picked, 0), x.shape[place])
        indices[place] = fill(b, within, picked, -1)
    arguments = dict(call.arguments) | {"self": extended, "indices": indices}
    written = RULES["aten.index_put.default"](replace(call, arguments=arguments), b)
    if isinstance(written, tuple):
        raise TypeError("index_put gives several tensors")
    return b.slice(written, axis, 0, x.shape[axis])


def add_rows(b: Builder, call: Call, index: Pick, source: Pick | None) -> Value:
    """Return what `index_add` gives at the places that a mask picks: nothing is added for the others.

    Raises:
        Refused: the rows are picked in another dimension than that of the index.
    """
    x = call.tensor("self")
    axis = call.axis("dim", len(x.shape))
    if source is None or source.axis != axis or index.axis != 0:
        raise Refused(ADVICE)
    arguments = dict(call.arguments) | {
        "index": fill(b, call.tensor("index"), index, 0),
        "source": fill(b, call.tensor("source"), source, 0),
    }
    result = RULES[call.target](replace(call, arguments=arguments), b)
    if isinstance(result, tuple):
        raise TypeError("index_add gives several tensors")
    return result


def _check(call: Call, picks: Mapping[int, Pick]) -> None:
    for place, value in enumerate(call["indices"]):
        if value is None:
            continue
        is_number = value.dtype in (DType.I32, DType.I64)
        if not is_number or (place in picks and picks[place].axis != len(value.shape) - 1):
            raise Refused(ADVICE)


def _in_range(b: Builder, index: Value, size: int) -> Value:
    """Return an index in [0, size) for one in [-size, size); others end the run."""
    attributes = RavelMultiIndexAttributes(bounds=(size,))
    return b.op("ravel_multi_index", [b.cast(index, DType.I64)], DType.I64, index.shape, attributes)
