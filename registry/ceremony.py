"""How does a tree begin?  With all keys in one place, once: every role delegated and signed from the first day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alcove.registry import layout
from alcove.registry._tuf import DelegatedRole, Delegations, Metadata, Root, Targets
from alcove.registry.clock import SYSTEM_CLOCK, Clock, utc
from alcove.registry.errors import PublishError, StorageError
from alcove.registry.files import DISK, Files, replace_file
from alcove.registry.keys import check_teams
from alcove.registry.publication import Publisher
from alcove.registry.trust import SignedRole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from alcove.registry._tuf import CryptoSigner
    from alcove.registry.keys import KeyRing


def initialise_tree(
    folder: Path,
    keyring: KeyRing,
    teams: Mapping[str, Sequence[str]],
    *,
    clock: Clock = SYSTEM_CLOCK,
    files: Files = DISK,
) -> None:
    """Make a new, empty tree; killed anywhere, it can be repeated.

    Args:
        folder: where the tree will lie; it may hold a half-made tree, never a whole one.
        keyring: all keys, as `create_keys` made them.
        teams: the features of each team; each feature belongs to one team.
        clock: dates the signatures.
        files: writes.

    Raises:
        PublishError: the folder holds a tree already, or a team has no key.
        StorageError: a file could not be written.
        ValueError: a team or feature has no acceptable name, or a feature two owners.
    """
    features = check_teams(teams)
    missing = sorted(features.keys() - keyring.teams.keys())
    if missing:
        msg = f"no key for: {', '.join(missing)}"
        raise PublishError(msg)
    if (folder / layout.metadata_file("timestamp")).exists():
        msg = f"{folder} holds a tree already"
        raise PublishError(msg)
    now_s = clock.now_s()
    root = _root(keyring, now_s)
    try:
        replace_file(files, folder / layout.metadata_file("root", 1), root.to_bytes())
    except OSError as error:
        raise StorageError(str(error.filename or folder), error.strerror or str(error)) from error
    owners = {layout.team_role(team): keyring.teams[team] for team in features}
    owners |= {"policy": keyring.online.policy, "halt": keyring.online.halt}
    paths = {layout.team_role(team): [f"{name}/*.json" for name in names] for team, names in features.items()}
    paths |= {"policy": ["policy/*.json"], "halt": ["halt/*.json"]}
    roles = {"targets": _targets(keyring, owners, paths, now_s)}
    for role, signer in owners.items():
        lifetime_s = layout.LIFETIMES_S.get(role, layout.TEAM_LIFETIME_S)
        roles[role] = _sign(Targets(version=1, expires=utc(now_s + lifetime_s)), signer)
    Publisher(folder, keyring.online, files, now_s).publish(targets={}, roles=roles, snapshot=None, timestamp=None)


def _root(keyring: KeyRing, now_s: int) -> Metadata[Root]:
    root = Root(version=1, expires=utc(now_s + layout.LIFETIMES_S["root"]), consistent_snapshot=True)
    for role, signer in (
        ("root", keyring.root),
        ("targets", keyring.targets),
        ("snapshot", keyring.online.snapshot),
        ("timestamp", keyring.online.timestamp),
    ):
        root.add_key(signer.public_key, role)
    metadata = Metadata(root)
    metadata.sign(keyring.root)
    return metadata


def _targets(
    keyring: KeyRing, owners: Mapping[str, CryptoSigner], paths: Mapping[str, list[str]], now_s: int
) -> SignedRole:
    delegations = Delegations(
        keys={signer.public_key.keyid: signer.public_key for signer in owners.values()},
        roles={
            # Terminating: nobody but its owner is ever asked about a path.
            role: DelegatedRole(role, [signer.public_key.keyid], 1, terminating=True, paths=paths[role])
            for role, signer in owners.items()
        },
    )
    expires = utc(now_s + layout.LIFETIMES_S["targets"])
    return _sign(Targets(version=1, expires=expires, delegations=delegations), keyring.targets)


def _sign(targets: Targets, signer: CryptoSigner) -> SignedRole:
    metadata = Metadata(targets)
    metadata.sign(signer)
    return SignedRole(metadata, metadata.to_bytes())
