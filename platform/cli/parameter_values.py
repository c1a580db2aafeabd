"""Reads and prints values of parameters: `--set threshold=0.4` of a rollout, `--set tight.threshold=0.4` of an arm."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from alcove.platform.client import Arm
    from alcove.platform.client.parameter_values import ParameterValue

__all__ = [
    "SetEverywhere",
    "SetInArm",
    "SetInRollout",
    "arms_with_values",
    "runtime_line",
    "values_of",
    "values_text",
    "version_text",
]

_HINT = "--set"

SetInRollout = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PARAMETER=VALUE",
        help="Value of a parameter that the version declares, such as threshold=0.4 or enabled=false; the others have "
        "their defaults. Repeatable.",
    ),
]
SetEverywhere = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PARAMETER=VALUE",
        help="Value of a parameter on every device, such as enabled=false; the others stay as they are. Repeatable.",
    ),
]
SetInArm = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="ARM.PARAMETER=VALUE",
        help="Value of a parameter that the version of an arm declares, such as tight.threshold=0.4. Repeatable.",
    ),
]


def values_of(texts: Sequence[str]) -> "dict[str, ParameterValue]":
    """Return the values by the names of parameters, as texts: the server knows the types.

    Raises:
        typer.BadParameter: one is written otherwise, or comes twice.
    """
    found: dict[str, ParameterValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"write PARAMETER=VALUE, such as threshold=0.4; got {text!r}", param_hint=_HINT)
        if name in found:
            raise typer.BadParameter(f"expected each parameter once, got {name} twice", param_hint=_HINT)
        found[name] = value
    return found


def arms_with_values(arms: "Sequence[Arm]", texts: Sequence[str]) -> "list[Arm]":
    """Return arms with the values that are set in them.

    Raises:
        typer.BadParameter: a value is written otherwise, comes twice, or is for no arm.
    """
    names = [arm.name for arm in arms]
    by_arm: dict[str, dict[str, ParameterValue]] = {name: {} for name in names}
    for name, value in values_of(texts).items():
        arm, dot, parameter = name.rpartition(".")
        if not (dot and arm in by_arm):
            bound = f"write ARM.PARAMETER=VALUE with an arm of {', '.join(names) or '--arm'}"
            raise typer.BadParameter(f"{bound}; got {name + '=' + str(value)!r}", param_hint=_HINT)
        by_arm[arm][parameter] = value
    return [arm.model_copy(update={"values": by_arm[arm.name]}) for arm in arms]


def runtime_line() -> str:
    """Return for which devices values are: what an older one does with a policy that has some."""
    from alcove.registry.manifest import PARAMETERS_RUNTIME  # noqa: PLC0415 - loads the manifest's models

    return (
        f"values are for devices of runtime {PARAMETERS_RUNTIME} or newer: an older one refuses a policy with values,"
        " keeps its last one, and hears halts all the same"
    )


def values_text(values: "Mapping[str, ParameterValue]") -> str:
    """Return values as `--set` takes them, "" for none."""
    return ", ".join(f"{name}={_text(value)}" for name, value in values.items())


def version_text(version: str, values: "Mapping[str, ParameterValue]") -> str:
    """Return a version with the values that a rollout or an arm gives its parameters, for a cell of a table."""
    return f"{version} ({values_text(values)})" if values else version


def _text(value: "ParameterValue") -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
