"""Defines values that an operator sets over every rollout, arm and default of a feature: a kill switch.  Pure.

V1  An override changes values alone: every device keeps the version of its rollout, arm or default.
V2  It reaches every version in the app's policy that declares the parameter with such a value; what a version does not
    know is not carried beside it, and `unreached_versions` names the version.
V3  While it stands, rollouts and experiments of the feature ask no device for reports (their `tasks` are not in the
    policy), and a read-out of the holdout neither keeps nor measures the feature: what happens meanwhile says nothing
    of a version.
V4  Running rollouts are paused as it begins; one with guardrails is neither advanced nor resumed before its end.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from alcove.platform.domain.errors import InvalidFieldError
from alcove.platform.domain.parameter_values import GivenValues
from alcove.registry.parameters import Encoded, Parameter, Setting
from alcove.registry.policy import FeaturePolicy

__all__ = ["DeclaredParameters", "ValueOverride", "overlay_values", "read_override", "unreached_versions"]

DeclaredParameters = Mapping[str, tuple[Parameter, ...]]
"""What versions declare, by manifest digest."""


@dataclass(frozen=True)
class ValueOverride:
    """Values of parameters of a feature on every device of an app.

    Attributes:
        app, feature: where.
        values: by rising name; at least one.
        reason: why, in words.
        set_by: the principal who set it.
        set_at_s: when, seconds since 1970.
        first_serial: of the first policy that carries it.
        end_serial: of the first policy without it; None: it stands.
    """

    app: str
    feature: str
    values: tuple[Setting, ...]
    reason: str
    set_by: str
    set_at_s: int
    first_serial: int = 0
    end_serial: int | None = None

    def is_in_policy(self, serial: int) -> bool:
        """Tell whether the app's policy of this number carries it."""
        return self.first_serial <= serial and (self.end_serial is None or serial < self.end_serial)


def overlay_values(
    values: Iterable[Setting], override: ValueOverride | None, parameters: Iterable[Parameter]
) -> tuple[Setting, ...]:
    """Return the values of one part of a policy with those that stand over them, without those that are the default.

    Args:
        values: of the rollout, the arm or the default.
        override: of the feature; None: none stands.
        parameters: that the part's version declares; what it does not know is left out (V2).
    """
    if override is None:
        return tuple(values)
    known = {one.name: one for one in parameters}
    found = {setting.name: setting.value for setting in values}
    found |= {setting.name: setting.value for setting in override.values if _is_taken(setting, known)}
    return tuple(
        Setting(name=name, value=value)
        for name, value in sorted(found.items())
        if name not in known or value != known[name].default
    )


def read_override(subject: str, declared: Iterable[tuple[Parameter, ...]], given: GivenValues) -> tuple[Setting, ...]:
    """Return values as a policy carries them, by name, also those that are a default.

    Args:
        subject: whose versions they are for, for people, such as "feature spelling in app messenger".
        declared: what each version declares; one that takes a value is enough.
        given: as asked for.

    Raises:
        InvalidFieldError: none is given, one comes twice, or no version declares the name or takes the value.
    """
    if not given:
        raise InvalidFieldError("values", "at least one value", 0)
    known: dict[str, list[Parameter]] = {}
    for parameters in declared:
        for one in parameters:
            known.setdefault(one.name, []).append(one)
    found: dict[str, Encoded] = {}
    for name, value in given:
        if name in found:
            raise InvalidFieldError("values.name", "each parameter once", name)
        if name not in known:
            bound = f"a parameter of {subject}: {', '.join(sorted(known)) or 'its versions declare none'}"
            raise InvalidFieldError("values.name", bound, name)
        found[name] = _encode(known[name], value)
    return tuple(Setting(name=name, value=value) for name, value in sorted(found.items()))


def _encode(parameters: list[Parameter], value: Encoded | None) -> Encoded:
    """Return a value as the first version that takes it holds it."""
    for parameter in parameters:
        with suppress(ValueError):
            return parameter.encode(value if value is not None else "")
    raise InvalidFieldError(f"values.{parameters[0].name}", parameters[0].bound, value)


def unreached_versions(override: ValueOverride, rules: FeaturePolicy, parameters: DeclaredParameters) -> list[str]:
    """Return the versions of a feature's policy that do not take all values of an override, in the policy's order."""
    found = []
    for ref in rules.versions():
        known = {one.name: one for one in parameters.get(ref.manifest_sha256, ())}
        if not all(_is_taken(setting, known) for setting in override.values):
            found.append(ref.version)
    return found


def _is_taken(setting: Setting, known: Mapping[str, Parameter]) -> bool:
    parameter = known.get(setting.name)
    return parameter is not None and not parameter.problem(setting.value)
