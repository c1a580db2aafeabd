"""Defines how a module's parameters are named and stored in a program, and loads them back.

A committed program is the checkpoint of its module: `load_state` gives the parameters back by their names, tables
dequantized and panels undone, and a module loaded from them exports to the same bytes.  Names of constants:

    hidden.weight                   as it is, or the panels of a linear without a bias
    hidden.weight+hidden.bias       the panels of a linear with its bias
    hidden.weight+.bias             the same where the module's path is long
    projection^T                    stored transposed (the module computes x @ projection)
    bag.weight, bag.weight:scale    an int8 table and its scales, one a column
    =add                            computed at export; belongs to no parameter and does not come back
    hidden.weight#2                 the same parameter in a second form
    conv.weight+conv.bias@8,3,5,5   the panels of a convolution whose weight has this shape

Rule for int8: scale = max|column| / 127, rounded up to 16 significant bits, so that 127 * scale and every other product
of a stored integer with its scale is exact in f32.  Then quantizing what was dequantized gives the same integers and
the same scale.  A column without a value above 2**-100 is stored as zeros with scale 1.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from alcove.runtime.compiler.panels import SHAPE_MARK, unpack_convolution, unpanel
from alcove.runtime.format.halves import widen_constant
from alcove.runtime.format.spec import DType, Layout, ProgramSpec, Storage, TensorSpec
from numpy.typing import NDArray

COMPUTED: Final = "="
JOIN: Final = "+"
SIBLING: Final = "."
LONG_PATH: Final = 100  # bytes; both names of a module with such a path would not fit in a tensor's name
TRANSPOSED: Final = "^T"
SCALE: Final = ":scale"
COPY: Final = "#"

INT8_MAX: Final = 127
SMALLEST_QUANTIZED: Final = 2.0**-100  # far above the subnormal numbers, far below every trained weight
LARGEST_SCALE: Final = 2.0**113  # so that 127 * scale, below 2**120, stays far from infinity
_SCALE_BITS: Final = 16

_NUMPY: Final[Mapping[DType, np.dtype[Any]]] = {
    DType.F32: np.dtype("<f4"),
    DType.I8: np.dtype("i1"),
    DType.I32: np.dtype("<i4"),
    DType.I64: np.dtype("<i8"),
    DType.U8: np.dtype("u1"),
    DType.BOOL: np.dtype("?"),
}


def toggle_transposed(name: str) -> str:
    """Return the name of a constant after one (more) transposition."""
    return name.removesuffix(TRANSPOSED) if name.endswith(TRANSPOSED) else name + TRANSPOSED


def join_names(weight: str, bias: str) -> str:
    """Return the name of a weight packed with its bias."""
    module, dot, leaf = bias.rpartition(".")
    is_sibling = dot and weight.rpartition(".")[0] == module
    if is_sibling and len(module.encode()) > LONG_PATH:
        return weight + JOIN + SIBLING + leaf
    return weight + JOIN + bias


def _split_name(name: str) -> tuple[str, str]:
    """Return the names that `join_names` has joined."""
    weight, _, bias = name.partition(JOIN)
    if bias.startswith(SIBLING):
        bias = weight.rpartition(".")[0] + bias
    return weight, bias


def quantize_columns(table: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return a table in int8 with one scale a column; dequantizing and quantizing again changes nothing.

    Args:
        table: f32 [rows, columns], finite, |value| < 127 * 2**113.

    Returns:
        int8 [rows, columns] in [-127, 127], rounded half to even, and f32 [columns] > 0.

    Raises:
        ValueError: a value is not finite or too large.
    """
    scale = column_scales(table).astype(np.float64)
    is_zero = np.abs(table).max(axis=0, initial=0.0) < SMALLEST_QUANTIZED
    integers = np.where(is_zero, 0.0, np.rint(table.astype(np.float64) / scale))
    return integers.astype(np.int8), scale.astype(np.float32)


def column_scales(table: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the int8 scale of each column of f32 [rows, columns], as the rule above says.

    Raises:
        ValueError: a value is not finite or too large.
    """
    largest = np.abs(table).max(axis=0, initial=0.0).astype(np.float64)
    is_zero = largest < SMALLEST_QUANTIZED
    mantissa, exponent = np.frexp(np.where(is_zero, float(INT8_MAX), largest) / INT8_MAX)
    scale = np.ldexp(np.ceil(np.ldexp(mantissa, _SCALE_BITS)), exponent - _SCALE_BITS)
    if not (scale <= LARGEST_SCALE).all():
        raise ValueError(f"a table for int8 must hold finite values below 127 * 2**113, not {largest.max()}")
    scales: NDArray[np.float32] = scale.astype(np.float32)
    return scales


def load_state(spec: ProgramSpec) -> dict[str, NDArray[Any]]:
    """Return the parameters that a program holds, by the names they have in their module.

    Args:
        spec: of a program that `export` made (`alcove.runtime.format.reader.read_spec` of its bytes).

    Returns:
        Arrays as `module.load_state_dict` wants them, once through `torch.from_numpy`: int8 tables as f32.  Constants
        that were computed at export are left out.
    """
    constants = {tensor.name: tensor for tensor in spec.tensors if tensor.storage is Storage.CONSTANT}
    state: dict[str, NDArray[Any]] = {}
    # A parameter that is stored twice comes back from its f32 form: the int8 form was made from it.
    for name, tensor in sorted(constants.items(), key=lambda item: item[1].dtype is DType.I8):
        if name.endswith(SCALE):
            continue
        plain = name.partition(COPY)[0]
        array = _elements(tensor)
        plain, _, shape = plain.partition(SHAPE_MARK)
        if shape or tensor.layout is Layout.PANEL16:
            if shape:
                weight, bias = unpack_convolution(array, tensor, shape)
            else:
                weight, bias = unpanel(array, *tensor.shape)
            weight_name, bias_name = _split_name(plain)
            _put(state, weight_name, weight)
            _put(state, bias_name, bias)
        elif tensor.dtype is DType.I8 and name + SCALE in constants:
            _put(state, plain, array.astype(np.float32) * _elements(constants[name + SCALE]))
        else:
            _put(state, plain, array)
    return state


def _put(state: dict[str, NDArray[Any]], name: str, array: NDArray[Any]) -> None:
    if not name or name.startswith(COMPUTED) or name in state:
        return
    if name.endswith(TRANSPOSED):
        name, array = name.removesuffix(TRANSPOSED), np.ascontiguousarray(array.T)
    state[name] = array


def _elements(tensor: TensorSpec) -> NDArray[Any]:
    """Return a constant's elements: shaped, or flat for panels; a copy, writable."""
    tensor = widen_constant(tensor)
    array: NDArray[Any] = np.frombuffer(tensor.data, dtype=_NUMPY[tensor.dtype]).copy()
    return array if tensor.layout is Layout.PANEL16 else array.reshape(tensor.shape)
