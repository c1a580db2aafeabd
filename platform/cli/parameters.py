"""Reads a parameter of a version as people write it: `threshold:float=0.5:0.1..0.9`."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import typer
from alcove.registry.limits import PARAMETER_DESCRIPTION_MAX

if TYPE_CHECKING:
    from alcove.registry.parameters import Encoded, Parameter

__all__ = ["parse_parameter", "parse_parameters"]

_FORM: Final = re.compile(r"(?P<name>[^:=]+):(?P<type>bool|int|float|text)=(?P<default>[^:]*)(?::(?P<bounds>.*))?")
_HINT: Final = "--parameter"


def parse_parameters(texts: Sequence[str], descriptions: Sequence[str]) -> "list[Parameter]":
    """Return parameters by name, each with its description: NAME=WORDS.

    Raises:
        typer.BadParameter: a text is none, a description is of no parameter, comes twice, or is too long.
    """
    found = {one.name: one for one in map(parse_parameter, texts)}
    for text in descriptions:
        name, _, words = text.partition("=")
        hint = "--parameter-description"
        if name not in found or found[name].description or not words:
            bound = f"write NAME=WORDS, once, of {', '.join(found) or 'a --parameter'}"
            raise typer.BadParameter(f"{bound}; got {text!r}", param_hint=hint)
        if len(words) > PARAMETER_DESCRIPTION_MAX:
            bound = f"a description has at most {PARAMETER_DESCRIPTION_MAX} characters"
            raise typer.BadParameter(f"{bound}; got {len(words)} of {name}", param_hint=hint)
        found[name] = found[name].model_copy(update={"description": words})
    return sorted(found.values(), key=lambda parameter: parameter.name)


def parse_parameter(text: str) -> "Parameter":
    """Return the parameter in a text such as "rows:int=3:1..10", "enabled:bool=true" or "tone:text=plain:plain,kind".

    Raises:
        typer.BadParameter: it is none, says a number or a truth value wrongly, or its default is out of its bounds.
    """
    from alcove.registry.parameters import Parameter  # noqa: PLC0415 - loads pydantic
    from pydantic import ValidationError  # noqa: PLC0415 - loads pydantic

    match = _FORM.fullmatch(text)
    if match is None:
        form = "NAME:int=3:1..10, NAME:float=0.5:0.1..0.9, NAME:bool=true or NAME:text=plain:plain,kind"
        raise typer.BadParameter(f"a parameter is written {form}; got {text!r}", param_hint=_HINT)
    kind, bounds = match["type"], match["bounds"] or ""
    fields: dict[str, Any] = {"name": match["name"], "type": kind}
    try:
        fields["default"] = _read(kind, match["default"])
        if kind == "text":
            fields["choices"] = tuple(bounds.split(","))
        elif kind in ("int", "float"):
            low, _, high = bounds.partition("..")
            fields |= {"minimum": _read(kind, low), "maximum": _read(kind, high)}
        elif bounds:
            raise typer.BadParameter(f"a truth value has no bounds; got {text!r}", param_hint=_HINT)
        return Parameter(**fields)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
        raise typer.BadParameter(f"{text!r}: {problem}", param_hint=_HINT) from None


def _read(kind: str, text: str) -> "Encoded":
    """Return a value as documents hold it."""
    from alcove.registry.parameters import encode_text  # noqa: PLC0415 - loads pydantic

    try:
        return encode_text(kind, text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=_HINT) from None
