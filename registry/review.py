"""May what a team signed become part of the tree?  Every rule is checked here, before anything is written.

1.  signed by the key that the tree delegates to that team, not expired, within its size;
2.  its version follows the current one, or its bytes are the current ones;
3.  every published target is there unchanged: versions are immutable; and no floor falls (`floors.py`);
4.  every target lies under the team's delegation, and the role delegates nothing further;
5.  every new manifest was sent, has the signed digest and length, and speaks of the version at its path and the team;
6.  every program and card that it names is in the blob store with its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alcove.registry import limits
from alcove.registry._tuf import Targets
from alcove.registry.clock import utc
from alcove.registry.errors import (
    ExpiredMetadata,
    IntegrityError,
    MissingBlobError,
    MissingTarget,
    PublishError,
    SignatureError,
    StaleMetadataError,
    VersionExists,
    WrongSubjectError,
)
from alcove.registry.floors import floors, is_below, lowered
from alcove.registry.layout import TEAM_PREFIX, team_role
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.trust import delegations, parse, verify
from tuf.api.exceptions import LengthOrHashMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.registry._tuf import Metadata, TargetFile
    from alcove.registry.blobs import BlobStore
    from alcove.registry.policy.document import Policy
    from alcove.registry.trust import TreeState

_DIGESTS: Final = {"sha256"}


def find_signer(state: TreeState, metadata: Metadata[Targets], team: str | None) -> str:
    """Return the team role whose key signed `metadata`.

    Args:
        state: names the teams and their keys.
        metadata: what was signed.
        team: the only acceptable team, or None for any.

    Raises:
        MissingTarget: `team` is not in the tree.
        SignatureError: none of them signed.
    """
    roles = [role for role in delegations(state.targets) if role.startswith(TEAM_PREFIX)]
    if team is not None:
        if team_role(team) not in roles:
            raise MissingTarget(team_role(team))
        verify(state.targets, team_role(team), metadata)
        return team_role(team)
    for role in roles:
        try:
            verify(state.targets, role, metadata)
        except SignatureError:
            continue
        return role
    raise SignatureError("", "signed by no team of this tree")


def check_team_metadata(
    state: TreeState, signed: bytes, *, now_s: int, team: str | None
) -> tuple[str, Metadata[Targets] | None]:
    """Return the role that signed, and its new metadata or None where the bytes are the current ones (rules 1 to 4).

    Raises:
        RegistryError: as `Tree.accept_team_metadata` says for these rules.
    """
    metadata = parse(Targets, "team", signed, limits.TARGETS_METADATA_MAX_BYTES)
    role = find_signer(state, metadata, team)
    current = state.roles[role]
    if signed == current.data:
        return role, None
    new = metadata.signed
    if new.is_expired(utc(now_s)):
        raise ExpiredMetadata(role, version=new.version, expired_at_s=int(new.expires.timestamp()))
    for path, target in current.targets.items():
        if path not in new.targets:
            msg = f"{role} drops {path}; what was published stays"
            raise PublishError(msg)
        if new.targets[path] != target:
            feature, _, name = path.partition("/")
            raise VersionExists(feature, name.removesuffix(".json"))
    if new.version != current.version + 1:
        raise StaleMetadataError(role, expected_version=current.version + 1, seen_version=new.version)
    fallen = lowered(floors(role, current.metadata.signed), floors(role, new))
    if fallen is not None:
        msg = f"{role} lowers the floor of {fallen}; it never falls"
        raise PublishError(msg)
    if new.delegations is not None:
        msg = f"{role} delegates further; a team signs its versions itself"
        raise PublishError(msg)
    delegation = delegations(state.targets)[role]
    for path in new.targets:
        if not delegation.is_delegated_path(path):
            msg = f"{role} may not publish {path}; it owns {', '.join(delegation.paths or ())}"
            raise PublishError(msg)
    return role, metadata


def check_manifests(
    state: TreeState, role: str, metadata: Metadata[Targets], manifests: Mapping[str, bytes], blobs: BlobStore
) -> tuple[Manifest, ...]:
    """Return the manifests of the new versions (rules 5 and 6).

    Raises:
        RegistryError: as `Tree.accept_team_metadata` says for these rules.
    """
    known = state.roles[role].targets
    unsigned = sorted(manifests.keys() - metadata.signed.targets.keys())
    if unsigned:
        msg = f"{role} does not sign {', '.join(unsigned)}"
        raise PublishError(msg)
    added = []
    for path, target in metadata.signed.targets.items():
        if path in known:
            continue
        if path not in manifests:
            msg = f"{role} signs {path}, but the manifest was not sent"
            raise PublishError(msg)
        manifest = read_manifest(path, target, manifests[path], team=role.removeprefix(TEAM_PREFIX))
        check_blobs(manifest, blobs)
        added.append(manifest)
    return tuple(added)


def check_policy_versions(state: TreeState, policy: Policy) -> None:
    """Check that a team has signed every version that `policy` names, and none is below the team's floor.

    Raises:
        PublishError: one is not, or is.
        MetadataError: a team's floors are malformed.
    """
    for feature, rules in policy.features.items():
        for ref in rules.versions():
            path = manifest_path(feature, ref.version)
            role = state.role_for(path)
            target = None if role is None else state.roles[role].targets.get(path)
            if role is None or target is None or target.hashes["sha256"] != ref.manifest_sha256:
                msg = f"no team has signed {feature} {ref.version} with manifest {ref.manifest_sha256}"
                raise PublishError(msg)
            floor = floors(role, state.roles[role].metadata.signed).get(feature)
            if is_below(ref.version, floor):
                msg = f"{feature} {ref.version} is below the team's floor {floor}"
                raise PublishError(msg)


def read_manifest(path: str, target: TargetFile, data: bytes, *, team: str) -> Manifest:
    """Return the manifest after proving its bytes and that it speaks of its place in the tree.

    Raises:
        IntegrityError: `data` is not what was signed.
        DocumentError: not the canonical encoding of an acceptable manifest.
        WrongSubjectError: it speaks of another feature, version or team.
    """
    if target.hashes.keys() != _DIGESTS:
        msg = f"{path} must be signed by its SHA-256 alone, got {', '.join(sorted(target.hashes))}"
        raise PublishError(msg)
    try:
        target.verify_length_and_hashes(data)
    except LengthOrHashMismatchError as error:
        raise IntegrityError(path, expected=target.hashes["sha256"], seen=str(error)) from None
    manifest = Manifest.from_bytes(data)
    if manifest.path != path:
        raise WrongSubjectError("manifest", field="feature and version", expected=path, seen=manifest.path)
    if manifest.team != team:
        raise WrongSubjectError("manifest", field="team", expected=team, seen=manifest.team)
    return manifest


def check_blobs(manifest: Manifest, blobs: BlobStore) -> None:
    """Check that every file the manifest names is stored with its size.

    Raises:
        MissingBlobError: one is absent.
        IntegrityError: one has another size.
        StorageError: the store failed.
    """
    for sha256, size_bytes in manifest.blobs().items():
        seen = blobs.size_bytes(sha256)
        if seen is None:
            raise MissingBlobError(f"{manifest.feature} {manifest.version}", sha256)
        if seen != size_bytes:
            raise IntegrityError(f"blob {sha256}", expected=f"{size_bytes} bytes", seen=f"{seen} bytes")
