"""Signs a team's own metadata, on its own machine, to add a version, raise a minimum version or reinstate a version.

Members of a team share its key or have one each; the signer takes as current what as many of the keys that the
caller names (its own, those of cosigners) have signed as the team's threshold asks for.  Where that is above 1 and the
keys are not all at hand, `draft_version` makes a change that is passed round.  Two who sign on top of the same metadata
cannot both be right: the tree takes the first, the second reads again and signs again (`StaleMetadataError`).
"""

from __future__ import annotations

import contextlib
import copy
from typing import TYPE_CHECKING

from alcove.registry import layout, limits
from alcove.registry._tuf import Metadata, TargetFile, Targets
from alcove.registry.errors import DocumentTooLargeError, PublishError, SignatureError, VersionExistsError
from alcove.registry.hash_bins import HashBins, TeamMetadata
from alcove.registry.layout import team_role
from alcove.registry.min_versions import FIELD, is_below, parse_min_versions
from alcove.registry.reinstatements import FIELD as LIFTS_FIELD
from alcove.registry.reinstatements import Reinstatement, parse_reinstatements
from alcove.registry.rules import succinct_of
from alcove.registry.signed_time import utc
from alcove.registry.signers import sign_metadata
from alcove.registry.signing_request import SigningRequest
from alcove.registry.trust import parse
from securesystemslib.exceptions import UnverifiedSignatureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alcove.registry._tuf import Key, Signer
    from alcove.registry.manifest import Manifest

_Metadata = Metadata[Targets]


def sign_version(
    current_team_metadata: bytes,
    manifest: Manifest,
    signer: Signer,
    expires_s: int,
    *,
    other_members: Sequence[Key] = (),
    cosigners: Sequence[Signer] = (),
    threshold: int = 1,
) -> bytes:
    """Return the team's next metadata: the current one and one version more.

    What the server says is current is accepted only with the team's own signature on it: otherwise a server could slip
    in versions of its own and have the team sign them.

    Args:
        current_team_metadata: as the server keeps it.
        manifest: of the new version.
        signer: the team's key, or this member's.
        expires_s: seconds since 1970 up to which the signature holds; a year ahead is usual.
        other_members: public keys of the team's other members, whose signatures are as good.
        cosigners: further keys of the team that are at hand; each signs.
        threshold: how many of the team's keys have to sign.

    Raises:
        VersionExistsError: the version is there with another manifest.
        SignatureError: the current metadata was not signed by as many of these keys.
        DocumentError, MetadataError: the current metadata is malformed.
        DocumentTooLargeError: the team has more versions than its bins hold.
    """
    role = team_role(manifest.team)
    signed = _with_version(current_team_metadata, manifest, (signer, *cosigners), expires_s, other_members, threshold)
    # Pushed before: the same bytes again, so that a push that lost its answer can be repeated.
    return current_team_metadata if signed is None else _pack(role, signed)


def draft_version(
    current_team_metadata: bytes,
    targets: bytes,
    manifest: Manifest,
    signers: Sequence[Signer],
    expires_s: int,
    *,
    other_members: Sequence[Key] = (),
    threshold: int = 1,
) -> SigningRequest | None:
    """Return what `sign_version` would, for cosigners to sign before it is published; None where it is published.

    Args:
        current_team_metadata: as the server keeps it.
        targets: who may sign for the team, as the server says; it is shown to those who sign, and judged by the tree.
        manifest: of the new version.
        signers: the keys that are at hand, at least one.
        expires_s: seconds since 1970 up to which the signatures hold.
        other_members: public keys of the team's other members.
        threshold: how many of the team's keys have to sign.

    Raises:
        RegistryError: as `sign_version`; or `targets` is not metadata.
    """
    role = team_role(manifest.team)
    signed = _with_version(current_team_metadata, manifest, signers, expires_s, other_members, threshold)
    if signed is None:
        return None
    known = parse(Targets, "targets", targets, limits.TARGETS_METADATA_MAX_BYTES)
    current = TeamMetadata.parse(current_team_metadata, role).by_role(role)
    return SigningRequest(signed, {"targets": known, **current}, {manifest.path: manifest.to_bytes().decode()})


def split_signed(change: SigningRequest) -> tuple[bytes, bytes]:
    """Return the team's next metadata and the manifest of a change that `draft_version` made, to be published.

    Raises:
        PublishError: it is no such change.
    """
    teams = {name if layout.is_team(name) else layout.bin_owner(name) for name in change.roles}
    parts = {name: metadata for name, metadata in change.roles.items() if isinstance(metadata.signed, Targets)}
    if len(teams) != 1 or "" in teams or len(change.manifests) != 1:
        msg = "this change adds no version of a team; keys accept is for changes of keys"
        raise PublishError(msg)
    (manifest,) = change.manifests.values()
    return _pack(teams.pop(), parts), manifest.encode()


