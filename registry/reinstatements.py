"""Reads the reinstatements by which a team alone, in its own signed metadata, gives back what a halt took away.

A halt document only ever takes away more, because the halt key is online and may be stolen.  A team that has looked
into a halted version reinstates it: it signs that whatever halts of an app up to a serial number took away of a
version (or froze of a feature) may run again.  Then, and only then, the next halt document may leave it out::

    halted in serial 4 ─▶ team reinstates it up to 4 ─▶ halt 5 leaves it out ─▶ halted again in 6: needs a new one

A reinstatement runs nothing: while the halt document names a version, no device runs it, whatever the team signed.
The reinstatements stand beside the minimum versions, as safe from rollback as the team's versions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from alcove.registry import limits
from alcove.registry.canonical import AppName, Digest, FeatureName, Part
from alcove.registry.errors import MetadataError
from pydantic import Field, TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from alcove.registry._tuf import Targets
    from alcove.registry.policy.document import Halt

FIELD: Final = "x-alcove-lifts"


class Reinstatement(Part):
    """What may run again.

    Attributes:
        app: whose halt is meant.
        feature: of the team.
        manifest_sha256: the version; None for a feature that was frozen.
        serial: halts of the app up to this one are meant.
    """

    app: AppName
    feature: FeatureName
    manifest_sha256: Digest | None = None
    serial: Annotated[int, Field(strict=True, ge=1, le=limits.SERIAL_MAX)]

    @property
    def thing(self) -> tuple[str, str, str | None]:
        """What is reinstated, whatever the serial: app, feature and version."""
        return self.app, self.feature, self.manifest_sha256


_REINSTATEMENTS: Final = TypeAdapter(Annotated[tuple[Reinstatement, ...], Field(max_length=limits.REINSTATEMENTS_MAX)])


def parse_reinstatements(role: str, targets: Targets) -> tuple[Reinstatement, ...]:
    """Return what the team has reinstated.

    Raises:
        MetadataError: the field says something else, or one thing twice.
    """
    value = targets.unrecognized_fields.get(FIELD, [])
    try:
        found = _REINSTATEMENTS.validate_python(tuple(value) if isinstance(value, list) else value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise MetadataError(role, f"{FIELD}: {fault['msg']}") from None
    if len({item.thing for item in found}) != len(found):
        raise MetadataError(role, f"{FIELD}: one thing is reinstated twice")
    return found


def find_withdrawn(before: Iterable[Reinstatement], after: Iterable[Reinstatement]) -> str | None:
    """Return what was reinstated before and is not, or not as far, after; or None."""
    serials = {item.thing: item.serial for item in after}
    for item in before:
        if serials.get(item.thing, 0) < item.serial:
            return f"{item.feature} in {item.app}"
    return None


def restores_only_reinstated(earlier: Halt, later: Halt, reinstated: Mapping[str, Iterable[Reinstatement]]) -> bool:
    """Tell whether a halt takes away what an earlier one did, except for what teams have reinstated since.

    Args:
        earlier: known before.
        later: its successor.
        reinstated: reinstatements of the team that owns each feature.
    """
    halted = {(item.feature, item.version.manifest_sha256) for item in earlier.halted}
    halted -= {(item.feature, item.version.manifest_sha256) for item in later.halted}
    gone: set[tuple[str, str | None]] = {
        *halted,
        *((feature, None) for feature in set(earlier.frozen) - set(later.frozen)),
    }
    return all(
        any(
            item.app == earlier.app and (item.feature, item.manifest_sha256) == thing and item.serial >= earlier.serial
            for item in reinstated.get(thing[0], ())
        )
        for thing in gone
    )


def without_reinstated(halt: Halt, reinstated: Mapping[str, Iterable[Reinstatement]]) -> Halt:
    """Return the halt, of the same serial, without what teams have reinstated up to that serial."""
    things = {
        (item.feature, item.manifest_sha256)
        for items in reinstated.values()
        for item in items
        if item.app == halt.app and item.serial >= halt.serial
    }
    return halt.model_copy(
        update={
            "halted": tuple(i for i in halt.halted if (i.feature, i.version.manifest_sha256) not in things),
            "frozen": tuple(feature for feature in halt.frozen if (feature, None) not in things),
        }
    )
