"""Summarizes a tree for people: who may sign what, who has, until when, and how large it is.  Pure.

The bins of a team are parts of it: a summary counts them with their team and names none.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from alcove.registry import layout
from alcove.registry.keys import OFFLINE_ROLES, ONLINE_ROLES
from alcove.registry.rules import delegations
from alcove.registry.trust import bins_of, find_signers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alcove.registry._tuf import DelegatedRole, Key, Signed
    from alcove.registry.trust import TrustedState

__all__ = ["Holder", "KeySummary", "RoleSummary", "TrustSummary", "renewal_of", "summarize_trust"]

_TOP: Final = ("root", "targets", "snapshot", "timestamp")


class Holder(StrEnum):
    """Who holds the keys of a role."""

    ONLINE = "online"
    OFFLINE = "offline"
    TEAM = "team"


@dataclass(frozen=True, slots=True)
class KeySummary:
    """A public key of a role: its TUF key id, its scheme, and whether it has signed what the tree has now."""

    key_id: str
    scheme: str
    has_signed: bool


@dataclass(frozen=True, slots=True)
class RoleSummary:
    """One role.

    Attributes:
        role: its name in the tree.
        holder: who holds its keys.
        threshold: number of keys that have to sign.
        keys: those that may.
        version: of its metadata.
        signed_at_s: when it was signed, seconds since 1970-01-01 UTC: its expiry less the usual life of the role, for
            metadata holds no other date.
        expires_at_s: when it expires; of a team with bins, the first of them.
        targets: number of documents that it names, its bins' included.
        target_bytes: their size in bytes.
        features: that it may speak about; (): it is no team.
    """

    role: str
    holder: Holder
    threshold: int
    keys: tuple[KeySummary, ...]
    version: int
    signed_at_s: int
    expires_at_s: int
    targets: int = 0
    target_bytes: int = 0
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrustSummary:
    """A tree.

    Attributes:
        roles: root, targets, snapshot, timestamp, policy, halt, then the teams by name.
        metadata_bytes: of all metadata that is valid now, but for the few hundred of the timestamp.
        snapshot_bytes: of the snapshot.
    """

    roles: tuple[RoleSummary, ...]
    metadata_bytes: int
    snapshot_bytes: int

    @property
    def targets(self) -> int:
        """Number of documents that all roles name."""
        return sum(one.targets for one in self.roles)

    @property
    def target_bytes(self) -> int:
        """Size of those documents in bytes."""
        return sum(one.target_bytes for one in self.roles)

    @property
    def versions(self) -> int:
        """Number of versions of all teams."""
        return sum(one.targets for one in self.roles if one.holder is Holder.TEAM)


def summarize_trust(state: TrustedState) -> TrustSummary:
    """Return the summary of a proved state."""
    signed: Mapping[str, Signed] = {
        "root": state.root,
        "targets": state.targets,
        "snapshot": state.snapshot,
        "timestamp": state.timestamp,
    }
    roles = [_summarize_top(state, role, signed[role]) for role in _TOP]
    named = delegations(state.targets)
    order = [*(role for role in ("policy", "halt") if role in named), *sorted(filter(layout.is_team, named))]
    roles += [_summarize_delegated(state, role, named[role]) for role in order]
    snapshot_bytes = state.timestamp.snapshot_meta.length or 0
    metadata_bytes = sum(link.length or 0 for link in state.snapshot.meta.values())
    return TrustSummary(tuple(roles), len(state.root_bytes) + snapshot_bytes + metadata_bytes, snapshot_bytes)


def renewal_of(role: str, holder: Holder) -> str:
    """Return the command by which people renew a role's signature; "": the server does it."""
    if holder is Holder.ONLINE:
        return ""
    return f"alcove keys renew {role}.change --data-dir DATA_DIR --role {role}"


def _summarize_top(state: TrustedState, role: str, signed: Signed) -> RoleSummary:
    held = state.root.roles[role]
    expires_at_s = int(signed.expires.timestamp())
    return RoleSummary(
        role=role,
        holder=_holder_of(role),
        threshold=held.threshold,
        keys=_keys(held.keyids, state.root.keys, state.signers[role]),
        version=signed.version,
        signed_at_s=_signed_at_s(role, expires_at_s),
        expires_at_s=expires_at_s,
    )


def _summarize_delegated(state: TrustedState, role: str, delegated: DelegatedRole) -> RoleSummary:
    owner = state.roles[role].metadata
    parts = [owner.signed, *(state.roles[name].metadata.signed for name in bins_of(owner.signed))]
    known = {} if state.targets.delegations is None else state.targets.delegations.keys
    expires_at_s = min(int(part.expires.timestamp()) for part in parts)
    sizes = [target.length for part in parts for target in part.targets.values()]
    is_team = layout.is_team(role)
    return RoleSummary(
        role=role,
        holder=_holder_of(role),
        threshold=delegated.threshold,
        keys=_keys(delegated.keyids, known, find_signers(state.targets, role, owner)),
        version=owner.signed.version,
        signed_at_s=_signed_at_s(role, int(owner.signed.expires.timestamp())),
        expires_at_s=expires_at_s,
        targets=len(sizes),
        target_bytes=sum(sizes),
        features=tuple(path.partition("/")[0] for path in delegated.paths or ()) if is_team else (),
    )


def _holder_of(role: str) -> Holder:
    if role in ONLINE_ROLES:
        return Holder.ONLINE
    return Holder.OFFLINE if role in OFFLINE_ROLES else Holder.TEAM


def _signed_at_s(role: str, expires_at_s: int) -> int:
    return expires_at_s - layout.LIFETIMES_S.get(role, layout.TEAM_LIFETIME_S)


def _keys(keyids: Iterable[str], known: Mapping[str, Key], signers: Sequence[str]) -> tuple[KeySummary, ...]:
    return tuple(KeySummary(keyid, known[keyid].scheme, keyid in signers) for keyid in keyids if keyid in known)
