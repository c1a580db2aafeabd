"""Lowers elementwise operators: arithmetic, comparisons, logic, bits, choices and casts, in torch's types.

Every rule casts its operands to the type in which torch computes, so that the runtime's operators see one type: that of
the result, or for comparisons the one `torch.result_type` gives.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from alcove.runtime.compiler.builder import Builder
from alcove.runtime.compiler.graph import Value
from alcove.runtime.compiler.rules.registry import DTYPES, Call, Refused, rule
from alcove.runtime.format.spec import DTYPE_BYTES, DType

_TORCH_TYPES: Final = {dtype: kind for kind, dtype in DTYPES.items()}
_BOOL_FORMS: Final = {"add": "bitwise_or", "mul": "bitwise_and", "maximum": "bitwise_or", "minimum": "bitwise_and"}
"""What arithmetic of bools is, in torch: or and and."""

# -- one operand ------------------------------------------------------------------------------------------------------

_FLOAT_FUNCTIONS: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "sin", "sinh", "tan", "tanh"),
    *("erf", "erfc", "exp", "exp2", "expm1", "log", "log10", "log1p", "log2", "sigmoid"),
    *("reciprocal", "rsqrt", "sqrt"),
)


def _aten_names(*names: str) -> list[str]:
    return [f"aten.{name}.default" for name in names]


def _function(call: Call) -> str:
    return call.target.split(".")[1]


def operand(call: Call, b: Builder, name: str, dtype: DType) -> Value:
    """Return argument `name`, a tensor or a number, in a type."""
    argument = call[name]
    if isinstance(argument, Value):
        return b.cast(call.tensor(name), dtype)
    return b.scalar(argument, dtype)


def promote(call: Call, *names: str) -> DType:
    """Return the type in which torch computes with these arguments.

    Raises:
        Refused: it is no type of a program.
    """
    kind = _result_type([_stand_in(call[name]) for name in names])
    if kind is torch.int16:
        return DType.I32  # of int8 and uint8; a wider type holds the same numbers
    if kind not in DTYPES:
        raise Refused(f"computed in {kind}, which has no place in a program; stay in float32")
    return DTYPES[kind]


def _stand_in(argument: Any) -> Any:
    """Return something of the type and kind (number, scalar, array) of an argument, as promotion looks at them."""
    if not isinstance(argument, Value):
        return argument
    return torch.empty((1,) if argument.shape else (), dtype=_TORCH_TYPES[argument.dtype])


def _result_type(inputs: list[Any]) -> torch.dtype:
    if len(inputs) == 1:
        inputs = [inputs[0], inputs[0]]
    return torch.result_type(inputs[0], inputs[1])


@rule(*_aten_names(*_FLOAT_FUNCTIONS))
@rule("aten.special_expit.default", keep=True)
def float_function(call: Call, b: Builder) -> Value:
    """A function of a real number; integers are cast first."""
    name = {"special_expit": "sigmoid"}.get(_function(call), _function(call))
    return b.unary(name, b.cast(call.tensor("self"), DType.F32))


@rule(*_aten_names("ceil", "floor", "round", "trunc"))
@rule("aten.frac.default", keep=True)
def whole_function(call: Call, b: Builder) -> Value:
    """A rounding; of integers nothing changes."""
    x = call.tensor("self")
    return b.unary(_function(call), x) if x.dtype is DType.F32 else x


@rule("aten.round.decimals")
def round_decimals(call: Call, b: Builder) -> Value:
    """Scaled by a power of ten, rounded half to even, scaled back; as torch does, in float32."""
    x = call.tensor("self")
    if x.dtype is not DType.F32:
        return x
    decimals = int(call["decimals"])
    scale = b.scalar(10.0 ** abs(decimals), DType.F32)
    up, down = ("mul", "div") if decimals >= 0 else ("div", "mul")
    return b.binary(down, b.unary("round", b.binary(up, x, scale)), scale)


@rule(*_aten_names("abs", "neg", "sign"), "aten._neg_view.default")
@rule("aten.square.default", "aten.sgn.default", keep=True)
def signed_function(call: Call, b: Builder) -> Value:
    """A function of any number; bools stay what they are."""
    name = {"sgn": "sign", "_neg_view": "neg"}.get(_function(call), _function(call))
    x = b.cast(call.tensor("self"), call.dtype)
    return x if x.dtype is DType.BOOL else b.unary(name, x)


@rule("aten.positive.default")
def positive(call: Call, b: Builder) -> Value:  # noqa: ARG001 - a rule's parameters
    """The operand itself."""
    return call.tensor("self")


@rule("aten.isnan.default", "aten.isinf.default", "aten.signbit.default")
@rule("aten.isfinite.default", keep=True)
def float_test(call: Call, b: Builder) -> Value:
    """A question about a float; an integer is finite."""
    x, name = call.tensor("self"), _function(call)
    if x.dtype is DType.F32:
        return b.unary(name, x, dtype=DType.BOOL)
    if name == "signbit" and x.dtype is not DType.BOOL:
        return b.binary("lt", x, b.scalar(0, x.dtype), DType.BOOL)
    return b.binary("eq" if name == "isfinite" else "ne", x, x, DType.BOOL)


@rule("aten.angle.default")
def angle(call: Call, b: Builder) -> Value:
    """Pi for what is below zero, else 0; a NaN stays."""
    x = b.cast(call.tensor("self"), DType.F32)
    zero = b.scalar(0, DType.F32)
    turned = b.where(b.binary("lt", x, zero, DType.BOOL), b.scalar(math.pi, DType.F32), zero)
    return b.where(b.unary("isnan", x, dtype=DType.BOOL), x, turned)


@rule("aten.nan_to_num.default", keep=True)
def nan_to_num(call: Call, b: Builder) -> Value:
    """Numbers for what is none; by default 0 and the greatest floats."""
    x = call.tensor("self")
    if x.dtype is not DType.F32:
        return x
    limit = torch.finfo(torch.float32).max
    inputs = [call["nan"], call["posinf"], call["neginf"]]
    return b.unary(
        "nan_to_num", x, *(fallback if v is None else v for v, fallback in zip(inputs, (0, limit, -limit), strict=True))
    )


@rule("aten.bitwise_not.default")
@rule("aten.logical_not.default")
def invert(call: Call, b: Builder) -> Value:
    """Bits inverted, or truth."""
    x = call.tensor("self")
    if call.dtype is DType.BOOL:
        return b.unary("logical_not", b.cast(x, DType.BOOL))
    return b.unary("bitwise_not", x)


@rule("aten.view.dtype")
def bits(call: Call, b: Builder) -> Value:
    """The same bits as another type with elements of as many bytes."""
    x = call.tensor("self")
    if x.dtype is call.dtype:
        return x
    if DType.BOOL in {x.dtype, call.dtype} or DTYPE_BYTES[x.dtype] != DTYPE_BYTES[call.dtype]:
        raise Refused(
            f"view of {x.dtype.name.lower()} as {call.dtype.name.lower()}; as a type of as many bytes: float32 and "
            "int32, int8 and uint8 (parts of integers are shifts and masks: (x >> 8) & 255)"
        )
    return b.op("bitcast", [x], call.dtype, x.shape)


@rule("aten.frexp.Tensor")
def parts_of_number(call: Call, b: Builder) -> tuple[Value, ...]:
    """A mantissa of [0.5, 1) and a power of two, by the bits; of 0, infinities and NaN themselves and 0."""
    x = call.tensor("self")
    is_tiny = b.binary("lt", b.unary("abs", x), b.scalar(2.0**-126, DType.F32), DType.BOOL)
    scaled = b.where(is_tiny, b.binary("mul", x, b.scalar(2.0**24, DType.F32)), x)
    pattern = b.op("bitcast", [scaled], DType.I32, x.shape)
    powers = b.binary(
        "bitwise_and", b.binary("shift_right", pattern, b.scalar(23, DType.I32)), b.scalar(255, DType.I32)
    )
    bias = b.where(is_tiny, b.scalar(126 + 24, DType.I32), b.scalar(126, DType.I32))
    rest = b.binary("bitwise_and", pattern, b.scalar(-0x7F800001, DType.I32))
    half = b.binary("bitwise_or", rest, b.scalar(126 << 23, DType.I32))
    is_plain = b.binary(
        "bitwise_and", b.unary("isfinite", x, dtype=DType.BOOL), b.binary("ne", x, b.scalar(0.0, DType.F32), DType.BOOL)
    )
    mantissa = b.where(is_plain, b.op("bitcast", [half], DType.F32, x.shape), x)
    return mantissa, b.where(is_plain, b.binary("sub", powers, bias), b.scalar(0, DType.I32))


# -- two operands -----------------------------------------------------------------------------------------------------


@rule("aten.add.Tensor", "aten.add.Scalar", "aten.sub.Tensor", "aten.sub.Scalar")
@rule("aten.rsub.Tensor", "aten.rsub.Scalar", keep=True)
def sum_or_difference(call: Call, b: Builder) -> Value:
    """With a factor for the second operand."""
    name, dtype = _function(call), call.dtype
    x, y = operand(call, b, "self", dtype), operand(call, b, "other", dtype)
    alpha = call.arguments.get("alpha", 1)
    if name == "rsub":
        x = _times(b, x, alpha)
        return binary(b, "sub", y, x)
    return binary(b, name, x, _times(b, y, alpha))


def _times(b: Builder, x: Value, factor: float) -> Value:
    return x if factor == 1 else binary(b, "mul", x, b.scalar(factor, x.dtype))


def binary(b: Builder, function: str, x: Value, y: Value) -> Value:
    """Return `function(x, y)`; of bools what torch makes of it."""
    return b.binary(_BOOL_FORMS.get(function, function) if x.dtype is DType.BOOL else function, x, y)


_IN_RESULT_TYPE: Final[Mapping[str, str]] = {
    "aten.mul.Tensor": "mul",
    "aten.mul.Scalar": "mul",
    "aten.div.Tensor": "div",
    "aten.div.Scalar": "div",
    "aten.maximum.default": "maximum",
    "aten.minimum.default": "minimum",
    "aten.fmax.default": "fmax",
    "aten.fmin.default": "fmin",
    "aten.fmod.Tensor": "fmod",
    "aten.fmod.Scalar": "fmod",
    "aten.remainder.Tensor": "remainder",
    "aten.remainder.Scalar": "remainder",
    "aten.remainder.Scalar_Tensor": "remainder",
    "aten.atan2.default": "atan2",
    "aten.hypot.default": "hypot",
    "aten.copysign.Tensor": "copysign",
    "aten.copysign.Scalar": "copysign",
    **{
        f"aten.bitwise_{name}.{overload}": f"bitwise_{name}"
        for name in ("and", "or", "xor")
        for overload in ("Tensor", "Scalar", "Scalar_Tensor")
    },
    **{
        f"aten.bitwise_{side}_shift.{overload}": f"shift_{side}"
        for side in ("left", "right")
        for overload in ("Tensor", "Tensor_Scalar", "Scalar_Tensor")
    },
    **{
        f"aten.__{side[0]}shift__.{overload}": f"shift_{side}"
        for side in ("left", "right")
        for overload in ("Tensor", "Scalar")
    },
}


@rule(*_IN_RESULT_TYPE)
def in_result_type(call: Call, b: Builder) -> Value:
    """A function whose operands have the type of its result."""
    name, dtype = _IN_RESULT_TYPE[call.target], call.dtype
    if name in {"fmax", "fmin"} and dtype is not DType.F32:
        name = {"fmax": "maximum", "fmin": "minimum"}[name]
    return binary(b, name, operand(call, b, "self", dtype), operand(call, b, "other", dtype))


@rule("aten.div.Tensor_mode", "aten.div.Scalar_mode")
@rule("aten.floor_divide.default", "aten.floor_divide.Scalar", keep=True)
def rounded_quotient(call: Call, b: Builder) -> Value:
    """Rounded down, toward zero, or not at all."""
    modes = {"floor": "floor_div", "trunc": "trunc_div", None: "div"}
    name = modes[call["rounding_mode"]] if _function(call) == "div" else "floor_div"
    return b.binary(name, operand(call, b, "self", call.dtype), operand(call, b, "other", call.dtype))


@rule("aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar", "aten.pow.Scalar")
def power(call: Call, b: Builder) -> Value:
    """Small powers as torch computes them: products, roots and quotients."""
    base, exponent, dtype = call["self"], call["exponent"], call.dtype
    if dtype is DType.BOOL:
        # x and not y is false, all else true.
        x, y = operand(call, b, "self", dtype), operand(call, b, "exponent", dtype)
        return b.binary("bitwise_or", x, b.unary("logical_not", y))
    if isinstance(exponent, int | float) and not isinstance(exponent, bool):
        special = _small_power(b, operand(call, b, "self", dtype), exponent)
        if special is not None:
            return special
    if not isinstance(base, Value) and base == 2 and dtype is DType.F32:
        return b.unary("exp2", operand(call, b, "exponent", dtype))
    return b.binary("pow", operand(call, b, "self", dtype), operand(call, b, "exponent", dtype))


def _small_power(b: Builder, x: Value, exponent: float) -> Value | None:
    whole: dict[float, Callable[[], Value]] = {
        1: lambda: x,
        2: lambda: b.unary("square", x),
        3: lambda: b.binary("mul", b.unary("square", x), x),
    }
    real: dict[float, Callable[[], Value]] = {
        0.5: lambda: b.unary("sqrt", x),
        -0.5: lambda: b.unary("rsqrt", x),
        -1: lambda: b.unary("reciprocal", x),
        -2: lambda: b.unary("reciprocal", b.unary("square", x)),
    }
    forms = whole | real if x.dtype is DType.F32 else whole
    return forms[exponent]() if exponent in forms else None


@rule("aten.ldexp.Tensor")
def scaled_by_power(call: Call, b: Builder) -> Value:
    """Torch's: the operand times 2 to the power of the other."""
    return b.binary("mul", operand(call, b, "self", DType.F32), b.unary("exp2", operand(call, b, "other", DType.F32)))


