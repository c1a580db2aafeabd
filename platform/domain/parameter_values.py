"""Reads the values that a rollout or an arm gives parameters of its version, within the bounds that its team signed."""

import json
from collections.abc import Iterable

from alcove.platform.domain.errors import InvalidFieldError
from alcove.registry.parameters import Encoded, Parameter, Setting
from pydantic import TypeAdapter

__all__ = ["GivenValues", "parameters_of", "plain_values", "read_values"]

GivenValues = tuple[tuple[str, Encoded | None], ...]
"""Names and values as somebody gave them; a text may stand for a value of any type, None for nothing."""

_PARAMETERS = TypeAdapter(tuple[Parameter, ...])


def parameters_of(manifest: bytes) -> tuple[Parameter, ...]:
    """Return what a version's manifest, which its team signed, declares."""
    return _PARAMETERS.validate_json(json.dumps(json.loads(manifest).get("parameters", [])))


def read_values(field: str, version: str, parameters: Iterable[Parameter], given: GivenValues) -> tuple[Setting, ...]:
    """Return values as the policy carries them, by name, without those that are the default anyway.

    Args:
        field: where they stand in the request, such as "values".
        version: whose parameters they are, for people, such as "spelling 1.2.0".
        parameters: that it declares.
        given: as asked for.

    Raises:
        InvalidFieldError: a name is not declared or comes twice, or a value is not of the type or out of the bounds.
    """
    known = {one.name: one for one in parameters}
    found: dict[str, Encoded] = {}
    for name, value in given:
        parameter = known.get(name)
        if parameter is None:
            bound = f"a parameter of {version}: {', '.join(known) or 'it declares none'}"
            raise InvalidFieldError(f"{field}.name", bound, name)
        if name in found:
            raise InvalidFieldError(f"{field}.name", "each parameter once", name)
        try:
            found[name] = parameter.encode(value if value is not None else "")
        except ValueError:
            raise InvalidFieldError(f"{field}.{name}", parameter.bound, value) from None
    return tuple(
        Setting(name=name, value=value) for name, value in sorted(found.items()) if value != known[name].default
    )


def plain_values(values: Iterable[Setting]) -> dict[str, Encoded]:
    """Return values as plain JSON, by name."""
    return {setting.name: setting.value for setting in values}
