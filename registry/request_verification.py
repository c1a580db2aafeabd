"""Checks a signed change to the tree, and publishes it in an order that devices can follow.

The root is found by its number before anything else is read, and the snapshot does not name it.  So there are two ways:

1.  Everything but the root is published first, signed so that it holds under the root before and the one after; then
    the root is written.  No device sees anything that it must refuse.
2.  Where that cannot be (a key is lost, or its owner does not sign any more), the root is written first and the rest
    at once.  A device that comes between the two refuses what it sees, keeps what it has and is right the next time.

Killed anywhere, accepting the same change again completes it.

What is checked before anything is written:

- A1  the root: its number, its thresholds before and after, that the four roles have keys;
- A2  the targets: their number, no target of their own, every delegation as `rotation.py` makes it; no team, feature or
      owner is gone: what was published stays;
- A3  teams and bins: their numbers, and that no version comes or goes (versions are pushed); a minimum version may
      rise here, and a version may be reinstated;
- A4  after the change every role is signed by the keys that then count: none would be left behind unreadable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from alcove.registry import layout
from alcove.registry._tuf import Metadata, Root, Targets
from alcove.registry.errors import (
    ExpiredMetadataError,
    MetadataError,
    MissingTargetError,
    PublishError,
    SignatureError,
    StaleMetadataError,
    StorageError,
)
from alcove.registry.keys import ONLINE_ROLES
from alcove.registry.metadata_writer import MetadataWriter
from alcove.registry.rotation import TOP_ROLES
from alcove.registry.rules import ONLINE_PATHS, check_root, check_targets, delegations, shared_keys
from alcove.registry.signed_time import utc
from alcove.registry.signers import sign_metadata
from alcove.registry.team_verification import check_growth, check_layout, check_numbers
from alcove.registry.trust import SignedRole, bins_of, online_trust, read_state, verify
from alcove.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from alcove.registry._tuf import DelegatedRole, Key, Signer
    from alcove.registry.keys import OnlineKeys
    from alcove.registry.signing_request import SigningRequest
    from alcove.registry.trust import TrustedState
    from alcove.runtime.files import Disk

_Signed = TypeVar("_Signed", Root, Targets)


@dataclass(frozen=True, slots=True)
class VerifiedRequest:
    """A change that may be published.

    Attributes:
        base: the state that it follows; None at the ceremony.
        root: what will be trusted.
        root_metadata: the new root as it is signed, None where the root stays.
        targets: what will be trusted.
        roles: new metadata of targets, teams and bins.
        is_seamless: whether all of them hold under the root before, too.
    """

    base: TrustedState | None
    root: Root
    root_metadata: Metadata[Root] | None
    targets: Targets
    roles: Mapping[str, SignedRole]
    is_seamless: bool

    def online_trust(self) -> Mapping[str, Sequence[str]]:
        """Return the ids of the keys that the server signs with from then on, by role."""
        return online_trust(self.root, self.targets)


def verify_request(folder: Path, change: SigningRequest, *, now_s: int) -> VerifiedRequest:
    """Return the change as it may be published, or raise; nothing is written.

    Args:
        folder: where the tree lies, or will lie.
        change: signed.
        now_s: seconds since 1970 by which dates are judged.

    Raises:
        SignatureError: too few have signed.
        StaleMetadataError: the tree has moved on since the change was drafted.
        PublishError: the change breaks one of the rules above.
        ExpiredMetadataError: it was signed too long ago.
        MetadataError, StorageError: the tree is damaged.
    """
    base = _base(folder, change)
    for role, metadata in change.roles.items():
        if metadata.signed.is_expired(utc(now_s)):
            moment_s = int(metadata.signed.expires.timestamp())
            raise ExpiredMetadataError(role, version=metadata.signed.version, expired_at_s=moment_s)
    root, root_metadata = _verify_root(change, base)
    targets = _verify_targets(change, base, root)
    _check_apart(root, targets)
    roles = {}
    for role, metadata in change.roles.items():
        if isinstance(metadata.signed, Targets) and not _is_there(base, role, metadata):
            roles[role] = SignedRole(metadata, metadata.to_bytes())
    _verify_teams(base, targets, roles)
    old_root = None if base is None else base.root
    is_seamless = old_root is not None and ("targets" not in roles or _holds(old_root, "targets", roles["targets"]))
    return VerifiedRequest(base, root, root_metadata, targets, roles, is_seamless)


def read_state_before(folder: Path, change: SigningRequest) -> TrustedState:
    """Return the state of a tree, or, where of this change its root was written and no more, the one before.

    Raises:
        MetadataError, StorageError: as `read_state`.
    """
    try:
        return read_state(folder)
    except SignatureError:
        root = change.roles.get("root")
        if root is None or root.signed.version < 2:
            raise
        return read_state(folder, root_version=root.signed.version - 1)


def publish(
    folder: Path, verified: VerifiedRequest, keys: OnlineKeys, *, old_keys: Sequence[Signer], files: Disk, now_s: int
) -> tuple[str, ...]:
    """Write a judged change; return the roles that changed, none where the tree held it already.

    Args:
        folder: where the tree lies; its lock is held.
        verified: as `verify_request` returned it.
        keys: the online keys that count after the change.
        old_keys: online keys that counted before, as far as they are still at hand.
        files: writes.
        now_s: dates the signatures of the server.

    Raises:
        StorageError: a step failed; accepting the change again completes it.
    """
    roles = dict(verified.roles)
    base = verified.base
    roles |= _online_roles(verified, keys, now_s)
    is_resigned = base is None or _needs_resigning(base, verified.root)
    if base is None:
        _write_root(folder, verified, files)
        MetadataWriter(folder, keys, files, now_s).publish(targets={}, roles=roles, snapshot=None, timestamp=None)
        return ("root", *roles)
    cosigners = _cosigners(base.root, keys, old_keys)
    is_seamless = verified.is_seamless and cosigners is not None
    if not is_seamless:
        _write_root(folder, verified, files)
    if roles or is_resigned:
        writer = MetadataWriter(folder, keys, files, now_s, cosigners or {})
        writer.publish(targets={}, roles=roles, snapshot=base.snapshot, timestamp=base.timestamp)
    if is_seamless:
        _write_root(folder, verified, files)
    return (*(("root",) if verified.root_metadata else ()), *roles)


def _base(folder: Path, change: SigningRequest) -> TrustedState | None:
    """Return the state that the change follows: the tree's, or the one before, where only its root was written."""
    root = change.roles.get("root")
    if not (folder / layout.metadata_file("timestamp")).exists():
        if root is None or root.signed.version != 1:
            msg = f"{folder} holds no tree; a first change begins with root 1"
            raise PublishError(msg)
        return None
    return read_state_before(folder, change)


