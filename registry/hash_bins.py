"""Spreads a team's versions over hash bins, so that a device reads only the bin that may hold its version.

Up to 64 versions stand in the team's own list.  With the 65th the list is spread over hash bins (TAP 15), which the
team's role delegates to under a prefix of its own, because one metadata cannot hold both named roles and bins::

    targets ─▶ team-text: 64 versions                 targets ─▶ team-text: minimum versions, reinstatements, no version
                                          65th ─▶                 └─▶ bin-text-0 … bin-text-3: about 17 versions each
                                         257th ─▶                 └─▶ bin-text-0 … bin-text-f

A bin is signed with the team's keys, like the list.  Spreading signs the team and every bin at once, so that a device
finds all versions before it and after it.  The bins of before stay in the snapshot, which never forgets a role.

Between a team and the server several roles travel as one `SigningRequest` without anything current; one alone as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alcove.registry import limits
from alcove.registry._tuf import Delegations, Metadata, SuccinctRoles, Targets
from alcove.registry.errors import DocumentError, DocumentTooLargeError, MetadataError
from alcove.registry.layout import bin_owner, bin_prefix, is_team
from alcove.registry.rules import succinct_of
from alcove.registry.signing_request import SigningRequest
from alcove.registry.trust import bins_of, parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.registry._tuf import Key, TargetFile
    from alcove.registry.trust import SignedRole

_MARK: Final = b'{"current":'  # canonical changes begin so; metadata never does


@dataclass(frozen=True, slots=True)
class TeamMetadata:
    """Metadata of one team, or of some of its roles.

    Attributes:
        role: the team's role; None where one metadata came alone, which does not say whose it is.
        owner: metadata of the team itself, or None where only bins came.
        bins: metadata of its bins by role.
        data: the bytes of `owner` where it came alone, so that they are kept as they were signed.
    """

    role: str | None
    owner: Metadata[Targets] | None
    bins: Mapping[str, Metadata[Targets]]
    data: bytes | None = None

    @classmethod
    def parse(cls, data: bytes, role: str | None) -> TeamMetadata:
        """Return what a team signed, or what the server says is current; signatures are not judged yet.

        Args:
            data: untrusted bytes.
            role: the team's role, for errors; None where it is not known.

        Raises:
            DocumentTooLargeError: more than is read; nothing was parsed.
            DocumentError, MetadataError: not metadata of one team.
        """
        if not data.startswith(_MARK):
            return cls(None, parse(Targets, role or "team", data, limits.TARGETS_METADATA_MAX_BYTES), {}, data)
        change = SigningRequest.parse(data)
        owners = {name if is_team(name) else bin_owner(name) for name in change.roles}
        if len(owners) != 1 or "" in owners or change.current:
            raise DocumentError("team metadata", "roles", f"holds roles of {len(owners)} teams, not of one")
        (owner,) = owners
        parts = {name: metadata for name, metadata in change.roles.items() if isinstance(metadata.signed, Targets)}
        return cls(owner, parts.pop(owner, None), parts)

    def by_role(self, role: str) -> dict[str, Metadata[Targets]]:
        """Return every metadata by the name of its role, the team itself first."""
        return ({} if self.owner is None else {role: self.owner}) | dict(self.bins)

    def bytes_of(self, name: str, role: str) -> bytes:
        """Return the bytes to publish for one role.

        Raises:
            DocumentTooLargeError: more than a device reads.
        """
        data = self.data if self.data is not None and name == role else self.by_role(role)[name].to_bytes()
        if len(data) > limits.TARGETS_METADATA_MAX_BYTES:
            raise DocumentTooLargeError(name, limit_bytes=limits.TARGETS_METADATA_MAX_BYTES, size_bytes=len(data))
        return data


def team_bytes(role: str, roles: Mapping[str, SignedRole]) -> bytes:
    """Return what the server tells a team is current: its role, and its bins where it has any."""
    names = (role, *bins_of(roles[role].metadata.signed))
    if len(names) == 1:
        return roles[role].data
    return SigningRequest({name: roles[name].metadata for name in names}).to_bytes()


class HashBins:
    """The versions of one team, to which one may be added; nothing is signed here.

    Attributes:
        role: the team's role.
        owner: the team's own metadata.
        bins: its bins.
        changed: names of the roles that are not as they were.
    """

    def __init__(self, role: str, owner: Targets, bins: Mapping[str, Targets]) -> None:
        """Begin with what is current.

        Raises:
            MetadataError: bins that the team delegates to are not there, or are not its own.
        """
        missing = sorted(set(bins_of(owner)) ^ set(bins))
        succinct = succinct_of(owner)
        if missing or (succinct is not None and succinct.name_prefix != bin_prefix(role)):
            raise MetadataError(role, f"its bins are not whole: {', '.join(missing[:3]) or 'a foreign prefix'}")
        self.role = role
        self.owner = owner
        self.bins = dict(bins)
        self.changed: set[str] = set()

    def find(self, path: str) -> TargetFile | None:
        """Return the target at a path, or None."""
        return self._holder(path)[1].targets.get(path)

    def add(self, path: str, target: TargetFile, keys: Mapping[str, Key], threshold: int = 1) -> None:
        """Add a version, and spread the versions where there are too many for the bins that there are.

        Args:
            path: of the manifest.
            target: its size and digest.
            keys: the team's keys by id; bins are delegated to them.
            threshold: how many of them sign.
        """
        name, holder = self._holder(path)
        holder.targets[path] = target
        self.changed.add(name)
        count = len(self.owner.targets) + sum(len(one.targets) for one in self.bins.values())
        bits = _bits_for(count)
        succinct = succinct_of(self.owner)
        if bits > (0 if succinct is None else succinct.bit_length):
            self._rebalance(bits, keys, threshold)

    def _holder(self, path: str) -> tuple[str, Targets]:
        succinct = succinct_of(self.owner)
        if succinct is None:
            return self.role, self.owner
        name = succinct.get_role_for_target(path)
        return name, self.bins[name]

    def _rebalance(self, bits: int, keys: Mapping[str, Key], threshold: int) -> None:
        everything = dict(self.owner.targets)
        for holder in self.bins.values():
            everything |= holder.targets
        succinct = SuccinctRoles(list(keys), threshold, bits, bin_prefix(self.role))
        self.owner.targets.clear()
        self.owner.delegations = Delegations(keys=dict(keys), roles=None, succinct_roles=succinct)
        # A name that stays keeps its number; one that is new begins at 1 when it is signed.
        before = self.bins
        self.bins = {name: before.get(name) or Targets() for name in succinct.get_roles()}
        for name, holder in self.bins.items():
            holder.targets = {}
            if name not in before:
                holder.version = 0
        for path, target in everything.items():
            self.bins[succinct.get_role_for_target(path)].targets[path] = target
        self.changed = {self.role, *self.bins}


def _bits_for(count: int) -> int:
    """Return how many bits of a path's digest tell bins apart, 0 for none: at most 64 versions in a bin on average."""
    bits = 0
    while bits < limits.BIN_BITS_MAX and count > limits.BIN_VERSIONS << bits:
        bits += limits.BIN_BITS_STEP
    return bits
