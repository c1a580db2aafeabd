"""Prints what a version declares for rollouts and experiments to set: its parameters, as its team signed them."""

import json
from typing import Any

from alcove.platform.cli.output import print_rows, say
from alcove.platform.domain.parameter_values import parameters_of
from alcove.registry.parameters import Encoded, Parameter

__all__ = ["declared_parameters", "min_runtime_of", "show_parameters"]


def declared_parameters(manifest: bytes) -> dict[str, Any]:
    """Return the parameters of a manifest as JSON, with the oldest runtime whose devices run the version."""
    rows = [
        {
            "name": one.name,
            "type": one.type,
            "default": one.default,
            "minimum": one.minimum,
            "maximum": one.maximum,
            "choices": list(one.choices),
            "description": one.description,
        }
        for one in parameters_of(manifest)
    ]
    return {"parameters": rows, "min_runtime": min_runtime_of(manifest)}


def min_runtime_of(manifest: bytes) -> str:
    """Return the oldest runtime whose devices run a version."""
    return str(json.loads(manifest)["min_runtime"])


def show_parameters(manifest: bytes) -> None:
    """Print a table of the parameters, or that there are none."""
    rows = [
        {
            "parameter": one.name,
            "type": one.type,
            "default": _spell(one.default),
            "bounds": _bounds(one),
            "description": one.description,
        }
        for one in parameters_of(manifest)
    ]
    title = f"parameters, for rollout create --set; devices of runtime {min_runtime_of(manifest)} or newer"
    if rows:
        print_rows(rows, as_json=False, empty="", title=title)
    else:
        say("parameters: none declared")


def _bounds(parameter: Parameter) -> str:
    match parameter.type:
        case "bool":
            return "true, false"
        case "text":
            return ", ".join(parameter.choices)
        case _:
            return f"{parameter.minimum} to {parameter.maximum}"


def _spell(value: Encoded) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
