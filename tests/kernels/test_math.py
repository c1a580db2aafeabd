"""Elementwise functions are within their bounds of double precision, right at special values, the same on each ISA.

The bounds are in units in the last place of float32 (ulp); kernels/math promises them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from alcove.runtime import _native, load
from alcove.runtime.errors import InputError
from alcove.runtime.format.spec import DType
from alcove.runtime.testing import Assembly
from numpy.typing import NDArray

Floats = NDArray[np.float32]
NAN, INF = math.nan, math.inf
SEED = 20
PARAMETERS = {
    "softplus": (1.0, 20.0, 0.0),
    "clamp": (-1.0, 1.5, 0.0),
    "leaky_relu": (0.01, 0.0, 0.0),
    "elu": (1.2, 1.1, 0.9),
    "softshrink": (0.5, 0.0, 0.0),
    "hardshrink": (0.5, 0.0, 0.0),
    "threshold": (0.1, 20.0, 0.0),
    "nan_to_num": (0.5, 3.0, -3.0),
}
TESTS_BITS = {"isnan", "isinf", "isfinite", "signbit"}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}
NOT_FLOAT = {"bitwise_not", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "shift_left", "shift_right"}
TYPES: dict[np.dtype[Any], DType] = {
    np.dtype(np.float32): DType.F32,
    np.dtype(np.int8): DType.I8,
    np.dtype(np.int32): DType.I32,
    np.dtype(np.int64): DType.I64,
    np.dtype(np.uint8): DType.U8,
    np.dtype(np.bool_): DType.BOOL,
}


def unary_program(name: str, dtype: DType, shape: tuple[int, ...], numbers: tuple[float, float, float]) -> bytes:
    """A program that applies one function to its input."""
    build = Assembly()
    result = DType.BOOL if name in TESTS_BITS else dtype
    attributes = (_native.functions("unary")[name], *numbers)
    (y,) = build.op("unary", [build.input("x", dtype, shape)], (result, shape), attributes=attributes)
    build.output("y", y)
    return build.program()


def unary(name: str, x: "NDArray[Any]", numbers: tuple[float, float, float] | None = None) -> "NDArray[Any]":
    """What the machine's best kernels answer."""
    argument = numbers or PARAMETERS.get(name, (0.0, 0.0, 0.0))
    (y,) = load(unary_program(name, TYPES[x.dtype], x.shape, argument))(x)
    return np.asarray(y)


def binary_program(name: str, dtype: DType, a: tuple[int, ...], b: tuple[int, ...]) -> bytes:
    """A program that applies one function to its two inputs."""
    build = Assembly()
    result = DType.BOOL if name in COMPARISONS else dtype
    inputs = [build.input("a", dtype, a), build.input("b", dtype, b)]
    shape = np.broadcast_shapes(a, b)
    (y,) = build.op("binary", inputs, (result, shape), attributes=(_native.functions("binary")[name],))
    build.output("y", y)
    return build.program()


def binary(name: str, a: "NDArray[Any]", b: "NDArray[Any]") -> "NDArray[Any]":
    """What the machine's best kernels answer."""
    (y,) = load(binary_program(name, TYPES[a.dtype], a.shape, b.shape))(a, b)
    return np.asarray(y)


