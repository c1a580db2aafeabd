"""States which role of the tree may set what, and refuses metadata in which another did.

A signature tells who wrote a document; TUF leaves open what its writer may say in it.  Here it is closed::

    targets ─▶ policy       policy/*.json       no delegation
            ─▶ halt         halt/*.json         no delegation
            ─▶ team-NAME    FEATURE/*.json …    no delegation, or bins of its own under its own keys
                 └─▶ bin-NAME-<hex>             no delegation

- R1  Only the top targets name roles, and only these; only a team has bins, and only under its own prefix.
- R2  A role name has one delegator, so what was proved along one way is never taken for what lies on another.
- R3  Each delegation is terminating and names the paths that its role owns; no two own the same.
- R4  Snapshot and timestamp give the SHA-256 and the length of everything that they name.
- R5  A role's targets lie under its own paths, and each in its own bin.
- R6  No key counts twice in a role, however it is written.

Devices hold to these rules what they read (`updater.py`), the server what it reads and publishes (`trust.py`,
`request_verification.py`, `team_verification.py`).  `docs/deploy/signed_fields.md` lists every field of every document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alcove.registry import layout, limits
from alcove.registry.canonical import FeatureName, TeamName, fault_text
from alcove.registry.errors import MetadataError
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from pydantic import TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alcove.registry._tuf import (
        DelegatedRole,
        Key,
        MetaFile,
        Role,
        Root,
        Snapshot,
        SuccinctRoles,
        Targets,
        Timestamp,
    )

ONLINE_PATHS: Final = {"policy": ("policy/*.json",), "halt": ("halt/*.json",)}

_TEAMS: Final = TypeAdapter(dict[TeamName, tuple[FeatureName, ...]])
_PATTERN_END: Final = "/*.json"
_SHA256_LENGTH: Final = 64
_HEX: Final = frozenset("0123456789abcdef")


def delegations(targets: Targets) -> Mapping[str, DelegatedRole]:
    """Return the delegated roles by name, in their order of precedence."""
    if targets.delegations is None or targets.delegations.roles is None:
        return {}
    return targets.delegations.roles


def succinct_of(team: Targets) -> SuccinctRoles | None:
    """Return how a team's versions are spread over bins, or None where they stand in its own list."""
    return None if team.delegations is None else team.delegations.succinct_roles


