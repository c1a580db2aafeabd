"""Checks what a team signed against every rule, before any of it is written into the tree.

1.  signed by the key that the tree delegates to that team, not expired, within its size;
2.  its version follows the current one, or it is the current one;
3.  every published target is there unchanged: versions are immutable; no minimum version falls, and no reinstatement is
    withdrawn;
4.  every target lies under the team's delegation and in its own bin, and the role delegates to its bins alone;
5.  every new manifest was sent, has the signed digest and length, and speaks of the version at its path and the team;
6.  every program and card that it names is in the blob store with its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alcove.registry.errors import (
    ExpiredMetadataError,
    IntegrityError,
    MetadataError,
    MissingBlobError,
    MissingTargetError,
    PublishError,
    SignatureError,
    StaleMetadataError,
    VersionExistsError,
    WrongSubjectError,
)
from alcove.registry.hash_bins import TeamMetadata
from alcove.registry.layout import TEAM_PREFIX, is_team, team_role
from alcove.registry.manifest import Manifest, manifest_path
from alcove.registry.min_versions import find_lowered, is_below, parse_min_versions
from alcove.registry.reinstatements import find_withdrawn, parse_reinstatements
from alcove.registry.rules import check_role, delegations
from alcove.registry.signed_time import utc
from alcove.registry.trust import SignedRole, bins_of, verify
from tuf.api.exceptions import LengthOrHashMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alcove.registry._tuf import Metadata, TargetFile, Targets
    from alcove.registry.blobs import BlobStore
    from alcove.registry.policy.document import Policy
    from alcove.registry.trust import TrustedState

TEAM_ADVICE: Final = "alcove keys add-team makes one; is this the team's name?"
_DIGESTS: Final = {"sha256"}


def find_signer(state: TrustedState, metadata: Metadata[Targets], team: str | None) -> str:
    """Return the team role whose key signed `metadata`.

    Args:
        state: names the teams and their keys.
        metadata: what was signed.
        team: the only acceptable team, or None for any.

    Raises:
        MissingTargetError: `team` is not in the tree.
        SignatureError: none of them signed.
    """
    roles = [role for role in delegations(state.targets) if role.startswith(TEAM_PREFIX)]
    if team is not None:
        if team_role(team) not in roles:
            raise MissingTargetError(team_role(team), TEAM_ADVICE)
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
    state: TrustedState, signed: bytes, *, now_s: int, team: str | None
) -> tuple[str, dict[str, SignedRole]]:
    """Return the role that signed, and the new metadata of it and its bins; none where it is current (rules 1 to 4).

    Raises:
        RegistryError: as `Tree.accept_team_metadata` says for these rules.
    """
    update = TeamMetadata.parse(signed, None if team is None else team_role(team))
    role = _owner(state, update, team)
    current = state.roles[role]
    if update.owner is not None:
        verify(state.targets, role, update.owner)
    new_owner = current.metadata if update.owner is None else update.owner
    check_layout(role, new_owner.signed, state.targets)  # first: it bounds how many bins there are to be listed
    changed = {}
    for name, metadata in update.by_role(role).items():
        if name != role:
            _verify_bin(new_owner.signed, name, metadata)
        if name in state.roles and metadata.signed == state.roles[name].metadata.signed:
            continue
        changed[name] = SignedRole(metadata, update.bytes_of(name, role))
    for name, item in changed.items():
        new = item.metadata.signed
        if new.is_expired(utc(now_s)):
            raise ExpiredMetadataError(name, version=new.version, expired_at_s=int(new.expires.timestamp()))
    check_growth(state, role, changed, may_add=True)
    for name, item in changed.items():
        if name != role:
            check_layout(name, item.metadata.signed, state.targets, team=new_owner.signed)
    return role, changed


def check_growth(state: TrustedState, role: str, changed: Mapping[str, SignedRole], *, may_add: bool) -> None:
    """Check that a team's next metadata follows the current one and loses nothing (rules 2 and 3).

    Args:
        state: what is current.
        role: the team's role.
        changed: next metadata of the team or of some of its bins, by role.
        may_add: whether versions may be new.

    Raises:
        RegistryError: as `Tree.accept_team_metadata` says for these rules.
    """
    check_numbers(state, changed)  # first: what a cosigner has just added is not dropped, it was not known
    current = state.roles[role].metadata.signed
    owner = changed[role].metadata.signed if role in changed else current
    holders = {name: changed.get(name) or state.roles.get(name) for name in (role, *bins_of(owner))}
    missing = [name for name, holder in holders.items() if holder is None]
    if missing:
        msg = f"{role} spreads its versions over bins, but {missing[0]} was not sent"
        raise PublishError(msg)
    after = {
        path: target for holder in holders.values() if holder is not None for path, target in holder.targets.items()
    }
    before = dict(state.targets_of(role))
    for path, target in before.items():
        if path not in after:
            msg = f"{role} drops {path}; what was published stays"
            raise PublishError(msg)
        if after[path] != target:
            feature, _, name = path.partition("/")
            raise VersionExistsError(feature, name.removesuffix(".json"))
    if not may_add and len(after) > len(before):
        msg = f"{role}: a change of keys adds no version; push it afterwards"
        raise PublishError(msg)
    fallen = find_lowered(parse_min_versions(role, current), parse_min_versions(role, owner))
    if fallen is not None:
        msg = f"{role} lowers the minimum version of {fallen}; it never falls"
        raise PublishError(msg)
    back = find_withdrawn(parse_reinstatements(role, current), parse_reinstatements(role, owner))
    if back is not None:
        msg = f"{role} takes back that it reinstated {back}; the halt key halts a version again"
        raise PublishError(msg)


def check_numbers(state: TrustedState, changed: Mapping[str, SignedRole]) -> None:
    """Check that each role's next metadata has the next number.

    Raises:
        StaleMetadataError: it was signed on top of metadata that is no longer current.
    """
    for name, item in changed.items():
        known = state.snapshot.meta.get(f"{name}.json")
        expected = 1 if known is None else known.version + 1
        if item.version != expected:
            raise StaleMetadataError(name, expected_version=expected, seen_version=item.version)


def check_layout(role: str, signed: Targets, top: Targets, *, team: Targets | None = None) -> None:
    """Check that a team's role or bin says only what it may (rule 4, `rules.py`).

    Raises:
        PublishError: it delegates something else, holds versions beside its bins, or names what is not its own.
    """
    try:
        check_role(role, signed, top, team=team)
    except MetadataError as error:
        raise PublishError(error.problem) from None


def _owner(state: TrustedState, update: TeamMetadata, team: str | None) -> str:
    """Return the team role that an update is of."""
    if update.role is not None:
        if update.role not in delegations(state.targets) or not is_team(update.role):
            raise MissingTargetError(update.role, TEAM_ADVICE)
        if team is not None and team_role(team) != update.role:
            raise SignatureError(team_role(team), f"this is metadata of {update.role}")
        return update.role
    assert update.owner is not None  # noqa: S101 - one metadata without a name is the team's own
    return find_signer(state, update.owner, team)


def _verify_bin(team: Targets, name: str, metadata: Metadata[Targets]) -> None:
    if name not in bins_of(team):
        msg = f"{name} is none of the bins that the team delegates to"
        raise PublishError(msg)
    verify(team, name, metadata)


def check_manifests(
    state: TrustedState, role: str, changed: Mapping[str, SignedRole], manifests: Mapping[str, bytes], blobs: BlobStore
) -> tuple[Manifest, ...]:
    """Return the manifests of the new versions (rules 5 and 6).

    Raises:
        RegistryError: as `Tree.accept_team_metadata` says for these rules.
    """
    known = dict(state.targets_of(role))
    signed = {path: target for item in changed.values() for path, target in item.targets.items()}
    unsigned = sorted(manifests.keys() - signed.keys())
    if unsigned:
        msg = f"{role} does not sign {', '.join(unsigned)}"
        raise PublishError(msg)
    added = []
    for path, target in signed.items():
        if path in known:
            continue
        if path not in manifests:
            msg = f"{role} signs {path}, but the manifest was not sent"
            raise PublishError(msg)
        manifest = read_manifest(path, target, manifests[path], team=role.removeprefix(TEAM_PREFIX))
        check_blobs(manifest, blobs)
        added.append(manifest)
    return tuple(added)


def check_policy_versions(state: TrustedState, policy: Policy) -> None:
    """Check that a team has signed every version that `policy` names, and none is below the team's minimum version.

    Raises:
        PublishError: one is not, or is.
        MetadataError: a team's minimum versions are malformed.
    """
    for feature in policy.features:
        for ref in policy.versions(feature):
            path = manifest_path(feature, ref.version)
            role = state.role_for(path)
            target = state.find(path)
            if role is None or target is None or target.hashes["sha256"] != ref.manifest_sha256:
                msg = f"no team has signed {feature} {ref.version} with manifest {ref.manifest_sha256}"
                raise PublishError(msg)
            min_version = parse_min_versions(role, state.roles[role].metadata.signed).get(feature)
            if is_below(ref.version, min_version):
                msg = f"{feature} {ref.version} is below the team's minimum version {min_version}"
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
