"""Converts tensors and element types of ONNX to those of torch."""

import math
from pathlib import Path
from typing import Final

import numpy as np
import torch
from alcove.platform.cli.importing.onnx_files.errors import OnnxError
from alcove.platform.cli.importing.onnx_files.limits import MAX_ELEMENTS, MAX_EXTERNAL_BYTES, MAX_RANK
from onnx import TensorProto, TypeProto, helper, numpy_helper
from torch import Tensor

DTYPES: Final[dict[int, torch.dtype]] = {
    TensorProto.FLOAT: torch.float32,
    TensorProto.DOUBLE: torch.float64,
    TensorProto.FLOAT16: torch.float16,
    TensorProto.BFLOAT16: torch.bfloat16,
    TensorProto.INT8: torch.int8,
    TensorProto.INT16: torch.int16,
    TensorProto.INT32: torch.int32,
    TensorProto.INT64: torch.int64,
    TensorProto.UINT8: torch.uint8,
    TensorProto.UINT16: torch.int32,
    TensorProto.UINT32: torch.int64,
    TensorProto.BOOL: torch.bool,
    TensorProto.INT4: torch.int8,
    TensorProto.UINT4: torch.uint8,
}
"""Element types by their number in ONNX; one that torch computes little with becomes the next wider one."""

WIDE: Final = frozenset({torch.float16, torch.bfloat16, torch.float64})
"""Types that become float32 in all that depends on inputs, as programs compute."""


def dtype_of(number: int) -> torch.dtype:
    """Return the torch type of an element type of ONNX.

    Raises:
        OnnxError: there is none, such as for strings and complex numbers.
    """
    if number not in DTYPES:
        known = TensorProto.DataType.values()
        name = TensorProto.DataType.Name(number) if number in known else str(number)
        raise OnnxError(f"element type {name} is not supported")
    return DTYPES[number]


def computed_dtype(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which a program computes what the file has in `dtype`."""
    return torch.float32 if dtype in WIDE else dtype


def read_tensor(proto: TensorProto, folder: Path) -> Tensor:
    """Return the tensor of an initializer or of a constant.

    Args:
        proto: the tensor; its elements may be in a file.
        folder: of the model's file; no other folder is read.

    Raises:
        OnnxError: it is too large, its bytes are too few, it has no type that is known, or lies outside the folder.
    """
    shape = tuple(proto.dims)
    what = f"tensor {proto.name!r}"
    check_shape(shape, what)
    dtype = dtype_of(proto.data_type)
    try:
        array = numpy_helper.to_array(_inside(proto, folder, what), str(folder))
    except OnnxError:
        raise
    except Exception as error:  # noqa: BLE001 - onnx and numpy raise what their conversions raise
        words = str(error).strip().partition("\n")[0]
        raise OnnxError(f"{what} of shape {list(shape)} cannot be read ({words})") from None
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    if array.dtype.name in {"int4", "uint4"}:
        array = array.astype(np.int8 if array.dtype.name == "int4" else np.uint8)
    elif array.dtype == np.uint16:
        array = array.astype(np.int32)
    elif array.dtype == np.uint32:
        array = array.astype(np.int64)
    return torch.from_numpy(np.array(array, order="C")).reshape(shape).to(dtype)


def check_shape(shape: tuple[int, ...], what: str, most: int = MAX_ELEMENTS) -> None:
    """Find out that a tensor may have this shape.

    Raises:
        OnnxError: it has more dimensions or elements than are allowed, or a negative size.
    """
    if len(shape) > MAX_RANK:
        raise OnnxError(f"{what} has {len(shape)} dimensions; at most {MAX_RANK} are read")
    if any(size < 0 for size in shape) or math.prod(shape) > most:
        raise OnnxError(f"{what} has shape {list(shape)}; at most {most:,} elements are read, and no size is negative")


def _inside(proto: TensorProto, folder: Path, what: str) -> TensorProto:
    """Return the tensor, whose elements are in it or in a file of the folder.

    Raises:
        OnnxError: they are elsewhere, or more than the file holds.
    """
    if proto.data_location != TensorProto.EXTERNAL:
        return proto
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    path = folder / location
    root = folder.resolve()
    if not location or Path(location).is_absolute() or not path.resolve().is_relative_to(root) or path.is_symlink():
        raise OnnxError(f"{what} lies at {location!r}, outside the folder of the file; only that folder is read")
    if not path.is_file():
        raise OnnxError(f"{what} lies in {location!r}, and there is no such file beside the model")
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "0"))
    except ValueError:
        raise OnnxError(f"{what}: offset and length in {location!r} are no numbers") from None
    size = path.stat().st_size
    if size > MAX_EXTERNAL_BYTES or offset < 0 or length < 0 or offset + length > size:
        raise OnnxError(f"{what} takes bytes {offset} to {offset + length} of {location!r}, which has {size}")
    return proto


def type_of(tensor: Tensor) -> TypeProto:
    """Return the type and shape of a tensor as ONNX writes them."""
    numbers = {dtype: number for number, dtype in reversed(DTYPES.items())}
    return helper.make_tensor_type_proto(numbers[tensor.dtype], tuple(tensor.shape))
