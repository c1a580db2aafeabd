"""Checks what `export` was called with before torch traces it, and explains what torch refuses to trace."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from traceback import walk_tb
from types import FrameType
from typing import Any, Final

import torch
from alcove.runtime.errors import ArgumentError, ExportError, Finding
from torch import nn
from torch.nn.utils.rnn import PackedSequence

BRANCH: Final = (
    "no branches, numbers or sizes that depend on data: compute both sides and choose with "
    "torch.where, or decide outside the module (tracing ends here: what comes after it is not checked yet)"
)

PACKED: Final = (
    "the rows of a packed sequence depend on data in number: give it to recurrent layers and pad_packed_sequence "
    "alone, and compute with the padded tensor; for the last state, gather at lengths - 1"
)
_NESTED: Final = (
    "tensors of rows of different lengths have sizes that depend on data: give the padded tensor and a mask of what "
    "is used (torch.arange(steps) < lengths.unsqueeze(-1)); attention takes it, means are (x * mask).sum(1) / lengths"
)
_DERIVATIVE: Final = (
    "gradients are for training; write the derivative as a formula, or take it in one direction (torch.func.jvp)"
)
_HELPERS: Final = {
    "nested_tensor": _NESTED,
    "nested_tensor_from_jagged": _NESTED,
    "as_nested_tensor": _NESTED,
    "to_padded_tensor": _NESTED,
    "pack_padded_sequence": PACKED,
    "pack_sequence": PACKED,
    "unpack_sequence": PACKED,
    "unpad_sequence": PACKED,
    "grad": _DERIVATIVE,
    "ctc_loss": "a loss is for training: export the module that gives the scores",
}
"""Torch's functions that no trace goes through, by name."""


def check_module(module: object) -> None:
    """Check that `export` was given a module.

    Raises:
        ArgumentError: it is none.
    """
    if not isinstance(module, nn.Module):
        seen = f"the class {module.__name__}: make one of it" if isinstance(module, type) else type(module).__name__
        raise ArgumentError(f"module must be a torch.nn.Module, not {seen}")


def check_arguments(module: nn.Module, args: object) -> None:
    """Check what `forward` is called with.

    Raises:
        ArgumentError: `args` is no tuple or list, or `forward` takes fewer.
    """
    if not isinstance(args, tuple | list):
        raise ArgumentError(
            f"args must be a tuple, one example for each argument of forward, not {type(args).__name__}"
        )
    if isinstance(module, torch.jit.ScriptModule):
        return  # its forward takes anything; the trace tells
    signature = inspect.signature(module.forward)
    try:
        signature.bind(*args)
    except TypeError as error:
        asked = f"forward of {type(module).__name__} takes {signature}, args has {len(args)}: {error}"
        raise ArgumentError(f"{asked}; arguments by keyword alone are fixed in a module around it") from None


def unknown_argument(index: int, argument: object, leaf: object) -> str:
    """Return what is wrong with the argument `index` of `forward`, which is or holds `leaf`."""
    kind = type(leaf).__name__
    where = f"argument {index} of the module"
    if isinstance(leaf, str):
        return f"{where} is a {type(argument).__name__} that holds a str; a text must be an argument by itself"
    advice = "; pass torch.from_numpy of it" if kind == "ndarray" else ""
    if is_dataclass(leaf):
        advice = "; register the class before (torch.export.register_dataclass), or pass a NamedTuple"
    return f"{where} must be a tensor, a number, None or a str (or hold such tensors), not {kind}{advice}"


def check_tensors(module: nn.Module) -> None:
    """Check that the module's parameters and buffers hold numbers that can be read here.

    Raises:
        ExportError: some do not; a finding for each reason, with the first of them.
    """
    found: dict[str, list[str]] = {}
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        reason = _unreadable(tensor)
        if reason:
            found.setdefault(reason, []).append(name)
    if found:
        raise ExportError(
            [
                Finding(op=f"parameter {_first(names)}", module_path="", source="", suggestion=reason)
                for reason, names in found.items()
            ]
        )


