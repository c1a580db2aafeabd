"""Creates a tree by a first change that every key signs: on one machine, or each signer on its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.registry import layout, request_verification
from alcove.registry.errors import PublishError
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.rotation import Draft
from alcove.registry.rules import check_teams
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from alcove.runtime.files import DISK, Disk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from alcove.registry._tuf import Key
    from alcove.registry.keys import KeyRing
    from alcove.registry.signing_request import SigningRequest


@dataclass(frozen=True, slots=True)
class PublicKeys:
    """Everybody's public keys, collected by the person who drafts the first change; no private key is among them.

    Attributes:
        root, targets: of those who sign offline.
        root_threshold, targets_threshold: how many of them have to sign.
        online: the server's, by role.
        teams: of each team's members.
    """

    root: Sequence[Key]
    targets: Sequence[Key]
    online: Mapping[str, Key]
    teams: Mapping[str, Sequence[Key]]
    root_threshold: int = 1
    targets_threshold: int = 1


def make_first_request(keys: PublicKeys, teams: Mapping[str, Sequence[str]], *, now_s: int) -> SigningRequest:
    """Return the change that a tree begins with, unsigned: root, targets, and each team's empty list of versions.

    Args:
        keys: who may sign.
        teams: the features of each team; each feature belongs to one team.
        now_s: seconds since 1970 from which the signatures hold.

    Raises:
        PublishError: a team has no key, or a threshold is beyond the number of keys.
        ValueError: a team or feature has no acceptable name, or a feature two owners.
    """
    features = check_teams(teams)
    missing = sorted(features.keys() - keys.teams.keys())
    if missing:
        msg = f"no key for: {', '.join(missing)}"
        raise PublishError(msg)
    draft = Draft(None, now_s=now_s)
    draft.rotate("root", add=keys.root, threshold=keys.root_threshold)
    draft.rotate("targets", add=keys.targets, threshold=keys.targets_threshold)
    for role in ("snapshot", "timestamp"):
        draft.rotate(role, add=[keys.online[role]])
    for team, names in features.items():
        draft.add_team(team, names, keys.teams[team])
    for role in ("policy", "halt"):
        draft.delegate_online(role, keys.online[role])
    return draft.draft()


def initialize_repository(
    folder: Path,
    keyring: KeyRing,
    teams: Mapping[str, Sequence[str]],
    *,
    clock: Clock = SYSTEM_CLOCK,
    files: Disk = DISK,
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
    public = PublicKeys(
        root=[keyring.root.public_key],
        targets=[keyring.targets.public_key],
        online={role: getattr(keyring.online, role).public_key for role in ONLINE_ROLES},
        teams={team: [keyring.teams[team].public_key] for team in features},
    )
    change = make_first_request(public, features, now_s=now_s)
    for signer in (keyring.root, keyring.targets, *(keyring.teams[team] for team in features)):
        change, _ = change.sign(signer)
    verified = request_verification.verify_request(folder, change, now_s=now_s)
    request_verification.publish(folder, verified, keyring.online, old_keys=(), files=files, now_s=now_s)