def _verify_root(change: SigningRequest, base: TrustedState | None) -> tuple[Root, Metadata[Root] | None]:
    metadata = change.roles.get("root")
    if metadata is None or not isinstance(metadata.signed, Root):
        if base is None:
            msg = "a first change begins with root 1"
            raise PublishError(msg)
        return base.root, None
    new = metadata.signed
    if base is not None and new == base.root:
        return base.root, None  # accepted before
    expected = 1 if base is None else base.root.version + 1
    if new.version != expected:
        raise StaleMetadataError("root", expected_version=expected, seen_version=new.version)
    _keep_rules(check_root, new)
    if not new.consistent_snapshot or new.roles.keys() != set(TOP_ROLES):
        msg = "root must keep consistent snapshots and its four roles"
        raise PublishError(msg)
    for role in ("snapshot", "timestamp"):
        _one_signs(role, new.roles[role].threshold)
    if base is not None:
        verify(base.root, "root", metadata)
    verify(new, "root", metadata)
    return new, metadata


def _verify_targets(change: SigningRequest, base: TrustedState | None, root: Root) -> Targets:
    metadata = change.roles.get("targets")
    if metadata is None or not isinstance(metadata.signed, Targets):
        if base is None:
            msg = "a first change holds the targets"
            raise PublishError(msg)
        _same_signers(base, root)
        return base.targets
    verify(root, "targets", metadata)
    new = metadata.signed
    if base is not None and new == base.targets:
        return new  # accepted before
    expected = 1 if base is None else base.targets.version + 1
    if new.version != expected:
        raise StaleMetadataError("targets", expected_version=expected, seen_version=new.version)
    known = {} if base is None else delegations(base.targets)
    _check_delegations(known, delegations(new))
    _keep_rules(check_targets, new)
    return new


def _same_signers(base: TrustedState, root: Root) -> None:
    """Check that a root without new targets leaves the current ones readable."""
    before, after = base.root.roles["targets"], root.roles["targets"]
    if set(before.keyids) != set(after.keyids) or before.threshold != after.threshold:
        msg = "root changes who signs the targets, so the targets must be signed again in the same change"
        raise PublishError(msg)


def _check_delegations(known: Mapping[str, DelegatedRole], new: Mapping[str, DelegatedRole]) -> None:
    """Check that nobody loses what was delegated, and that the server's roles ask for one signature."""
    gone = sorted(known.keys() - new.keys())
    if gone or list(new)[: len(known)] != list(known):
        msg = f"targets drop or reorder {', '.join(gone) or 'roles'}; what was published stays"
        raise PublishError(msg)
    for role, delegated in new.items():
        if not layout.is_team(role):
            _one_signs(role, delegated.threshold)
        paths = list(delegated.paths or ())
        before = list(known[role].paths or ()) if role in known else []
        if paths[: len(before)] != before:
            msg = f"{role} loses {', '.join(sorted(set(before) - set(paths)))}; what was published stays"
            raise PublishError(msg)


