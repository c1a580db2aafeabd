"""Where does everything lie in the tree, what are its roles called, and how long does each signature hold?

::

    metadata/N.<role>.json, timestamp.json     signed; all but timestamp.json never change
    targets/<folder>/<sha256>.<name>.json      manifests, policies, halts
    blobs/<sha256>                             programs and cards

Role names are unique over the whole tree: "root", "targets", "snapshot", "timestamp", "policy", "halt" and one
"team-<name>" for each team.  A client keeps a role's metadata by its name.
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


def team_role(team: str) -> str:
    """Return the role name of a team."""
    return f"{TEAM_PREFIX}{team}"


def metadata_file(role: str, version: int | None = None) -> str:
    """Return the path of a role's metadata in the tree; only the timestamp has no version."""
    return f"{METADATA}/{role}.json" if version is None else f"{METADATA}/{version}.{role}.json"


def target_file(path: str, sha256: str) -> str:
    """Return where the bytes of a target lie in the tree: the digest stands before the name."""
    folder, _, name = path.rpartition("/")
    return f"{TARGETS}/{folder}/{sha256}.{name}"


def policy_path(app: str) -> str:
    """Return the target path of an app's policy."""
    return f"policy/{app}.json"


def halt_path(app: str) -> str:
    """Return the target path of an app's halt."""
    return f"halt/{app}.json"
