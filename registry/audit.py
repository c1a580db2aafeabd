"""Checks that every file of a tree is what was signed, for `alcove registry check`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alcove.registry import layout, limits
from alcove.registry.errors import ExpiredMetadataError, PublishError, RegistryError, WrongSubjectError
from alcove.registry.policy.document import halt_from_bytes, policy_from_bytes
from alcove.registry.rules import delegations
from alcove.registry.signed_time import utc
from alcove.registry.team_verification import check_policy_versions, read_manifest
from alcove.registry.trust import read_state, read_target

if TYPE_CHECKING:
    from pathlib import Path

    from alcove.registry._tuf import Signed, TargetFile
    from alcove.registry.blobs import BlobStore
    from alcove.registry.trust import TrustedState


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """One thing that is wrong.

    Attributes:
        thing: the role, target path or blob.
        error: what reading it raised.
    """

    thing: str
    error: RegistryError


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What was proved, and what could not be.

    Attributes:
        role_count, target_count, blob_count: how many were read and proved.
        problems: empty for a sound tree.
    """

    role_count: int
    target_count: int
    blob_count: int
    problems: tuple[AuditProblem, ...]

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


class _Audit:
    """Continues after a fault, so that one report names them all."""

    def __init__(self, folder: Path, blobs: BlobStore, state: TrustedState) -> None:
        self.folder = folder
        self.blobs = blobs
        self.state = state
        self.target_count = 0
        self.proved_blobs: set[str] = set()
        self.problems: list[AuditProblem] = []

    def check_dates(self, now_s: int) -> None:
        state = self.state
        signed: dict[str, Signed] = {"root": state.root, "timestamp": state.timestamp, "snapshot": state.snapshot}
        signed |= {"targets": state.targets} | {name: role.metadata.signed for name, role in state.roles.items()}
        for role, what in signed.items():
            if what.is_expired(utc(now_s)):
                error = ExpiredMetadataError(role, version=what.version, expired_at_s=int(what.expires.timestamp()))
                self.problems.append(AuditProblem(role, error))

    def check_targets(self) -> None:
        for role, delegation in delegations(self.state.targets).items():
            for path, target in self.state.targets_of(role):
                try:
                    if not delegation.is_delegated_path(path):
                        msg = f"{role} may not publish {path}"
                        raise PublishError(msg)
                    self._check_target(role, path, target)
                    self.target_count += 1
                except RegistryError as error:
                    self.problems.append(AuditProblem(path, error))

    def _check_target(self, role: str, path: str, target: TargetFile) -> None:
        app = path.partition("/")[2].removesuffix(".json")
        if role == "halt":
            halt = halt_from_bytes(read_target(self.folder, path, target, limits.HALT_MAX_BYTES))
            _same_app("halt", app, halt.app)
        elif role == "policy":
            policy = policy_from_bytes(read_target(self.folder, path, target, limits.POLICY_MAX_BYTES))
            _same_app("policy", app, policy.app)
            check_policy_versions(self.state, policy)
        else:
            data = read_target(self.folder, path, target, limits.MANIFEST_MAX_BYTES)
            manifest = read_manifest(path, target, data, team=role.removeprefix(layout.TEAM_PREFIX))
            for sha256 in manifest.blobs():
                self._check_blob(sha256)

    def _check_blob(self, sha256: str) -> None:
        if sha256 in self.proved_blobs:
            return
        try:
            self.blobs.get(sha256)
            self.proved_blobs.add(sha256)
        except RegistryError as error:
            self.problems.append(AuditProblem(f"{layout.BLOBS}/{sha256}", error))


def _same_app(document: str, app: str, seen: str) -> None:
    if app != seen:
        raise WrongSubjectError(document, field="app", expected=app, seen=seen)


def audit_repository(folder: Path, blobs: BlobStore, *, now_s: int) -> AuditReport:
    """Return what could be proved of the tree in `folder`, reading every file that a client can reach.

    Args:
        folder: where the tree lies.
        blobs: its programs and cards; each is hashed.
        now_s: seconds since 1970 by which dates are judged.
    """
    try:
        state = read_state(folder)
    except RegistryError as error:
        return AuditReport(0, 0, 0, (AuditProblem(layout.METADATA, error),))
    inspection = _Audit(folder, blobs, state)
    inspection.check_dates(now_s)
    inspection.check_targets()
    return AuditReport(
        role_count=len(state.roles) + 4,  # root, targets, snapshot, timestamp
        target_count=inspection.target_count,
        blob_count=len(inspection.proved_blobs),
        problems=tuple(inspection.problems),
    )
