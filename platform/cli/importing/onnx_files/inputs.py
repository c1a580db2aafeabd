"""Fixes the shapes of a graph's inputs, by the file and by what is given for those that vary."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from alcove.platform.cli.importing.onnx_files.errors import OnnxError
from alcove.platform.cli.importing.onnx_files.tensors import check_shape, computed_dtype, dtype_of
from onnx import ValueInfoProto
from torch import Tensor


def fix_inputs(
    inputs: Sequence[ValueInfoProto], given: Mapping[str, Sequence[int]], size: tuple[int, int] | None = None
) -> dict[str, Tensor]:
    """Return an example of each input, on torch's device `meta`.

    A first dimension that varies is the batch and becomes 1; one that has a name is the same everywhere; those of
    pictures become `size`.

    Raises:
        OnnxError: an input is no tensor, its shape is not fixed, or one of `given` does not fit; all that are not fixed
            at once.
    """
    names = [each.name for each in inputs]
    strange = [name for name in given if name not in names]
    if strange:
        raise OnnxError(f"--input: no input {strange[0]!r}; the file has {', '.join(names) or 'none'}")
    sizes = _named_sizes(inputs, given)
    found: dict[str, Tensor] = {}
    problems = []
    for each in inputs:
        if each.type.WhichOneof("value") != "tensor_type":
            raise OnnxError(f"input {each.name!r} is no tensor but {each.type.WhichOneof('value')}")
        shape = tuple(given.get(each.name, ()))
        if each.name not in given:
            fixed, words, hint = _shape_of(each, sizes, size)
            if fixed is None:
                problems.append(f"{each.name} is {words}; give {hint}")
                continue
            shape = fixed
        check_shape(shape, f"input {each.name!r}")
        try:
            dtype = computed_dtype(dtype_of(each.type.tensor_type.elem_type))
        except OnnxError as error:
            raise OnnxError(f"input {each.name!r}: {error}") from None
        found[each.name] = torch.empty(shape, dtype=dtype, device="meta")
    if problems:
        raise OnnxError("sizes of inputs that vary must be fixed:", problems)
    return found


def is_setting(example: Tensor) -> bool:
    """Return whether an input looks like a number that an app sets once: a rate, a length, a flag."""
    return example.numel() <= 2


def fix_constants(inputs: Sequence[ValueInfoProto], given: Mapping[str, Any]) -> dict[str, Tensor]:
    """Return the tensors of inputs that are always the same.

    Raises:
        OnnxError: there is no such input, or the value does not fit its shape.
    """
    ports = {each.name: each.type.tensor_type for each in inputs}
    found: dict[str, Tensor] = {}
    for name, value in given.items():
        if name not in ports:
            raise OnnxError(f"--constant: no input {name!r}; the file has {', '.join(ports) or 'none'}")
        tensor = _tensor(name, value, ports[name].elem_type)
        rank = len(ports[name].shape.dim) if ports[name].HasField("shape") else tensor.dim()
        if tensor.dim() == 0 and rank:
            tensor = tensor.reshape((1,) * rank)
        if tensor.dim() != rank:
            raise OnnxError(f"--constant {name}: {tensor.dim()} dimensions; the file has {rank}")
        wanted = [dim.dim_value or size for dim, size in zip(ports[name].shape.dim, tensor.shape, strict=False)]
        if rank and list(tensor.shape) != wanted:
            if tensor.numel() != 1:
                raise OnnxError(f"--constant {name}: shape {list(tensor.shape)}; the file has {wanted}")
            tensor = tensor.expand(wanted).contiguous()
        found[name] = tensor
    return found


def _tensor(name: str, value: Any, kind: int) -> Tensor:
    try:
        return torch.tensor(value, dtype=dtype_of(kind))
    except (ValueError, TypeError, RuntimeError) as error:
        raise OnnxError(f"--constant {name}: {str(error).partition(chr(10))[0]}") from None


def _named_sizes(inputs: Sequence[ValueInfoProto], given: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the sizes that dimensions with names have by what is given, and 1 for the batch.

    Raises:
        OnnxError: a given shape has another number of dimensions.
    """
    found: dict[str, int] = {}
    for each in inputs:
        kind = each.type.tensor_type
        if each.name not in given or not kind.HasField("shape"):
            continue
        shape = given[each.name]
        if len(shape) != len(kind.shape.dim):
            raise OnnxError(
                f"--input {each.name}={'x'.join(map(str, shape))}: the file has {len(kind.shape.dim)} dimensions"
            )
        found |= {dim.dim_param: size for dim, size in zip(kind.shape.dim, shape, strict=True) if dim.dim_param}
    for each in inputs:
        for dim in each.type.tensor_type.shape.dim[:1]:
            if dim.dim_param:
                found.setdefault(dim.dim_param, 1)
    return found


def _shape_of(
    value: ValueInfoProto, sizes: Mapping[str, int], side: tuple[int, int] | None
) -> tuple[tuple[int, ...] | None, str, str]:
    """Return the shape of an input or None, the shape in words, and how to give it."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None, "of unknown shape", f"--input {value.name}=SIZES, such as 1x3x224x224"
    dims = kind.shape.dim
    last = next((axis for axis in (1, 3) if len(dims) == 4 and dims[axis].dim_value in {1, 3}), None)
    sides = dict(zip((axis for axis in (1, 2, 3) if axis != last), (0, 1), strict=False)) if last else {}
    shape: list[int] = []
    for axis, dim in enumerate(dims):
        size = dim.dim_value if dim.HasField("dim_value") else 0
        default = 1 if axis == 0 else side[sides[axis]] if side and axis in sides else 0
        shape.append(size if size > 0 else sizes.get(dim.dim_param, default))
    words = [str(size) if size > 0 else dim.dim_param or "?" for size, dim in zip(shape, dims, strict=True)]
    names = [
        str(size) if size > 0 else _placeholder(dim.dim_param, sides.get(axis))
        for axis, (size, dim) in enumerate(zip(shape, dims, strict=True))
    ]
    hint = f"--input {value.name}={'x'.join(names)}" + (", or --size" if sides else "")
    return (tuple(shape) if all(size > 0 for size in shape) else None), "x".join(words), hint


def _placeholder(name: str, side: int | None) -> str:
    """Return a word for a size that varies."""
    return ("HEIGHT", "WIDTH")[side] if side is not None else re.sub(r"\W+", "_", name).strip("_").upper() or "N"