@rule(
    *(f"aten.{name}.{overload}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for overload in ("Tensor", "Scalar"))
)
def comparison(call: Call, b: Builder) -> Value:
    """In the type that both operands are promoted to."""
    dtype = promote(call, "self", "other")
    return b.binary(_function(call), operand(call, b, "self", dtype), operand(call, b, "other", dtype), DType.BOOL)


@rule("aten.logical_and.default", "aten.logical_or.default", "aten.logical_xor.default")
def logic(call: Call, b: Builder) -> Value:
    """What is not 0 is true."""
    name = _function(call).replace("logical", "bitwise")
    return b.binary(name, operand(call, b, "self", DType.BOOL), operand(call, b, "other", DType.BOOL))


@rule("aten.heaviside.default", keep=True)
def heaviside(call: Call, b: Builder) -> Value:
    """0 below 0, `values` at 0, 1 above; a NaN counts as below."""
    x, values = operand(call, b, "self", call.dtype), operand(call, b, "values", call.dtype)
    zero = b.scalar(0, call.dtype)
    above = b.cast(b.binary("gt", x, zero, DType.BOOL), call.dtype)
    return b.where(b.binary("eq", x, zero, DType.BOOL), values, above)


# -- bounds, choices and casts ----------------------------------------------------------------------------------------


@rule("aten.clamp.default", "aten.hardtanh.default")
@rule("aten.clamp_min.default", "aten.clamp_max.default", keep=True)
def clamp(call: Call, b: Builder) -> Value:
    """Between numbers, either of which may be missing."""
    low, high = (call.arguments.get(name, call.arguments.get(f"{name}_val")) for name in ("min", "max"))
    x = b.cast(call.tensor("self"), call.dtype)
    if any(bound is not None and math.isnan(bound) for bound in (low, high)):
        raise Refused("clamp with bounds that are numbers, not NaN")
    if x.dtype is DType.F32:
        return b.unary("clamp", x, -math.inf if low is None else low, math.inf if high is None else high)
    x = x if low is None else b.binary("maximum", x, b.scalar(low, x.dtype))
    return x if high is None else b.binary("minimum", x, b.scalar(high, x.dtype))


@rule("aten.clamp.Tensor")
@rule("aten.clamp_min.Tensor", "aten.clamp_max.Tensor", keep=True)
def clamp_by_tensors(call: Call, b: Builder) -> Value:
    """Between tensors, either of which may be missing."""
    x = b.cast(call.tensor("self"), call.dtype)
    for name, function in (("min", "maximum"), ("max", "minimum")):
        bound = call.optional(name)
        x = x if bound is None else b.binary(function, x, b.cast(bound, call.dtype))
    return x


@rule("aten.where.self")
def where(call: Call, b: Builder) -> Value:
    """The condition is cast to bool."""
    condition = operand(call, b, "condition", DType.BOOL)
    return b.where(condition, operand(call, b, "self", call.dtype), operand(call, b, "other", call.dtype))


@rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor", keep=True)
def masked_fill(call: Call, b: Builder) -> Value:
    """A number where the mask holds."""
    x = operand(call, b, "self", call.dtype)
    return b.where(operand(call, b, "mask", DType.BOOL), operand(call, b, "value", call.dtype), x)


@rule("aten._to_copy.default")
def to_copy(call: Call, b: Builder) -> Value:
    """Another type; where it lies and how makes no difference here."""
    return b.cast(call.tensor("self"), call.dtype)
