"""Uploads, signs and publishes a version on the team's machine, which the team's key never leaves."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from alcove.platform.client.client import PlatformClient
from alcove.platform.client.errors import ConflictError, FailedPreconditionError, NotFoundError
from alcove.platform.client.models import Version
from alcove.registry import limits
from alcove.registry.layout import TEAM_LIFETIME_S
from alcove.registry.manifest import Manifest
from alcove.registry.package import Package, verify_package
from alcove.registry.signing_request import SigningRequest
from alcove.registry.team import draft_version, sign_version, split_signed
from alcove.runtime.clock import SYSTEM_CLOCK, Clock
from securesystemslib.signer import Key, Signer  # type: ignore[attr-defined]  # list no public names

__all__ = ["draft_push", "publish_signed", "push_package", "recent_programs"]

_ATTEMPTS = 5  # of signing on top of metadata that a cosigner just replaced


def push_package(
    client: PlatformClient,
    package: Package,
    signer: Signer,
    *,
    cosigners: Sequence[Signer] = (),
    other_members: Sequence[Key] = (),
    threshold: int = 1,
    clock: Clock = SYSTEM_CLOCK,
    progress: Callable[[str], None] = lambda _step: None,
) -> Version:
    """Verify, upload, sign and publish a package; repeating after any failure is safe.

    Args:
        client: with a token of the team.
        package: as `create_package` or `read_package` returned it.
        signer: the team's key; its private part never leaves this process.
        cosigners: further keys of the team that are at hand.
        other_members: public keys of the team's other members, whose signatures on what is current are as good.
        threshold: how many of the team's keys have to sign.
        clock: dates the signature.
        progress: called with each step, for people.

    Raises:
        ClientError: the server refused or did not answer.
        RegistryError: the package is not sound, the version exists, or the metadata is not this team's.
    """
    _upload(client, package, progress)
    for attempt in range(1, _ATTEMPTS + 1):
        progress("signing")
        current = client.team_metadata(package.manifest.team)
        signed = sign_version(
            current,
            package.manifest,
            signer,
            clock.now_s() + TEAM_LIFETIME_S,
            other_members=other_members,
            cosigners=cosigners,
            threshold=threshold,
        )
        progress("publishing")
        try:
            return client.publish_version(signed, package.manifest.to_bytes())
        except (ConflictError, FailedPreconditionError):
            # Was a cosigner first?  Then the metadata is another now, and signing on top of it helps.
            if attempt == _ATTEMPTS or client.team_metadata(package.manifest.team) == current:
                raise
    raise AssertionError  # the last attempt returns or raises


def draft_push(
    client: PlatformClient,
    package: Package,
    signers: Sequence[Signer],
    *,
    other_members: Sequence[Key] = (),
    threshold: int,
    clock: Clock = SYSTEM_CLOCK,
    progress: Callable[[str], None] = lambda _step: None,
) -> SigningRequest | None:
    """Verify and upload a package and sign it with the keys at hand; return what cosigners sign, too.

    Nothing is visible to devices before `publish_signed`.  None: the version is published already.

    Raises:
        ClientError: the server refused or did not answer.
        RegistryError: as `push_package`.
    """
    _upload(client, package, progress)
    progress("signing")
    current, targets = client.team_metadata_and_signers(package.manifest.team)
    expires_s = clock.now_s() + TEAM_LIFETIME_S
    return draft_version(
        current, targets, package.manifest, signers, expires_s, other_members=other_members, threshold=threshold
    )


def publish_signed(client: PlatformClient, change: SigningRequest) -> Version:
    """Publish what `draft_push` made and enough have signed; repeating is safe.

    Raises:
        ClientError: the server refused (too few signed, or another push came first: draft again) or did not answer.
        PublishError: the change adds no version.
    """
    metadata, manifest = split_signed(change)
    return client.publish_version(metadata, manifest)


def _upload(client: PlatformClient, package: Package, progress: Callable[[str], None]) -> None:
    progress("verifying")
    verify_package(package)
    blobs = list(package.blobs().values())
    for index, data in enumerate(blobs, start=1):
        step = f"uploading {index} of {len(blobs)}"
        progress(step)

        def show(sent: int, step: str = step, size: int = len(data)) -> None:
            progress(f"{step}: {sent / 1e6:.1f} of {size / 1e6:.1f} MB ({100 * sent // size} %)")

        client.upload_blob(data, progress=show)


def recent_programs(
    client: PlatformClient,
    feature: str,
    variants: Iterable[str],
    *,
    but: str,
    versions: int,
    progress: Callable[[str], None] = lambda _step: None,
) -> dict[str, list[bytes]]:
    """Return the programs that devices are likely to have: bases for the deltas of the next version, newest first.

    Args:
        client: with a token that may read.
        feature: whose versions they are.
        variants: names of the variants that are wanted.
        but: the version that is being pushed.  Where it is published already the programs are those that its deltas
            start from, whatever was published since: a push that is repeated makes the same package.
        versions: how many versions to look at, revoked ones aside; 0: none.
        progress: called with each step, for people.

    Raises:
        ClientError: the server refused or did not answer.
    """
    found: dict[str, list[bytes]] = {name: [] for name in variants}
    if not versions:
        return found
    bases = _published_bases(client, feature, but)
    if bases is None:
        listed = client.versions(feature, order="newest", limit=versions + limits.DELTAS_MAX)
        chosen = [item for item in listed if item.state != "revoked"][:versions]
        bases = [(item.version, variant.name, variant.sha256) for item in chosen for variant in item.variants]
    with tempfile.TemporaryDirectory() as folder:
        for version, variant, digest in bases:
            if variant in found:
                progress(f"fetching {version} for a delta")
                path = Path(folder) / digest
                try:
                    client.download_blob(digest, path)
                except NotFoundError:  # a base that was revoked since
                    continue
                found[variant].append(path.read_bytes())
    return found


def _published_bases(client: PlatformClient, feature: str, version: str) -> list[tuple[str, str, str]] | None:
    """Return what to call it, variant and digest of each base of a version's deltas; None where it is not published."""
    try:
        _, manifest = client.version(feature, version)
    except NotFoundError:
        return None
    variants = Manifest.from_bytes(manifest).variants
    return [
        (f"the base of {version}", variant.name, delta.base_sha256) for variant in variants for delta in variant.deltas
    ]