def _with_version(  # noqa: PLR0917 - what is signed, by whom, until when, and who else may
    current_team_metadata: bytes,
    manifest: Manifest,
    signers: Sequence[Signer],
    expires_s: int,
    other_members: Sequence[Key],
    threshold: int,
) -> dict[str, _Metadata] | None:
    """Return the next metadata of each role that changes; None where the version is there already."""
    role = team_role(manifest.team)
    current = TeamMetadata.parse(current_team_metadata, role)
    owner, keys = _own(current, role, [*(one.public_key for one in signers), *other_members], threshold)
    target = TargetFile.from_data(manifest.path, manifest.to_bytes(), ["sha256"])
    # Copied, so that a role that is not spread or renewed keeps the bytes it has.
    held = {name: copy.deepcopy(part.signed) for name, part in current.bins.items()}
    versions = HashBins(role, copy.deepcopy(owner.signed), held)
    existing = versions.find(manifest.path)
    if existing == target:
        return None
    if existing is not None:
        raise VersionExistsError(manifest.feature, manifest.version)
    versions.add(manifest.path, target, keys, threshold)
    parts = {role: versions.owner} | versions.bins
    ageing = {name for name, part in parts.items() if part.expires < utc(expires_s - layout.TEAM_LIFETIME_S // 2)}
    signed = {}
    for name in sorted(versions.changed | ageing):
        known = owner if name == role else current.bins.get(name)
        if known is not None:
            _check_own(known, keys, name, threshold)
        signed[name] = _sign_next(parts[name], signers, name, expires_s)
    return signed


def sign_min_version(
    current_team_metadata: bytes,
    *,
    team: str,
    feature: str,
    min_version: str,
    signer: Signer,
    expires_s: int,
    other_members: Sequence[Key] = (),
) -> bytes:
    """Return the team's next metadata with one feature's minimum version raised: no device runs an older one again.

    Args:
        current_team_metadata: as the server keeps it.
        team: name of the team.
        feature: one of the team's.
        min_version: lowest version that may still run.
        signer: the team's key, or this member's.
        expires_s: seconds since 1970 up to which the signature holds; a year ahead is usual.
        other_members: public keys of the team's other members, whose signatures are as good.

    Raises:
        PublishError: the minimum version is higher already; it only rises.
        SignatureError: the current metadata was not signed by this key, or by a cosigner's.
        MetadataError: the current metadata is malformed, or `feature` or `min_version` has no acceptable form.
    """
    role = team_role(team)
    current = TeamMetadata.parse(current_team_metadata, role)
    owner, _ = _own(current, role, [signer.public_key, *other_members], 1)
    signed = copy.deepcopy(owner.signed)
    if not raise_min_version(role, signed, feature, min_version):
        return current_team_metadata
    return _pack(role, {role: _sign_next(signed, [signer], role, expires_s)})


def raise_min_version(role: str, team: Targets, feature: str, min_version: str) -> bool:
    """Raise the minimum version of a feature in a team's metadata; return False where it is that already.

    Raises:
        PublishError: the minimum version is higher; it only rises.
        MetadataError: `feature` or `min_version` has no acceptable form.
    """
    before = parse_min_versions(role, team)
    team.unrecognized_fields[FIELD] = {**before, feature: min_version}
    after = parse_min_versions(role, team)
    if is_below(after[feature], before.get(feature)):
        msg = f"the minimum version of {feature} is {before[feature]}; it never falls, not to {min_version}"
        raise PublishError(msg)
    return after != before


def reinstate(role: str, team: Targets, item: Reinstatement) -> bool:
    """Let a halted version, or a frozen feature, run again; return False where that is signed already.

    Raises:
        MetadataError: the team has reinstated more than one document holds.
    """
    before = parse_reinstatements(role, team)
    if any(known.thing == item.thing and known.serial >= item.serial for known in before):
        return False
    after = [*(known for known in before if known.thing != item.thing), item]
    team.unrecognized_fields[LIFTS_FIELD] = [item.model_dump(mode="json", exclude_none=True) for item in after]
    parse_reinstatements(role, team)
    return True


def _own(current: TeamMetadata, role: str, members: Iterable[Key], threshold: int) -> tuple[_Metadata, dict[str, Key]]:
    """Return the team's own metadata, proved to be by this team, and the keys that may sign for it."""
    if current.owner is None:
        raise SignatureError(role, "the team's own metadata is not there")
    keys = {key.keyid: key for key in members}
    _check_own(current.owner, keys, role, threshold)
    succinct = succinct_of(current.owner.signed)
    if succinct is not None and current.owner.signed.delegations is not None:
        # The bins name every key of the team, and the team has signed that.
        keys |= {keyid: current.owner.signed.delegations.keys[keyid] for keyid in succinct.keyids}
    return current.owner, keys


def _pack(role: str, signed: Mapping[str, _Metadata]) -> bytes:
    if signed.keys() == {role}:
        return signed[role].to_bytes()
    return SigningRequest(signed).to_bytes()


def _sign_next(signed: Targets, signers: Sequence[Signer], role: str, expires_s: int) -> _Metadata:
    signed.version += 1
    signed.expires = utc(expires_s)
    metadata = Metadata(signed)
    for signer in signers:
        sign_metadata(role, metadata, signer, append=True)
    size_bytes = len(metadata.to_bytes())
    if size_bytes > limits.TARGETS_METADATA_MAX_BYTES:
        raise DocumentTooLargeError(role, limit_bytes=limits.TARGETS_METADATA_MAX_BYTES, size_bytes=size_bytes)
    return metadata


def _check_own(metadata: _Metadata, keys: Mapping[str, Key], role: str, threshold: int) -> None:
    found = [(keys[keyid], signature) for keyid, signature in metadata.signatures.items() if keyid in keys]
    if not found:
        raise SignatureError(role, "the current metadata does not carry this team's signature")
    valid = 0
    for key, signature in found:
        with contextlib.suppress(UnverifiedSignatureError):
            key.verify_signature(signature, metadata.signed_bytes)
            valid += 1
    if not valid:
        raise SignatureError(role, "the current metadata was altered after this team signed it")
    if valid < threshold:
        known = f"{valid} of the {len(keys)} keys that are named, {threshold} have to; name the cosigners who did"
        raise SignatureError(role, f"the current metadata was signed by {known}")