def mixed_floats(count: int = 60_000) -> Floats:
    """Any bits at all, ordinary numbers, angles, neighbours of 1, and the special values."""
    random = np.random.default_rng(SEED)
    specials = [
        NAN,
        INF,
        -INF,
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        3.4028235e38,
        -3.4028235e38,
        1e-45,
        -1e-45,
        1.1754944e-38,
    ]
    return np.concatenate(
        [
            random.integers(0, 2**32, count, np.uint64).astype(np.uint32).view(np.float32),
            random.standard_normal(count).astype(np.float32),
            random.uniform(-100, 100, count).astype(np.float32),
            random.uniform(-1.1, 1.1, count).astype(np.float32),
            (1 + random.uniform(-1e-3, 1e-3, count // 4)).astype(np.float32),
            np.array(specials, np.float32),
        ]
    )


def ulps(ours: Floats, exact: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The distance of finite results in units in the last place of the nearest float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = exact.astype(np.float32)
        finite = np.isfinite(nearest)
        unit = np.maximum(np.spacing(np.abs(nearest[finite])).astype(np.float64), 2.0**-149)
        return np.abs(ours[finite].astype(np.float64) - exact[finite]) / unit


EXACT: Mapping[str, tuple[float, Callable[[Any], Any]]] = {
    "exp": (1.0, np.exp),
    "exp2": (0.501, np.exp2),
    "expm1": (0.501, np.expm1),
    "log": (1.0, np.log),
    "log2": (0.501, np.log2),
    "log10": (0.501, np.log10),
    "log1p": (1.5, np.log1p),
    "sin": (0.501, np.sin),
    "cos": (0.501, np.cos),
    "tan": (0.501, np.tan),
    "asin": (0.501, np.arcsin),
    "acos": (0.501, np.arccos),
    "atan": (0.501, np.arctan),
    "sinh": (0.501, np.sinh),
    "cosh": (0.501, np.cosh),
    "tanh": (1.5, np.tanh),
    "asinh": (0.501, np.arcsinh),
    "acosh": (0.501, np.arccosh),
    "atanh": (0.501, np.arctanh),
    "erf": (1.5, np.vectorize(math.erf, [np.float64])),
    "erfc": (0.501, np.vectorize(math.erfc, [np.float64])),
    "sqrt": (0.501, np.sqrt),
    "rsqrt": (1.5, lambda x: 1 / np.sqrt(x)),
    "reciprocal": (0.501, lambda x: 1 / x),
}


@pytest.mark.parametrize("name", EXACT)
def test_function_is_within_its_bound_and_special_values_are_exact(name: str) -> None:
    """Distance to double precision; infinities, NaN and the signs of zeros as numpy has them."""
    bound, exact = EXACT[name]
    x = mixed_floats()
    ours = unary(name, x)
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64))
        nearest = expected.astype(np.float32)
    assert ulps(ours, expected).max() <= bound
    special = ~np.isfinite(nearest) | (nearest == 0)
    assert np.array_equal(ours[special], nearest[special], equal_nan=True)
    zeros = (nearest == 0) & (x == 0)
    assert np.array_equal(np.signbit(ours[zeros]), np.signbit(nearest[zeros]))


def test_sigmoid_is_within_three_ulp_until_its_exponential_overflows() -> None:
    """Below -88.7 it is zero, as 1 / (1 + inf) is."""
    x = np.linspace(-88.5, 110, 100_001, dtype=np.float32)
    assert ulps(unary("sigmoid", x), 1 / (1 + np.exp(-x.astype(np.float64)))).max() <= 3
    assert (unary("sigmoid", np.array([-89.0, -1e30, -INF], np.float32)) == 0).all()


def gelu_of_tanh(x: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """As 'Gaussian Error Linear Units' approximates it."""
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


@pytest.mark.parametrize(
    ("name", "exact"),
    [
        ("gelu_exp", lambda x: -0.5 * x * np.vectorize(math.erfc)(-x / math.sqrt(2)) * -1),
        ("gelu_tanh_exp", gelu_of_tanh),
        ("silu_exp", lambda x: x / (1 + np.exp(-x))),
    ],
)
def test_activations_by_one_exponential_are_as_near_as_torch(name: str, exact: Callable[..., Any]) -> None:
    """Some units in the last place above -2; below, where they vanish, of the largest number that they take there."""
    x = np.concatenate([np.linspace(-30, 30, 100_001), np.linspace(-1e-3, 1e-3, 1001), [-1e30, 1e30, -3.4e38]])
    ours, expected = unary(name, x.astype(np.float32)), exact(x.astype(np.float32).astype(np.float64).clip(-700))
    assert np.abs(ours - expected)[x < 0].max() <= 3e-7
    assert ulps(ours, expected)[(x > 0) & (x < 30)].max() <= 4
    assert ulps(ours, expected)[(x > -2) & (x < 0)].max() <= 12
    special = unary(name, np.array([INF, -INF, NAN, 0.0, 3e38], np.float32))
    assert special[0] == INF
    assert np.isnan(special[1:3]).all()
    assert special[3:].tolist() == [0.0, float(np.float32(3e38))]


def test_angles_of_any_size_are_reduced_exactly() -> None:
    """Where a reduction by doubles alone would be far off; the C library's double precision is exact there."""
    x = np.array([3.4028235e38, 1e30, 16777216.0, 1e10, -1e22, 1048576.0, 1048575.9], np.float32)
    for name, exact in (("sin", np.sin), ("cos", np.cos), ("tan", np.tan)):
        assert ulps(unary(name, x), exact(x.astype(np.float64))).max() <= 0.501, name


def test_powers_follow_c99_at_their_special_values() -> None:
    """Against the C library's pow in double precision, for every pair of a list."""
    values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        2.0,
        -2.0,
        0.5,
        -0.5,
        3.0,
        -3.0,
        2.5,
        -2.5,
        16777215.0,
        16777216.0,
        1e30,
        -1e30,
        INF,
    ]
    x = np.array([*values, -INF, NAN, 1e-45, -1e-40], np.float32)
    ours = binary("pow", x[:, None], x[None, :])
    with np.errstate(all="ignore"):
        expected = np.power(x[:, None].astype(np.float64), x[None, :].astype(np.float64))
        nearest = expected.astype(np.float32)
    assert np.array_equal(ours, nearest, equal_nan=True)
    zeros = nearest == 0
    assert np.array_equal(np.signbit(ours[zeros]), np.signbit(nearest[zeros]))


@pytest.mark.parametrize(
    ("name", "bound", "exact"),
    [("pow", 0.501, np.power), ("atan2", 0.501, np.arctan2), ("hypot", 0.501, np.hypot)],
)
def test_functions_of_two_operands_are_within_their_bound(name: str, bound: float, exact: Callable[..., Any]) -> None:
    """Distance to double precision, on numbers of ordinary size and on any bits."""
    random = np.random.default_rng(SEED)
    bits = random.integers(0, 2**32, (2, 50_000), np.uint64).astype(np.uint32).view(np.float32)
    for a, b in [bits, random.standard_normal((2, 50_000)).astype(np.float32) * 4]:
        ours = binary(name, a, b)
        with np.errstate(all="ignore"):
            expected = exact(a.astype(np.float64), b.astype(np.float64))
            nearest = expected.astype(np.float32)
        assert ulps(ours, expected).max() <= bound
        special = ~np.isfinite(nearest)
        assert np.array_equal(ours[special], nearest[special], equal_nan=True)


def test_rest_of_a_division_is_exact() -> None:
    """`fmod` and `remainder` against Python's own, at every distance of exponents, subnormals too."""
    random = np.random.default_rng(SEED)
    a = random.integers(0, 2**32, 50_000, np.uint64).astype(np.uint32).view(np.float32)
    b = random.integers(0, 2**32, 50_000, np.uint64).astype(np.uint32).view(np.float32)
    specials = np.array([0.0, -0.0, INF, -INF, NAN, 1e-45, -3.5, 2.0], np.float32)
    a = np.concatenate([a, np.repeat(specials, specials.size)])
    b = np.concatenate([b, np.tile(specials, specials.size)])
    with np.errstate(all="ignore"):
        expected = np.fmod(a.astype(np.float64), b.astype(np.float64)).astype(np.float32)
    assert np.array_equal(binary("fmod", a, b), expected, equal_nan=True)
    finite = np.isfinite(a) & np.isfinite(b) & (b != 0)
    modulo = binary("remainder", a, b)[finite]
    assert ((modulo == 0) | (np.signbit(modulo) == np.signbit(b[finite]))).all()
    assert (np.abs(modulo) <= np.abs(b[finite])).all()


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64])
def test_integers_divide_and_wrap_at_their_extremes(kind: type[np.integer[Any]]) -> None:
    """The least by -1 is itself, and nothing traps; sums and products wrap."""
    info = np.iinfo(kind)
    values = sorted(
        {int(info.min), int(info.min) + 1, -7 if info.min else 1, -1 if info.min else 2, 1, 2, 3, 7, int(info.max)}
    )
    a = np.repeat(np.array(values, kind), len(values))
    b = np.tile(np.array(values, kind), len(values))
    a, b = a[b != 0], b[b != 0]
    bits = int(8 * a.itemsize)

    def wrap(number: int) -> int:
        low: int = number & ((1 << bits) - 1)
        return low - (1 << bits) if int(info.min) < 0 and low >> (bits - 1) else low

    def quotient(x: int, y: int) -> int:
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)

    formulas: dict[str, Callable[[int, int], int]] = {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "floor_div": lambda x, y: x // y,
        "trunc_div": quotient,
        "remainder": lambda x, y: x % y,
        "fmod": lambda x, y: x - y * quotient(x, y),
    }
    for name, formula in formulas.items():
        expected = [wrap(formula(int(x), int(y))) for x, y in zip(a, b, strict=True)]
        assert binary(name, a[:, None], b[:, None]).ravel().tolist() == expected, name


