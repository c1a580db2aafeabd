"""Publishes policies and halts with the server's own keys, and renews signatures before they expire.

These keys choose (policy), stop (halt) and date (snapshot, timestamp); each rule that a document of theirs must keep
is here, apart from how the tree of one folder is locked and read (`repository.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.registry import layout
from alcove.registry._tuf import TargetFile
from alcove.registry.errors import PublishError, StaleMetadataError
from alcove.registry.reinstatements import parse_reinstatements, restores_only_reinstated
from alcove.registry.rules import delegations
from alcove.registry.signed_time import utc
from alcove.registry.trust import online_trust

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alcove.registry._tuf import Signed
    from alcove.registry.keys import OnlineKeys
    from alcove.registry.metadata_writer import MetadataWriter
    from alcove.registry.policy.document import Halt, Policy
    from alcove.registry.reinstatements import Reinstatement
    from alcove.registry.trust import TrustedState


@dataclass(frozen=True, slots=True)
class RefreshResult:
    """What `refresh` did.

    Attributes:
        renewed: roles signed again.
        expiring: roles that a person has to renew within 30 days, and when they expire (seconds since 1970).
    """

    renewed: tuple[str, ...]
    expiring: Mapping[str, int]


def check_trusted(keys: OnlineKeys, trusted: Mapping[str, Sequence[str]]) -> None:
    """Check that what these keys sign would be accepted.

    Raises:
        PublishError: a key is another one than the tree trusts: it was rotated, and this process holds the old one.
    """
    for role, keyids in trusted.items():
        keyid = getattr(keys, role).public_key.keyid
        if keyid not in keyids:
            msg = f"the key of {role} here, {keyid}, is not the one that the tree trusts; load the new one"
            raise PublishError(msg)


def reinstatements_by_feature(state: TrustedState) -> dict[str, tuple[Reinstatement, ...]]:
    """Return the reinstatements of the team that owns each feature.

    Raises:
        MetadataError: a team's reinstatements are malformed.
    """
    found: dict[str, tuple[Reinstatement, ...]] = {}
    for role, delegated in delegations(state.targets).items():
        if layout.is_team(role):
            own = parse_reinstatements(role, state.roles[role].metadata.signed)
            found |= {path.partition("/")[0]: own for path in delegated.paths or ()}
    return found


def check_online(state: TrustedState, writer: MetadataWriter) -> None:
    """Check that what this server signs would be accepted.

    Raises:
        PublishError: as `check_trusted`.
    """
    check_trusted(writer.keys, online_trust(state.root, state.targets))


def publish_document(writer: MetadataWriter, state: TrustedState, role: str, path: str, data: bytes) -> None:
    """Publish a policy or a halt at its path, in the place of the one before.

    Raises:
        StorageError, SigningError, DocumentTooLargeError: as `MetadataWriter.publish`.
    """
    current = state.roles[role]
    targets = current.targets | {path: TargetFile.from_data(path, data, ["sha256"])}
    writer.publish(
        targets={path: data},
        roles={role: writer.next_role(role, current, targets)},
        snapshot=state.snapshot,
        timestamp=state.timestamp,
    )


def check_app(document: str, app: str, seen: str) -> None:
    """Check that a document is for the app under whose name it is published.

    Raises:
        PublishError: it is another's.
    """
    if app != seen:
        msg = f"this {document} is for the app {seen!r}, not {app!r}"
        raise PublishError(msg)


def check_serial(path: str, current: Policy | Halt | None, new: Policy | Halt) -> None:
    """Check that the serial number rises.

    Raises:
        StaleMetadataError: it does not.
    """
    if current is not None and new.serial <= current.serial:
        raise StaleMetadataError(path, expected_version=current.serial + 1, seen_version=new.serial)


def check_halted(current: Halt | None, new: Halt, state: TrustedState) -> None:
    """Check that a halt takes away all that the one before it did, except for what teams have reinstated.

    Raises:
        PublishError: it gives something back.
        MetadataError: a team's reinstatements are malformed.
    """
    if current is not None and not restores_only_reinstated(current, new, reinstatements_by_feature(state)):
        msg = f"the halt of {new.app} must name again all that is halted or frozen; the halt key reinstates nothing"
        raise PublishError(msg)


def renew(state: TrustedState, writer: MetadataWriter) -> tuple[str, ...]:
    """Sign again what the online keys sign and what has less than half of its life left; return those roles.

    Raises:
        StorageError, SigningError, DocumentTooLargeError: as `MetadataWriter.publish`; repeating is safe.
    """
    now_s = writer.now_s
    renewed = {
        role: writer.next_role(role, state.roles[role], state.roles[role].targets)
        for role in ("policy", "halt")
        if _is_half_spent(role, state.roles[role].metadata.signed, now_s)
    }
    if renewed or _is_half_spent("snapshot", state.snapshot, now_s):
        writer.publish(targets={}, roles=renewed, snapshot=state.snapshot, timestamp=state.timestamp)
        return (*renewed, "snapshot", "timestamp")
    if _is_half_spent("timestamp", state.timestamp, now_s):
        writer.restamp(state.timestamp)
        return ("timestamp",)
    return ()


def list_expiring(state: TrustedState, now_s: int) -> dict[str, int]:
    """Return the roles that a person has to renew within 30 days, and when they expire (seconds since 1970)."""
    by_people: dict[str, Signed] = {"root": state.root, "targets": state.targets}
    by_people |= {
        role: signed.metadata.signed for role, signed in state.roles.items() if role not in ("policy", "halt")
    }
    moments = {role: int(signed.expires.timestamp()) for role, signed in by_people.items()}
    return {role: expires_s for role, expires_s in moments.items() if expires_s < now_s + layout.WARNING_S}


def _is_half_spent(role: str, signed: Signed, now_s: int) -> bool:
    return bool(signed.expires < utc(now_s + layout.LIFETIMES_S[role] // 2))
