"""Lowers what a mask picks, `x[mask]`, as the whole tensor with the mask beside it.

How many elements a mask picks depends on data, so no program has them as a tensor.  What a module does with them is
often the same for each place: then it is done for all places, and those outside the mask are left out at the end, where
they are summed up or written back under the same mask.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from alcove.runtime.compiler.builder import NUMPY, Builder
from alcove.runtime.compiler.graph import Node, Value
from alcove.runtime.compiler.rules import Call, Refused
from alcove.runtime.compiler.rules.reduction import fold
from alcove.runtime.format.attributes import IndexSelectAttributes
from alcove.runtime.format.spec import DType

ADVICE: Final = (
    "how many elements a mask picks depends on data: x[mask] can go through operators that treat each of its places "
    "alone, be summed or averaged over its places, and be written back under the same mask; else use torch.where"
)


@dataclass(frozen=True, eq=False)
class Pick:
    """What a mask picks.

    Attributes:
        mask: bool, [places], all of the mask's dimensions as one.
        axis: dimension of the whole tensor in which the places count.
    """

    mask: Value
    axis: int


def is_same(b: Builder, x: Value, y: Value) -> bool:
    """Return whether two values are computed in the same way from the same."""
    writers = {key: (node, place) for node in b.nodes for place, key in enumerate(node.outputs)}
    return _is_same(b, writers, x, y)


def _is_same(b: Builder, writers: Mapping[str, tuple[Node, int]], x: Value, y: Value) -> bool:
    pairs, seen = [(x, y)], set()
    while pairs:
        x, y = pairs.pop()
        if x.key == y.key or (x.key, y.key) in seen:
            continue
        seen.add((x.key, y.key))
        if x.dtype is not y.dtype or x.shape != y.shape:
            return False
        if x.constant is not None and y.constant is not None:
            if not np.array_equal(x.constant, y.constant):
                return False
            continue
        first, second = writers.get(x.key), writers.get(y.key)
        if first is None or second is None:
            return False
        (one, place), (other, other_place) = first, second
        if (one.op, place, one.attributes, len(one.inputs)) != (
            other.op,
            other_place,
            other.attributes,
            len(other.inputs),
        ):
            return False
        pairs += [(b.values[i], b.values[j]) for i, j in zip(one.inputs, other.inputs, strict=True)]
    return True


# -- in and out -------------------------------------------------------------------------------------------------------


def pick(b: Builder, x: Value, indices: Sequence[Any]) -> tuple[Value, Pick] | None:
    """Return what `x[indices]` picks, as the whole tensor; None if the indices are no mask alone."""
    given = [(axis, value) for axis, value in enumerate(indices) if value is not None]
    if len(given) != 1:
        return None
    axis, mask = given[0]
    if not isinstance(mask, Value) or mask.dtype is not DType.BOOL or not mask.shape:
        return None
    count = math.prod(mask.shape)
    whole = b.reshape(x, (*x.shape[:axis], count, *x.shape[axis + len(mask.shape) :]))
    return whole, Pick(b.reshape(mask, (count,)), axis)


def write_back(b: Builder, call: Call, values: Value, picked: Pick) -> Value:
    """Return `x` with `values` where the mask holds.

    Raises:
        Refused: it is another mask, or another place of it.
    """
    x, indices = call.tensor("self"), call["indices"]
    target = pick(b, x, indices)
    if target is None or not is_same(b, target[1].mask, picked.mask):
        raise Refused(f"values that another mask picked; {ADVICE}")
    whole, aimed = target
    if len(whole.shape) - aimed.axis != len(values.shape) - picked.axis:
        raise Refused(ADVICE)
    values = b.cast(values, x.dtype)
    if call["accumulate"]:
        values = b.binary("bitwise_or" if x.dtype is DType.BOOL else "add", whole, values)
    return b.reshape(_outside(b, values, whole, aimed, len(whole.shape)), x.shape)


def _outside(b: Builder, values: Value, other: Value, picked: Pick, rank: int) -> Value:
    """Return `values` where the mask holds, else `other`."""
    mask = b.reshape(picked.mask, (*picked.mask.shape, *(1 for _ in range(rank - picked.axis - 1))))
    return b.where(mask, values, other)


def fill(b: Builder, values: Value, picked: Pick, number: float) -> Value:
    """Return `values` with `number` at the places outside the mask."""
    return _outside(b, values, b.scalar(number, values.dtype), picked, len(values.shape))


# -- place by place ---------------------------------------------------------------------------------------------------

ELEMENTWISE: Final = ("aten.floor_divide.default", "aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
"""Elementwise operators that torch does not tag so."""
_DIVISIONS: Final = ("div", "floor_divide", "fmod", "remainder")


def broadcast(call: Call, picks: Mapping[str, Pick], out_rank: int, out_axis: int) -> None:
    """Check that an elementwise call treats each place alone.

    Raises:
        Refused: it does not.
    """
    for name, argument in call.arguments.items():
        if not isinstance(argument, Value):
            continue
        rank = len(argument.shape)
        place = out_axis - out_rank + rank
        if name in picks:
            if picks[name].axis != place:
                raise Refused(ADVICE)
        elif place >= 0 and argument.shape[place] != 1:
            raise Refused(ADVICE)


def safe_arguments(b: Builder, call: Call, picks: Mapping[str, Pick]) -> dict[str, Any]:
    """Return the arguments of a call, none of which stops a run at a place outside the mask."""
    arguments = dict(call.arguments)
    name = call.target.split(".")[1]
    if name in _DIVISIONS and "other" in picks and arguments["other"].dtype is not DType.F32:
        arguments["other"] = fill(b, arguments["other"], picks["other"], 1)
    if name == "embedding":
        arguments["indices"] = fill(b, arguments["indices"], picks["indices"], 0)
    return arguments


def _rows_of(name: str) -> Callable[[Call, Mapping[str, Pick]], bool]:
    """Return a test: only `name` is picked, and not in its last dimension."""

    def test(call: Call, picks: Mapping[str, Pick]) -> bool:
        return set(picks) == {name} and picks[name].axis < len(call.tensor(name).shape) - 1

    return test


def _is_matmul(call: Call, picks: Mapping[str, Pick]) -> bool:
    names = [name for name in call.arguments if isinstance(call.arguments[name], Value)]
    rows, weight = names[0], names[1]
    return _rows_of(rows)(call, picks) and len(call.tensor(weight).shape) <= 2


def _is_addmm(call: Call, picks: Mapping[str, Pick]) -> bool:
    return _rows_of("mat1")(call, picks) and len(call.tensor("self").shape) <= 1


def _is_norm(call: Call, picks: Mapping[str, Pick]) -> bool:
    rank = len(call.tensor("input").shape)
    return set(picks) == {"input"} and picks["input"].axis < rank - len(call["normalized_shape"])


def _is_elsewhere(call: Call, picks: Mapping[str, Pick]) -> bool:
    """Return whether the dimensions that a call works on are others than that of the places."""
    if set(picks) != {"self"}:
        return False
    x = call.tensor("self")
    argument = call.arguments.get("dim")
    return argument is not None and picks["self"].axis not in call.axes("dim", len(x.shape))


def _is_view(_call: Call, picks: Mapping[str, Pick]) -> bool:
    return set(picks) == {"self"}


ROWS: Final[Mapping[str, Callable[[Call, Mapping[str, Pick]], bool]]] = {
    "aten.linear.default": _rows_of("input"),
    "aten.matmul.default": _is_matmul,
    "aten.mm.default": _is_matmul,
    "aten.addmm.default": _is_addmm,
    "aten.layer_norm.default": _is_norm,
    "aten.native_layer_norm.default": _is_norm,
    "aten.rms_norm.default": _is_norm,
    "aten.embedding.default": lambda _call, picks: set(picks) == {"indices"},
    **dict.fromkeys(
        (
            *(f"aten.{name}.dim_IntList" for name in ("sum",)),
            *(f"aten.{name}.dim" for name in ("mean", "any", "all", "max", "min")),
            *(f"aten.{name}.default" for name in ("amax", "amin", "argmax", "argmin", "cumsum", "linalg_vector_norm")),
            *("aten.prod.dim_int", "aten.any.dims", "aten.all.dims", "aten.var.correction", "aten.std.correction"),
            *("aten._softmax.default", "aten.softmax.int", "aten._log_softmax.default", "aten.log_softmax.int"),
            *("aten.select.int", "aten.slice.Tensor", "aten.logsumexp.default"),
        ),
        _is_elsewhere,
    ),
    **dict.fromkeys(("aten.clone.default", "aten._to_copy.default", "aten.alias.default"), _is_view),
    **dict.fromkeys(
        ("aten.unsqueeze.default", "aten.permute.default", "aten.transpose.int", "aten.t.default"), _is_view
    ),
}
"""Operators that treat each place alone, beside elementwise ones: when they do."""


# -- over the places --------------------------------------------------------------------------------------------------

_NEUTRAL: Final[Mapping[str, float]] = {"sum": 0, "mean": 0, "prod": 1, "any": 0, "all": 1, "cumsum": 0}
_SOFTMAX: Final = ("_softmax", "softmax", "_log_softmax", "log_softmax")


def keeps_places(call: Call) -> bool:
    """Return whether a call over the places gives something for each of them."""
    return call.target.split(".")[1] in ("cumsum", *_SOFTMAX)


def over_places(b: Builder, call: Call, picked: Pick, rule: Callable[[Call, Builder], Any]) -> Any:
    """Return what a call over the picked places of `self` gives.

    Raises:
        Refused: it is none of those that can leave places out.
    """
    x = call.tensor("self")
    name = call.target.split(".")[1]
    if name in _SOFTMAX:
        return rule(_with_self(call, fill(b, x, picked, -math.inf)), b)
    if name in _NEUTRAL:
        if name == "mean":
            return _mean(b, call, picked)
        return rule(_with_self(call, fill(b, x, picked, _NEUTRAL[name])), b)
    if name == "linalg_vector_norm" and float(call["ord"]) > 0:
        return rule(_with_self(call, fill(b, x, picked, 0)), b)
    if name in {"amax", "amin", "max", "min"} and call.target.rpartition(".")[2] == "default":
        return _extreme(b, call, picked, rule, name.removeprefix("a"))
    if name in {"var", "std"} and call.target.endswith("correction"):
        return _spread(b, call, picked, is_deviation=name == "std")
    raise Refused(ADVICE)


def _with_self(call: Call, x: Value) -> Call:
    return replace(call, arguments=dict(call.arguments) | {"self": x})


def _axes(call: Call, x: Value) -> tuple[int, ...]:
    return call.axes("dim", len(x.shape)) if call.arguments.get("dim") is not None else tuple(range(len(x.shape)))


def _count(b: Builder, picked: Pick, x: Value, axes: Sequence[int]) -> Value:
    """Return how many elements one result is made of, as an F32 scalar."""
    held = b.cast(count_picked(b, picked), DType.F32)
    others = math.prod(x.shape[axis] for axis in axes if axis != picked.axis)
    return held if others == 1 else b.binary("mul", held, b.scalar(others, DType.F32))


def _mean(b: Builder, call: Call, picked: Pick) -> Value:
    x = b.cast(call.tensor("self"), call.dtype)
    axes = _axes(call, x)
    total = fold(b, fill(b, x, picked, 0), "sum", axes, keeps=bool(call.arguments.get("keepdim", False)))
    return b.binary("div", total, _count(b, picked, x, axes))


def _spread(b: Builder, call: Call, picked: Pick, *, is_deviation: bool) -> Value:
    x = call.tensor("self")
    axes = _axes(call, x)
    count = _count(b, picked, x, axes)
    correction = 1.0 if call["correction"] is None else float(call["correction"])
    mean = b.binary("div", fold(b, fill(b, x, picked, 0), "sum", axes, keeps=True), count)
    squares = fill(b, b.unary("square", b.binary("sub", x, mean)), picked, 0)
    degrees = b.binary("maximum", b.binary("sub", count, b.scalar(correction, DType.F32)), b.scalar(0, DType.F32))
    result = b.binary("div", fold(b, squares, "sum", axes, keeps=bool(call["keepdim"])), degrees)
    result = b.where(b.binary("eq", count, b.scalar(0, DType.F32), DType.BOOL), b.scalar(math.nan, DType.F32), result)
    return b.unary("sqrt", result) if is_deviation else result


def _extreme(b: Builder, call: Call, picked: Pick, rule: Callable[[Call, Builder], Any], name: str) -> Value:
    """The greatest or least; of no places at all an index of -1, which ends the run as eager ends with an error."""
    x = call.tensor("self")
    if x.dtype is DType.F32:
        least: float = -math.inf if name == "max" else math.inf
    elif x.dtype is DType.BOOL:
        least = 0 if name == "max" else 1
    else:
        limits = np.iinfo(cast("Any", NUMPY[x.dtype]))
        least = int(limits.min if name == "max" else limits.max)
    result: Value = rule(_with_self(call, fill(b, x, picked, least)), b)
    return refuse_none(b, result, picked)


def refuse_none(b: Builder, x: Value, picked: Pick) -> Value:
    """Return `x`, by an index that ends the run where the mask picks nothing."""
    place = b.binary("sub", b.cast(fold(b, picked.mask, "max", [0]), DType.I64), b.scalar(1, DType.I64))  # 0, or -1
    row = b.reshape(x, (1, *x.shape))
    attributes = IndexSelectAttributes(axis=0, wraps=0)
    return b.reshape(b.op("index_select", [row, b.reshape(place, (1,))], x.dtype, row.shape, attributes), x.shape)


def count_picked(b: Builder, picked: Pick) -> Value:
    """Return how many elements a mask picks, as an I64 scalar."""
    return fold(b, b.cast(picked.mask, DType.I64), "sum", [0])
