"""How do words on the command line become a program's inputs, and its outputs JSON?"""

import json
from typing import Any

import numpy as np
import typer
from alcove.runtime import load

__all__ = ["run_program"]

_NUMPY = {"f32": np.float32, "i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}


def run_program(program: bytes, inputs: list[str]) -> dict[str, Any]:
    """Return the outputs by name, as plain JSON values.

    Raises:
        typer.BadParameter: an input is no JSON array of its type.
        AlcoveRuntimeError: the program or an input is refused.
    """
    model = load(program)
    if len(inputs) != len(model.inputs):
        names = ", ".join(port.name for port in model.inputs)
        raise typer.BadParameter(f"the program takes {len(model.inputs)} inputs ({names}), got {len(inputs)}")
    values = [
        _value(port.name, str(getattr(port.dtype, "name", port.dtype)).lower(), text)
        for port, text in zip(model.inputs, inputs, strict=True)
    ]
    return {port.name: array.tolist() for port, array in zip(model.outputs, model(*values), strict=True)}


def _value(name: str, dtype: str, text: str) -> Any:
    if dtype == "text":
        return text
    try:
        given = np.asarray(json.loads(text))
        value: Any = np.asarray(json.loads(text), dtype=_NUMPY[dtype])
    except (ValueError, TypeError, OverflowError) as error:
        raise typer.BadParameter(f"input {name!r} is a JSON array of {dtype}: {error}") from None
    if given.size and given.dtype.kind == "f" and value.dtype.kind != "f":
        raise typer.BadParameter(f"input {name!r} is a JSON array of {dtype}: {given.flat[0]} is no whole number")
    return value