def check_teams(teams: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Return `teams` with every name checked; no feature may have two owners.

    Raises:
        ValueError: a name is malformed or reserved, or a feature is listed twice.
    """
    try:
        checked = _TEAMS.validate_python({team: tuple(features) for team, features in teams.items()})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        msg = f"teams: {fault['input']!r}: {fault_text(fault)}"
        raise ValueError(msg) from None
    owned = [feature for features in checked.values() for feature in features]
    twice = sorted({feature for feature in owned if owned.count(feature) > 1})
    if twice:
        msg = f"a feature belongs to one team; owned more than once: {', '.join(twice)}"
        raise ValueError(msg)
    return checked


def check_timestamp(timestamp: Timestamp) -> None:
    """Check what a timestamp says of the snapshot (R4).

    Raises:
        MetadataError: it gives no digest or no length.
    """
    _check_link("timestamp", "snapshot", timestamp.snapshot_meta)


def check_snapshot(snapshot: Snapshot) -> None:
    """Check what a snapshot says of every role (R4).

    Raises:
        MetadataError: it gives no digest or no length of one.
    """
    for name, link in snapshot.meta.items():
        _check_link("snapshot", name, link)


def check_root(root: Root) -> None:
    """Check that no key counts twice in a role (R6).

    Raises:
        MetadataError: one does.
    """
    check_keys("root", root.roles, root.keys)


def check_targets(targets: Targets) -> None:
    """Check that the top targets delegate to policy, halt and teams, what each owns, and nothing else (R1, R3, R6).

    Raises:
        MetadataError: they do not, or hold a target themselves.
    """
    if targets.targets:
        raise MetadataError("targets", "the top targets hold no target of their own; teams do")
    roles = delegations(targets)
    missing = sorted(ONLINE_PATHS.keys() - roles.keys())
    if missing or succinct_of(targets) is not None:
        raise MetadataError("targets", f"targets must delegate policy and halt by name, not {', '.join(missing)}")
    features: dict[str, list[str]] = {}
    for name, role in roles.items():
        if not role.terminating or role.path_hash_prefixes is not None:
            raise MetadataError("targets", f"{name}: every delegation is terminating and names its paths")
        if not 1 <= role.threshold <= len(role.keyids):
            problem = f"{name}: {role.threshold} of {len(role.keyids)} keys would have to sign"
            raise MetadataError("targets", problem)
        paths = list(role.paths or ())
        if name in ONLINE_PATHS:
            if tuple(paths) != ONLINE_PATHS[name]:
                problem = f"{name} is delegated {', '.join(ONLINE_PATHS[name])} and nothing else"
                raise MetadataError("targets", problem)
            continue
        if not layout.is_team(name) or any(not path.endswith(_PATTERN_END) for path in paths):
            raise MetadataError("targets", f"{name} is no team with paths FEATURE{_PATTERN_END}")
        features[name.removeprefix(layout.TEAM_PREFIX)] = [path.removesuffix(_PATTERN_END) for path in paths]
    try:
        check_teams(features)
    except ValueError as error:
        raise MetadataError("targets", str(error)) from None
    if targets.delegations is not None:
        check_keys("targets", roles, targets.delegations.keys)


def check_role(name: str, signed: Targets, top: Targets, *, team: Targets | None = None) -> None:
    """Check what a delegated role says beside its documents (R1, R5).

    Args:
        name: of the role.
        signed: what it says.
        top: the top targets, checked.
        team: what the team says, checked, if this is one of its bins.

    Raises:
        MetadataError: it delegates what it may not, or names a target that is not its own.
    """
    owner = layout.bin_owner(name) if team is not None else name
    delegation = delegations(top).get(owner)
    if delegation is None:
        raise MetadataError(name, "the top targets do not delegate to it")
    if team is not None:
        _check_bin(name, signed, team)
    elif layout.is_team(name):
        _check_bins(name, delegation, top, signed)
    elif signed.delegations is not None:
        raise MetadataError(name, f"{name} delegates further; it speaks for itself alone")
    for path in signed.targets:
        if not delegation.is_delegated_path(path):
            owned = ", ".join(delegation.paths or ())
            raise MetadataError(name, f"{name} may not publish {path}; it owns {owned} (alcove keys own: one more)")


def check_keys(delegator: str, roles: Mapping[str, Role], keys: Mapping[str, Key]) -> None:
    """Check that no key stands under two names in a role: a threshold would count it twice (R6).

    Raises:
        MetadataError: one does.
    """
    for name, role in roles.items():
        material = [key_material(keys[keyid]) for keyid in role.keyids if keyid in keys]
        if len(set(material)) < len(material):
            raise MetadataError(delegator, f"{name} has the same key under two names")


def key_material(key: Key) -> object:
    """Return what makes a public key this key and no other, however its text is spelled."""
    public = str(key.keyval.get("public", ""))
    try:
        if public.lstrip().startswith("-----"):
            loaded = load_pem_public_key(public.strip().encode())
            return loaded.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return bytes.fromhex(public)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return tuple(sorted((name, str(value)) for name, value in key.keyval.items()))


def shared_keys(groups: Iterable[tuple[str, Mapping[str, Key], Iterable[str]]]) -> list[frozenset[str]]:
    """Return the roles that have a key in common, set by set.

    Args:
        groups: role, keys by id, and the ids of those that sign for the role.
    """
    roles: dict[object, set[str]] = {}
    for role, keys, keyids in groups:
        for keyid in keyids:
            if keyid in keys:
                roles.setdefault(key_material(keys[keyid]), set()).add(role)
    return [frozenset(names) for names in roles.values() if len(names) > 1]


def _check_link(role: str, name: str, link: MetaFile) -> None:
    digest = (link.hashes or {}).get("sha256", "")
    if len(digest) != _SHA256_LENGTH or not _HEX.issuperset(digest):
        raise MetadataError(
            role, f"{role} gives no SHA-256 of {name}; anyone who holds its key could have it be anything"
        )
    if not link.length:
        raise MetadataError(role, f"{role} gives no length of {name}")


def _check_bins(name: str, delegation: DelegatedRole, top: Targets, team: Targets) -> None:
    if team.delegations is None:
        return
    succinct = team.delegations.succinct_roles
    if succinct is None:
        raise MetadataError(name, f"{name} delegates further; a team signs its versions itself")
    keys = {keyid: top.get_key(keyid) for keyid in delegation.keyids}
    if (
        succinct.name_prefix != layout.bin_prefix(name)
        or succinct.threshold != delegation.threshold
        or not 1 <= succinct.bit_length <= limits.BIN_BITS_MAX
        or set(succinct.keyids) != set(keys)
        or team.delegations.keys != keys
    ):
        most = 2**limits.BIN_BITS_MAX
        problem = (
            f"{name}: its bins are at most {most}, are called {layout.bin_prefix(name)}"
            " and have its keys and its threshold"
        )
        raise MetadataError(name, problem)
    if team.targets:
        raise MetadataError(name, f"{name} holds versions beside its bins, where no device would look for them")


def _check_bin(name: str, signed: Targets, team: Targets) -> None:
    succinct = succinct_of(team)
    if succinct is None or name not in succinct.get_roles():
        raise MetadataError(name, f"{name} is none of the bins that the team delegates to")
    if signed.delegations is not None:
        raise MetadataError(name, f"{name} delegates further; a team signs its versions itself")
    for path in signed.targets:
        place = succinct.get_role_for_target(path)
        if place != name:
            raise MetadataError(name, f"{path} is in {name}; a device looks for it in {place}")