def _first(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _unreadable(tensor: torch.Tensor) -> str:
    if isinstance(tensor, nn.parameter.UninitializedParameter | nn.parameter.UninitializedBuffer):
        return "a lazy layer has no size yet: run the module once before the export"
    if tensor.device.type == "meta":
        return "it is on the meta device and holds no numbers: module.to_empty(device='cpu'), then load its weights"
    if tensor.device.type != "cpu":
        return f"it is on {tensor.device}: call module.cpu() before the export"
    if tensor.layout is not torch.strided or tensor.is_nested:
        return "it is sparse or nested; programs hold dense tensors: keep to_dense() of it, or its indices and values"
    return ""


def check_dims(shapes: Iterable[object], args: Sequence[object]) -> None:
    """Check what `dynamic_shapes` says of arguments that are tensors.

    Raises:
        ArgumentError: it names an axis that the example lacks, or something that is no size.
        ExportError: the example's size is outside the bounds of its Dim; one finding for each.
    """
    findings = []
    for index, (entry, value) in enumerate(zip(shapes, args, strict=True)):
        if not isinstance(value, torch.Tensor) or not isinstance(entry, Mapping | Sequence):
            continue
        dims: Iterable[tuple[Any, Any]] = entry.items() if isinstance(entry, Mapping) else enumerate(entry)
        for axis, dim in dims:
            if not isinstance(axis, int) or not -value.dim() <= axis < value.dim():
                raise ArgumentError(
                    f"dynamic_shapes of argument {index} names axis {axis!r}, its example has {value.dim()} dimensions"
                )
            if isinstance(dim, str | float):
                raise ArgumentError(
                    f"dynamic_shapes of argument {index}, axis {axis}: expected a torch.export.Dim, not {dim!r}"
                )
            low, high = getattr(dim, "min", None), getattr(dim, "max", None)
            size = value.shape[axis]
            if isinstance(low, int) and isinstance(high, int) and not low <= size <= high:
                reason = f"its example has {size} in dimension {axis}, outside the bounds {low} to {high} of its Dim"
                findings.append(Finding(op=f"argument {index}", module_path="", source="", suggestion=reason))
    if findings:
        raise ExportError(findings)


def unwritable(error: Exception) -> str | None:
    """Return what to write in place of what torch cannot trace; None where its own words have to do."""
    names = [frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__) if "torch" in frame.f_code.co_filename]
    if any(_has_packed_input(frame) for frame, _ in walk_tb(error.__traceback__)):
        return PACKED
    advice = next((_HELPERS[name] for name in names if name in _HELPERS), None)
    if advice is None and any("_functorch" in name and "eager_transforms" in name for name in _files(error)):
        advice = _DERIVATIVE
    if advice is None and "__torch__.torch.classes.quantized" in str(error):
        advice = (
            "layers of torch.ao.quantization hold packed weights, not tensors: export the float module with "
            'quantize="int8" and calibration samples, or "int8_dynamic"'
        )
    if advice is None and any(words in str(error) for words in (".numpy() is not supported", "loop of ufunc")):
        advice = "numpy inside forward cannot be traced: use torch's functions, and math's of sizes"
    if advice is None and "register a pytree" in str(error):
        advice = (
            "forward takes or gives an object of a class of its own: use a tuple, a dictionary or a NamedTuple, or "
            "register a dataclass before (torch.export.register_dataclass)"
        )
    return advice


def _files(error: Exception) -> list[str]:
    return [frame.f_code.co_filename for frame, _ in walk_tb(error.__traceback__)]


def _has_packed_input(frame: FrameType) -> bool:
    """Return whether one of torch's recurrent layers was given a packed sequence in this frame."""
    return any(isinstance(frame.f_locals.get(name), PackedSequence) for name in ("input", "orig_input"))
