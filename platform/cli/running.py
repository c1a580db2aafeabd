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


def run_program(
    program: bytes, inputs: list[str], method: str | None = None, named: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the outputs of a method by name, as plain JSON values; inputs are in order, or `named` NAME=VALUE.

    Raises:
        typer.BadParameter: an input is no JSON array of its type, named wrongly, or there is no such method.
        AlcoveRuntimeError: the program or an input is refused.
    """
    model = choose_method(load(program), method)
    values = parse_inputs(model, _in_order(model, inputs, named) if named else inputs)
    return {port.name: array.tolist() for port, array in zip(model.outputs, model(*values), strict=True)}


def _in_order(model: Model, inputs: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the words of inputs that are given as NAME=VALUE in the program's order.

    Raises:
        typer.BadParameter: some are given without a name, twice, not at all, or there is no input of that name.
    """
    names = [port.name for port in model.inputs]
    if inputs:
        raise typer.BadParameter("give every input by --input NAME=VALUE, or none")
    given: dict[str, str] = {}
    for text in named:
        name, equals, value = text.partition("=")
        if not equals or name not in names or name in given:
            wanted = f"the program's inputs are {', '.join(names)}, each once; write NAME=VALUE"
            raise typer.BadParameter(f"{wanted}; got {text!r:.80}", param_hint="--input")
        given[name] = value
    if missing := [name for name in names if name not in given]:
        raise typer.BadParameter(f"also give {', '.join(missing)}", param_hint="--input")
    return [given[name] for name in names]


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