def test_integer_division_by_zero_is_an_error_that_names_the_input() -> None:
    """Also if the zero is one of many, and also with a rest."""
    a = np.array([[1, 2], [3, 4]], np.int32)
    for name in ("floor_div", "trunc_div", "fmod", "remainder"):
        model = load(binary_program(name, DType.I32, (2, 2), (1, 2)))
        assert model(a, np.array([[2, 3]], np.int32))[0].shape == (2, 2)
        with pytest.raises(InputError, match="divided by zero") as caught:
            model(a, np.array([[2, 0]], np.int32))
        assert caught.value.port == "b"


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((), ()),
        ((3, 4), (4,)),
        ((3, 4), (3, 1)),
        ((1,), (5, 1, 2)),
        ((2, 1, 3, 1, 2, 1, 2, 1), (1, 3, 1, 2, 1, 2, 1, 300)),
    ],
)
def test_operands_are_broadcast_as_numpy_does(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    """Up to rank 8, on rows longer than a block; where walks three operands."""
    random = np.random.default_rng(SEED)
    x = random.standard_normal(a).astype(np.float32)
    y = random.standard_normal(b).astype(np.float32)
    assert np.array_equal(binary("sub", x, y), np.asarray(x - y))
    assert np.array_equal(binary("sub", y, x), np.asarray(y - x))
    condition = random.random(b) < 0.5
    build = Assembly()
    inputs = [build.input("c", DType.BOOL, b), build.input("a", DType.F32, a), build.input("b", DType.F32, ())]
    shape = np.broadcast_shapes(a, b)
    build.output("y", build.op("where", inputs, (DType.F32, shape))[0])
    (chosen,) = load(build.program())(condition, x, np.float32(7))
    assert np.array_equal(chosen, np.where(condition, x, np.float32(7)))


def test_casts_are_those_of_the_page() -> None:
    """Every pair of types, with what does not fit."""
    floats = np.array([[0.0, -0.0, 1.9, -1.9, 127.5, 300.0, -1e9, 3e9, 1e19, -1e30, INF, -INF, NAN]], np.float32)
    whole = np.array([[0, 1, -1, 127, 128, 255, 256, 2**31 - 1, -(2**31)]], np.int64)
    sources: list[NDArray[Any]] = [
        floats,
        whole,
        *(whole.astype(kind) for kind in (np.int32, np.int8, np.uint8, np.bool_)),
    ]
    for x in sources:
        for kind, dtype in TYPES.items():
            build = Assembly()
            build.output("y", build.op("cast", [build.input("x", TYPES[x.dtype], x.shape)], (dtype, x.shape))[0])
            (y,) = load(build.program())(x)
            if x.dtype != np.float32 or dtype in {DType.F32, DType.BOOL}:
                expected = x.astype(kind)
            else:
                width = 32 if dtype is DType.I32 else 64
                fits = np.abs(x.astype(np.float64)) < 2.0 ** (width - 1)
                cut = np.trunc(np.where(fits, x, 0)).astype(np.int64)
                expected = np.where(fits, cut, -(2 ** (width - 1))).astype(kind)
            assert np.array_equal(y, expected, equal_nan=y.dtype == np.float32), (x.dtype, dtype)


def isa_cases() -> dict[str, tuple[bytes, list[Floats]]]:
    """Each function of floats on a large mixed vector, and one odd length."""
    x = mixed_floats(4_000)
    y = np.random.default_rng(SEED + 1).permutation(x)
    cases: dict[str, tuple[bytes, list[Floats]]] = {}
    for name in set(_native.functions("unary")) - NOT_FLOAT:
        numbers = PARAMETERS.get(name, (0.0, 0.0, 0.0))
        cases[f"unary {name}"] = (unary_program(name, DType.F32, x.shape, numbers), [x])
    for name in set(_native.functions("binary")) - NOT_FLOAT:
        cases[f"binary {name}"] = (binary_program(name, DType.F32, x.shape, y.shape), [x, y])
        cases[f"binary {name} rows"] = (
            binary_program(name, DType.F32, (7, 1, 5), (3, 5)),
            [x[:35].reshape(7, 1, 5), y[:15].reshape(3, 5)],
        )
    return cases


def test_every_instruction_set_gives_the_bits_of_the_reference(run_with: Callable[..., Any]) -> None:
    """Bit for bit, for every function; and the only NaN that leaves is the canonical one."""
    cases = isa_cases()
    reference = run_with("scalar", cases)
    for isa in [name for name in _native.machine_isas() if name != "scalar"]:
        answers = run_with(isa, cases)
        assert [name for name in cases if answers[name] != reference[name]] == []
    for name in cases:
        if name.split()[1] in TESTS_BITS | COMPARISONS:
            continue
        bits = np.frombuffer(reference[name][0], np.uint32)
        assert (bits[np.isnan(bits.view(np.float32))] == 0x7FC00000).all(), name
