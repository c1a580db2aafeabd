"""Fixes the shapes of a graph's inputs, by the file and by what is given for those that vary."""

import re
from collections.abc import Mapping, Sequence

import torch
from alcove.platform.cli.importing.onnx_files.errors import OnnxError
from alcove.platform.cli.importing.onnx_files.tensors import check_shape, computed_dtype, dtype_of
from onnx import ValueInfoProto
from torch import Tensor


def parse_shapes(given: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """Return the shapes in NAME=1x3x224x224.

    Raises:
        OnnxError: one is none, or a name is given twice.
    """
    found: dict[str, tuple[int, ...]] = {}
    for pair in given:
        name, equals, text = pair.rpartition("=")
        if not equals or not name or not re.fullmatch(r"\d{1,9}(x\d{1,9})*|", text) or name in found:
            raise OnnxError(f"--input is NAME=1x3x224x224, each name once; got {pair!r}")
        found[name] = tuple(int(size) for size in text.split("x")) if text else ()
        if 0 in found[name]:
            raise OnnxError(f"--input {pair}: a size of 0")
    return found


def fix_inputs(
    inputs: Sequence[ValueInfoProto], given: Mapping[str, Sequence[int]], size: int | None = None
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
            fixed, words = _shape_of(each, sizes, size)
            if fixed is None:
                problems.append(f"{each.name} is {words}; give --input {each.name}=SIZES, such as 1x3x224x224")
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


def _shape_of(value: ValueInfoProto, sizes: Mapping[str, int], side: int | None) -> tuple[tuple[int, ...] | None, str]:
    """Return the shape of an input, or None and the shape in words."""
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return None, "of unknown shape"
    shape: list[int] = []
    words = []
    channels = [axis for axis, dim in enumerate(kind.shape.dim) if dim.dim_value == 3 and axis in {1, 3}]
    is_picture = len(kind.shape.dim) == 4 and bool(channels)
    for axis, dim in enumerate(kind.shape.dim):
        size = dim.dim_value if dim.HasField("dim_value") else 0
        if size <= 0:
            size = sizes.get(dim.dim_param, 1 if axis == 0 else (side or 0) if is_picture else 0)
        shape.append(size)
        words.append(str(size) if size > 0 else dim.dim_param or "?")
    return (tuple(shape) if all(size > 0 for size in shape) else None), "x".join(words)