def _check_apart(root: Root, targets: Targets) -> None:
    """Check that no key of the server signs for anybody else: its thief would be that one's, too."""
    named: list[tuple[str, Mapping[str, Key], Sequence[str]]] = []
    named += [(role, root.keys, root.roles[role].keyids) for role in TOP_ROLES]
    if targets.delegations is not None:
        keys = targets.delegations.keys
        named += [(role, keys, delegated.keyids) for role, delegated in delegations(targets).items()]
    for shared in shared_keys(named):
        if not shared.isdisjoint(ONLINE_ROLES):
            msg = f"{' and '.join(sorted(shared))} have the same key; each key of the server signs for one role"
            raise PublishError(msg)


def _keep_rules(check: Callable[[_Signed], None], signed: _Signed) -> None:
    try:
        check(signed)
    except MetadataError as error:
        raise PublishError(error.problem) from None


def _verify_teams(base: TrustedState | None, targets: Targets, roles: Mapping[str, SignedRole]) -> None:
    known = {} if base is None else base.roles
    for role in delegations(targets):
        if not layout.is_team(role):
            continue
        new = roles.get(role) or known.get(role)
        if new is None:
            msg = f"{role} is delegated, but its first metadata is not in the change"
            raise PublishError(msg)
        verify(targets, role, new.metadata)
        check_layout(role, new.metadata.signed, targets)
        for name in bins_of(new.metadata.signed):
            holder = roles.get(name) or known.get(name)
            if holder is None:
                msg = f"{role} spreads its versions over bins, but {name} is not in the change"
                raise PublishError(msg)
            verify(new.metadata.signed, name, holder.metadata)
            check_layout(name, holder.metadata.signed, targets, team=new.metadata.signed)
        if base is None or role not in known:
            if new.version != 1 or new.targets:
                raise StaleMetadataError(role, expected_version=1, seen_version=new.version)
        else:
            changed = {name: roles[name] for name in (role, *bins_of(new.metadata.signed)) if name in roles}
            check_numbers(base, changed)
            check_growth(base, role, changed, may_add=False)
    strange = [
        role
        for role in roles
        if role != "targets"
        and not (role in delegations(targets) and layout.is_team(role))
        and not layout.bin_owner(role)
    ]
    if strange:
        raise MissingTargetError(strange[0])


def _is_there(base: TrustedState | None, role: str, metadata: Metadata[Targets]) -> bool:
    if base is None:
        return False
    if role == "targets":
        return bool(metadata.signed == base.targets)
    return role in base.roles and bool(metadata.signed == base.roles[role].metadata.signed)


def _holds(root: Root, role: str, signed: SignedRole) -> bool:
    try:
        verify(root, role, signed.metadata)
    except MetadataError:
        return False
    return True


def _one_signs(role: str, threshold: int) -> None:
    if threshold != 1:
        msg = f"{role}: one key signs at a time, got the threshold {threshold}"
        raise PublishError(msg)


def _online_roles(verified: VerifiedRequest, keys: OnlineKeys, now_s: int) -> dict[str, SignedRole]:
    """Return policy and halt, signed by the server's keys where those that signed them count no longer."""
    signed = {}
    for role in ONLINE_PATHS:
        current = None if verified.base is None else verified.base.roles[role]
        if current is not None and _holds_delegated(verified.targets, role, current):
            continue
        targets = {} if current is None else dict(current.targets)
        version = 1 if current is None else current.version + 1
        metadata = Metadata(Targets(version=version, expires=utc(now_s + layout.LIFETIMES_S[role]), targets=targets))
        sign_metadata(role, metadata, getattr(keys, role))
        signed[role] = SignedRole(metadata, metadata.to_bytes())
    return signed


def _holds_delegated(targets: Targets, role: str, signed: SignedRole) -> bool:
    try:
        verify(targets, role, signed.metadata)
    except MetadataError:
        return False
    return True


def _needs_resigning(base: TrustedState, root: Root) -> bool:
    return any(set(base.root.roles[role].keyids) != set(root.roles[role].keyids) for role in ("snapshot", "timestamp"))


def _cosigners(before: Root, keys: OnlineKeys, old_keys: Sequence[Signer]) -> dict[str, tuple[Signer, ...]] | None:
    """Return who signs snapshot and timestamp besides, so that they hold under both roots; None where a key is lost."""
    cosigners: dict[str, tuple[Signer, ...]] = {}
    for role in ("snapshot", "timestamp"):
        if getattr(keys, role).public_key.keyid in before.roles[role].keyids:
            continue
        fitting = [signer for signer in old_keys if signer.public_key.keyid in before.roles[role].keyids]
        if not fitting:
            return None
        cosigners[role] = (fitting[0],)
    return cosigners


def _write_root(folder: Path, verified: VerifiedRequest, files: Disk) -> None:
    metadata = verified.root_metadata
    if metadata is None:
        return
    path = folder / layout.metadata_file("root", metadata.signed.version)
    try:
        replace_file(files, path, metadata.to_bytes())
    except OSError as error:
        raise StorageError(str(error.filename or path), error.strerror or str(error)) from error
