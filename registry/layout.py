"""Defines where files lie in the tree, what its roles are called, and how long each signature holds.

::

    metadata/N.<role>.json, timestamp.json     signed; all but timestamp.json never change
    targets/<folder>/<sha256>.<name>.json      manifests, policies, halts
    blobs/<sha256>                             programs and cards

Role names are unique over the whole tree: "root", "targets", "snapshot", "timestamp", "policy", "halt", one
"team-<name>" for each team, and "bin-<name>-<hex digits>" for a team's bins (`hash_bins.py`).  A client keeps a
role's metadata by its name.
"""

from __future__ import annotations

from typing import Final

_DAY_S: Final = 86_400

# How long a signature holds, in seconds.  Freshness comes from the timestamp: nothing hides longer than it lives.
LIFETIMES_S: Final = {
    "root": 365 * _DAY_S,
    "targets": 365 * _DAY_S,
    "policy": 30 * _DAY_S,
    "halt": 30 * _DAY_S,
    "snapshot": 7 * _DAY_S,
    "timestamp": _DAY_S,
}
TEAM_LIFETIME_S: Final = 365 * _DAY_S
# A person has to renew these; the server begins to warn so long before.
WARNING_S: Final = 30 * _DAY_S

METADATA: Final = "metadata"
TARGETS: Final = "targets"
BLOBS: Final = "blobs"
TEAM_PREFIX: Final = "team-"
BIN_PREFIX: Final = "bin-"


def team_role(team: str) -> str:
    """Return the role name of a team."""
    return f"{TEAM_PREFIX}{team}"


def is_team(role: str) -> bool:
    """Tell whether this is the role of a team."""
    return role.startswith(TEAM_PREFIX)


def bin_prefix(role: str) -> str:
    """Return the prefix of the names of a team's bins; the hyphen and digits that follow it hold no further hyphen."""
    return f"{BIN_PREFIX}{role.removeprefix(TEAM_PREFIX)}"


def bin_owner(role: str) -> str:
    """Return the team role above a bin, or "" for a role that is no bin."""
    prefix, _, digits = role.rpartition("-")
    if not role.startswith(BIN_PREFIX) or len(prefix) <= len(BIN_PREFIX) or not digits:
        return ""
    return f"{TEAM_PREFIX}{prefix.removeprefix(BIN_PREFIX)}"


def metadata_file(role: str, version: int | None = None) -> str:
    """Return the path of a role's metadata in the tree; only the timestamp has no version."""
    return f"{METADATA}/{role}.json" if version is None else f"{METADATA}/{version}.{role}.json"


def target_file(path: str, digest: str) -> str:
    """Return where the bytes of a target lie in the tree: the digest stands before the name."""
    folder, slash, name = path.rpartition("/")
    return f"{TARGETS}/{folder}{slash}{digest}.{name}"


def policy_path(app: str) -> str:
    """Return the target path of an app's policy."""
    return f"policy/{app}.json"


def halt_path(app: str) -> str:
    """Return the target path of an app's halt."""
    return f"halt/{app}.json"
