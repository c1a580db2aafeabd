"""Defines the file in which a change travels between the holders of keys until enough of them have signed.

::

    drafted ─▶ signed by some ─▶ signed by enough ─▶ accepted by the tree (`request_verification.py`)
                └─ by each on a machine of its own, one after another or each on a copy: copies are merged

A change holds the next metadata of every role that has to change together, and beside them the metadata that is
current (root, targets, teams), so that who signs sees what would be different without asking any server.  A version
that several of a team have to sign travels likewise, with its manifest; it is published, not accepted.

Invariants:

- C1  What is signed does not change: a draft with a signature is never edited, only signed or thrown away.
- C2  A key signs the roles that name it, before or after the change, and nothing else.
- C3  A change proves nothing by itself: the tree judges by its own root, never by what the change calls current.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from alcove.registry import limits
from alcove.registry._tuf import Metadata, Root, Targets
from alcove.registry.canonical import canonical_json
from alcove.registry.errors import DocumentError, DocumentTooLargeError, KeyFileError, PublishError, SignatureError
from alcove.registry.layout import bin_owner, is_team
from securesystemslib.exceptions import UnverifiedSignatureError
from tuf.api.exceptions import UnsignedMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alcove.registry._tuf import Key, Signer

_KIND: Final = "change"
_FORMAT: Final = 1
Anything = Metadata[Root] | Metadata[Targets]


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """What one role still lacks.

    Attributes:
        role: whose next metadata it is.
        rule: who says so: "before", the keys that are trusted now, or "after", those that the change names.
        have: valid signatures.
        threshold: as many are needed.
        waiting: ids of the keys that may still sign.
    """

    role: str
    rule: str
    have: int
    threshold: int
    waiting: tuple[str, ...]

    @property
    def is_met(self) -> bool:
        """Whether enough have signed."""
        return self.have >= self.threshold


@dataclass(frozen=True, slots=True)
class SigningRequest:
    """Next metadata of some roles, and what is current.

    Attributes:
        roles: next metadata by role: "root", "targets", teams and their bins; with the signatures so far.
        current: current metadata of the roles that delegate to those; empty at the ceremony.
        manifests: what a version that is added consists of, canonical JSON by path; empty in all other changes.
    """

    roles: Mapping[str, Anything]
    current: Mapping[str, Anything] = field(default_factory=dict)
    manifests: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the file's bytes."""
        parts = {
            name: {role: metadata.to_dict() for role, metadata in sorted(part.items())}
            for name, part in (("current", self.current), ("roles", self.roles))
        }
        more = {"manifests": dict(self.manifests)} if self.manifests else {}
        return canonical_json({"format": _FORMAT, "kind": _KIND, **parts, **more})

    @classmethod
    def parse(cls, data: bytes) -> SigningRequest:
        """Return the change in a file; nothing in it is judged yet.

        Raises:
            DocumentTooLargeError: more than `limits.SIGNING_REQUEST_MAX_BYTES`; nothing was parsed.
            DocumentError: no change, or metadata of another kind than its role has.
        """
        if len(data) > limits.SIGNING_REQUEST_MAX_BYTES:
            raise DocumentTooLargeError(_KIND, limit_bytes=limits.SIGNING_REQUEST_MAX_BYTES, size_bytes=len(data))
        try:
            fields = json.loads(data)
            if fields["format"] != _FORMAT or fields["kind"] != _KIND:
                raise DocumentError(_KIND, "format", f"expected {_FORMAT}, got {fields['format']!r}")  # noqa: TRY301
            manifests = {str(path): str(text) for path, text in fields.get("manifests", {}).items()}
            return cls(_read_roles(fields["roles"], "roles"), _read_roles(fields["current"], "current"), manifests)
        except DocumentError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DocumentError(_KIND, "", f"these bytes are no change: {type(error).__name__}: {error}") from None

    @property
    def is_signed(self) -> bool:
        """Whether anybody has signed anything of it."""
        return any(metadata.signatures for metadata in self.roles.values())

    def root(self) -> Root | None:
        """Return the root that will be trusted, or None where the change holds none."""
        metadata = self.roles.get("root")
        return metadata.signed if metadata is not None and isinstance(metadata.signed, Root) else None

    def targets(self) -> Targets | None:
        """Return the targets that will be trusted, or None where the change holds none."""
        return self._next("targets")

    def delegators(self, role: str) -> Iterator[tuple[str, Root | Targets]]:
        """Give who has a say in the signatures of `role`, each with its rule: "before" and "after".

        The root needs both thresholds, as TUF says.  Every other role needs what will be trusted; where the keys of
        the targets change, signatures by those before too let the tree move over without a moment of refusal.
        """
        if role == "root":
            delegators = [("before", self._current("root")), ("after", self.root())]
        elif role == "targets":
            delegators = [("after", self.root() or self._current("root"))]
        elif is_team(role):
            delegators = [("after", self.targets() or self._current("targets"))]
        else:
            owner = bin_owner(role)
            delegators = [("after", self._next(owner) or self._current(owner))]
        yield from ((rule, delegator) for rule, delegator in delegators if delegator is not None)

    def signature_status(self) -> tuple[SignatureStatus, ...]:
        """Return for each role and rule how far it is.

        Raises:
            DocumentError: the change names a role that nobody delegates to.
        """
        return tuple(
            self._signature_status(role, rule, delegator)
            for role in self.roles
            for rule, delegator in self.delegators(role)
        )

    def sign(self, signer: Signer) -> tuple[SigningRequest, tuple[str, ...]]:
        """Return the change with one signer's signatures, and the roles that it signed.

        Raises:
            PublishError: no role of this change names the key.
            KeyFileError: the key could not sign (a token that was pulled out, a service that did not answer).
            SignatureError: what came back is not a signature by this key.
        """
        key = signer.public_key
        mine = [role for role in self.roles if key.keyid in self._accepted_keyids(role)]
        if not mine:
            msg = f"no role of this change names the key {key.keyid}"
            raise PublishError(msg)
        roles = dict(self.roles)
        for role in mine:
            twin = _copy(roles[role])
            try:
                signature = twin.sign(signer, append=True)
            except UnsignedMetadataError as error:
                raise KeyFileError(key.keyid, f"does not sign: {error.__cause__ or error}") from error
            try:
                key.verify_signature(signature, twin.signed_bytes)
            except UnverifiedSignatureError:
                raise SignatureError(role, f"what came back is not a signature by {key.keyid}") from None
            roles[role] = twin
        return replace(self, roles=roles), tuple(mine)

    def merge(self, others: Sequence[SigningRequest]) -> SigningRequest:
        """Return the change with the signatures of all copies.

        Raises:
            PublishError: one is a copy of another change.
        """
        roles = {role: _copy(metadata) for role, metadata in self.roles.items()}
        for other in others:
            if other.roles.keys() != roles.keys():
                msg = f"these are different changes: of {', '.join(roles)}, and of {', '.join(other.roles)}"
                raise PublishError(msg)
            for role, metadata in other.roles.items():
                mine = roles[role]
                if metadata.signed_bytes != mine.signed_bytes:
                    msg = f"these are different changes: {role} is not the same in both"
                    raise PublishError(msg)
                for keyid, signature in metadata.signatures.items():
                    if keyid not in mine.signatures or not self._is_by(role, keyid, mine):
                        mine.signatures[keyid] = signature
        return replace(self, roles=roles)

    def find_added(self) -> dict[str, str]:
        """Return the SHA-256 of each manifest that teams would sign and, by the change's own word, do not sign yet."""
        before, after = (
            {path: digest for one in part.values() for path, digest in _versions(one)}
            for part in (self.current, self.roles)
        )
        return {path: digest for path, digest in sorted(after.items()) if before.get(path) != digest}

    def _signature_status(self, role: str, rule: str, delegator: Root | Targets) -> SignatureStatus:
        metadata = self.roles[role]
        try:
            result = delegator.get_verification_result(role, metadata.signed_bytes, metadata.signatures)
        except ValueError as error:
            raise DocumentError(_KIND, role, str(error)) from None
        return SignatureStatus(role, rule, len(result.signed), result.threshold, tuple(sorted(result.unsigned)))

    def _accepted_keyids(self, role: str) -> set[str]:
        wanted: set[str] = set()
        before = self._current("root")
        delegators = [delegator for _, delegator in self.delegators(role)]
        if role == "targets" and before is not None:
            delegators.append(before)
        for delegator in delegators:
            try:
                wanted.update(delegator.get_delegated_role(role).keyids)
            except ValueError as error:
                raise DocumentError(_KIND, role, str(error)) from None
        return wanted

    def _is_by(self, role: str, keyid: str, metadata: Anything) -> bool:
        for _, delegator in self.delegators(role):
            try:
                key: Key = delegator.get_key(keyid)
                key.verify_signature(metadata.signatures[keyid], metadata.signed_bytes)
            except (ValueError, UnverifiedSignatureError):
                continue
            return True
        return False

    def _next(self, role: str) -> Targets | None:
        metadata = self.roles.get(role)
        return metadata.signed if metadata is not None and isinstance(metadata.signed, Targets) else None

    def _current(self, role: str) -> Root | Targets | None:
        metadata = self.current.get(role)
        return None if metadata is None else metadata.signed


def _versions(metadata: Anything) -> Iterator[tuple[str, str]]:
    if isinstance(metadata.signed, Targets):
        yield from ((path, target.hashes.get("sha256", "")) for path, target in metadata.signed.targets.items())


def _copy(metadata: Anything) -> Anything:
    twin = copy.copy(metadata)
    twin.signatures = dict(metadata.signatures)
    return twin


def _read_roles(fields: dict[str, dict[str, object]], place: str) -> dict[str, Anything]:
    roles: dict[str, Anything] = {}
    for role, value in fields.items():
        metadata = Metadata.from_dict(value)
        kind = Root if role == "root" else Targets
        if not isinstance(metadata.signed, kind) or not (
            role in ("root", "targets") or is_team(role) or bin_owner(role)
        ):
            raise DocumentError(_KIND, f"{place}.{role}", f"no metadata of this role: {metadata.signed.type}")
        roles[role] = metadata
    return roles
