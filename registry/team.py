"""How does a team add a version?  It signs its own list of versions, on its own machine, with its own key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alcove.registry import limits
from alcove.registry._tuf import TargetFile, Targets
from alcove.registry.clock import utc
from alcove.registry.errors import DocumentTooLarge, PublishError, SignatureError, VersionExists
from alcove.registry.floors import FIELD, floors, is_below
from alcove.registry.layout import team_role
from alcove.registry.trust import parse
from securesystemslib.exceptions import UnverifiedSignatureError

if TYPE_CHECKING:
    from alcove.registry._tuf import CryptoSigner, Metadata
    from alcove.registry.manifest import Manifest


def sign_version(current_team_metadata: bytes, manifest: Manifest, signer: CryptoSigner, expires_s: int) -> bytes:
    """Return the team's next metadata: the current one and one version more.

    What the server says is current is accepted only with the team's own signature on it: otherwise a server could slip
    in versions of its own and have the team sign them.

    Args:
        current_team_metadata: as the server keeps it.
        manifest: of the new version.
        signer: the team's key.
        expires_s: seconds since 1970 up to which the signature holds; a year ahead is usual.

    Raises:
        VersionExists: the version is there with another manifest.
        SignatureError: the current metadata was not signed by this key.
        MetadataError: the current metadata is malformed.
        DocumentTooLarge: the team has more versions than one metadata file holds.
    """
    role = team_role(manifest.team)
    metadata = parse(Targets, role, current_team_metadata, limits.TARGETS_METADATA_MAX_BYTES)
    _check_own(metadata, signer, role)
    target = TargetFile.from_data(manifest.path, manifest.to_bytes(), ["sha256"])
    existing = metadata.signed.targets.get(manifest.path)
    if existing == target:
        # Pushed before: the same bytes again, so that a push that lost its answer can be repeated.
        return current_team_metadata
    if existing is not None:
        raise VersionExists(manifest.feature, manifest.version)
    metadata.signed.targets[manifest.path] = target
    return _sign_next(metadata, signer, role, expires_s)


def sign_floor(
    current_team_metadata: bytes, *, team: str, feature: str, min_version: str, signer: CryptoSigner, expires_s: int
) -> bytes:
    """Return the team's next metadata with the floor of one feature raised: no device runs an older version again.

    Args:
        current_team_metadata: as the server keeps it.
        team: name of the team.
        feature: one of the team's.
        min_version: lowest version that may still run.
        signer: the team's key.
        expires_s: seconds since 1970 up to which the signature holds; a year ahead is usual.

    Raises:
        PublishError: the floor is higher already; it only rises.
        SignatureError: the current metadata was not signed by this key.
        MetadataError: the current metadata is malformed, or `feature` or `min_version` has no acceptable form.
    """
    role = team_role(team)
    metadata = parse(Targets, role, current_team_metadata, limits.TARGETS_METADATA_MAX_BYTES)
    _check_own(metadata, signer, role)
    before = floors(role, metadata.signed)
    metadata.signed.unrecognized_fields[FIELD] = {**before, feature: min_version}
    after = floors(role, metadata.signed)
    if is_below(after[feature], before.get(feature)):
        msg = f"the floor of {feature} is {before[feature]}; it never falls, not to {min_version}"
        raise PublishError(msg)
    return current_team_metadata if after == before else _sign_next(metadata, signer, role, expires_s)


def _sign_next(metadata: Metadata[Targets], signer: CryptoSigner, role: str, expires_s: int) -> bytes:
    metadata.signed.version += 1
    metadata.signed.expires = utc(expires_s)
    metadata.sign(signer)
    data = metadata.to_bytes()
    if len(data) > limits.TARGETS_METADATA_MAX_BYTES:
        raise DocumentTooLarge(role, limit_bytes=limits.TARGETS_METADATA_MAX_BYTES, size_bytes=len(data))
    return data


def _check_own(metadata: Metadata[Targets], signer: CryptoSigner, role: str) -> None:
    signature = metadata.signatures.get(signer.public_key.keyid)
    if signature is None:
        raise SignatureError(role, "the current metadata does not carry this team's signature")
    try:
        signer.public_key.verify_signature(signature, metadata.signed_bytes)
    except UnverifiedSignatureError:
        raise SignatureError(role, "the current metadata was altered after this team signed it") from None
