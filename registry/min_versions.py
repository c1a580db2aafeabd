"""Reads minimum versions from a team's own signed metadata: a feature never goes below its minimum version.

The policy key chooses among signed versions, so that a rollout can go back; a team that must withdraw old versions for
good raises their minimum version, which neither the policy key nor a stolen server can lower.  They stand beside the
team's targets, in a field that TUF leaves to its users, and are as safe from rollback as the targets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alcove.registry.canonical import FeatureName, VersionText, version_key
from alcove.registry.errors import MetadataError
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.registry._tuf import Targets

FIELD: Final = "x-alcove-min-versions"

_MIN_VERSIONS: Final = TypeAdapter(dict[FeatureName, VersionText])


def parse_min_versions(role: str, targets: Targets) -> Mapping[str, str]:
    """Return the minimum version of each feature for which the team has set one.

    Raises:
        MetadataError: the field says something else.
    """
    try:
        return _MIN_VERSIONS.validate_python(targets.unrecognized_fields.get(FIELD, {}), strict=True)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise MetadataError(role, f"{FIELD}: {fault['msg']}") from None


def is_below(version: str, min_version: str | None) -> bool:
    """Tell whether `version` is below `min_version`; nothing is below None."""
    return min_version is not None and version_key(version) < version_key(min_version)


def find_lowered(before: Mapping[str, str], after: Mapping[str, str]) -> str | None:
    """Return a feature whose minimum version falls or goes from `before` to `after`, or None."""
    for feature, min_version in before.items():
        if feature not in after or is_below(after[feature], min_version):
            return feature
    return None
