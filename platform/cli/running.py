"""Parses a program's inputs from the command line, and runs it to outputs that are plain JSON values."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import typer
from alcove.runtime import Model, load

__all__ = ["choose_method", "parse_inputs", "run_program"]

_NUMPY = {"f32": np.float32, "i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "bool": np.bool_}


def choose_method(model: Model, method: str | None) -> Model:
    """Return the model with this method as the one that a call runs; None is the first.

    Raises:
        typer.BadParameter: it has no such method.
    """
    if method is not None and method not in model.methods:
        known = ", ".join(model.methods)
        raise typer.BadParameter(f"the program has no method {method!r}; it has {known}", param_hint="--method")
    return model if method is None else model.method(method)


def run_program(program: bytes, inputs: list[str], method: str | None = None) -> dict[str, Any]:
    """Return the outputs of a method by name, as plain JSON values.

    Raises:
        typer.BadParameter: an input is no JSON array of its type, or there is no such method.
        AlcoveRuntimeError: the program or an input is refused.
    """
    model = choose_method(load(program), method)
    values = parse_inputs(model, inputs)
    return {port.name: array.tolist() for port, array in zip(model.outputs, model(*values), strict=True)}


def parse_inputs(model: Model, inputs: Sequence[str]) -> list[Any]:
    """Return what words on the command line stand for: a text, a JSON array, or `@FILE.npy` for the array in a file.

    Raises:
        typer.BadParameter: there are not as many as inputs, or one is no array of its type.
    """
    if len(inputs) != len(model.inputs):
        names = ", ".join(port.name for port in model.inputs)
        raise typer.BadParameter(f"the program takes {len(model.inputs)} inputs ({names}), got {len(inputs)}")
    return [
        _value(port.name, str(getattr(port.dtype, "name", port.dtype)).lower(), text)
        for port, text in zip(model.inputs, inputs, strict=True)
    ]


def _value(name: str, dtype: str, text: str) -> Any:
    if dtype == "text":
        return text
    if text.startswith("@"):
        return _in_file(name, text[1:])
    try:
        given = np.asarray(json.loads(text))
        value: Any = np.asarray(json.loads(text), dtype=_NUMPY[dtype])
    except (ValueError, TypeError, OverflowError) as error:
        raise typer.BadParameter(f"input {name!r} is a JSON array of {dtype}: {error}") from None
    if given.size and given.dtype.kind == "f" and value.dtype.kind != "f":
        raise typer.BadParameter(f"input {name!r} is a JSON array of {dtype}: {given.flat[0]} is no whole number")
    return value


def _in_file(name: str, path: str) -> Any:
    try:
        value = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise typer.BadParameter(f"input {name!r}: {path} holds no array: {error}") from None
    if not isinstance(value, np.ndarray):
        raise typer.BadParameter(f"input {name!r}: {path} holds several arrays; give an .npy")
    return value
