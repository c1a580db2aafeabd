"""How does a version get from the server into a slot folder, and who may refuse it?

    manifest (signed tree) ─▶ is it the one the policy names? ─▶ is there a variant for us? ─▶ download, resumed
      ─▶ size and digest ─▶ runtime loads it ─▶ it says what the manifest says ─▶ weights and certificate ─▶ install

The first refusal ends it, typed; nothing is installed, and what was installed before is not touched.
"""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from alcove.registry.canonical import version_key
from alcove.registry.errors import IntegrityError, ProgramRefusedError, WrongSubjectError
from alcove.registry.inspection import verify_program
from alcove.sdk.engine import Engine
from alcove.sdk.errors import (
    NoVariantError,
    QuarantinedError,
    ResponseTooLargeError,
    RuntimeTooOldError,
    TransportError,
)
from alcove.sdk.limits import CHUNK_BYTES, MAX_CRASHES
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport

if TYPE_CHECKING:
    from alcove.registry.manifest import Manifest, Variant
    from alcove.registry.policy import VersionRef

ENGINE: Final = "alcove"
"""The engine that every device has."""


class Tree(Protocol):
    """What is read of the signed tree for one version."""

    def manifest(self, feature: str, version: str) -> "Manifest":
        """Return a version's manifest, verified against its team's signature and floor."""
        ...


class Installer:
    """Installs versions into one device's slot folders; its caller holds the slots' lock.

    Args:
        slots: where versions live.
        files: the disk.
        transport: the way to the server.
        engine: what programs must run on.
    """

    def __init__(self, slots: SlotStore, files: Files, transport: Transport, engine: Engine) -> None:
        self._slots = slots
        self._files = files
        self._transport = transport
        self._engine = engine
        self._verified: set[tuple[str, str]] = set()

    def install(self, feature: str, ref: "VersionRef", tree: Tree) -> None:
        """Make `ref` an installed version, if it is none and its team still lets it run.

        The first time in each process an installed program's digest is compared again; a damaged one is installed anew.

        Raises:
            IntegrityError: manifest or program differs from what was signed.
            WrongSubjectError: the manifest speaks of another feature or version.
            ProgramRefusedError: the runtime, a weight's digest or the certificate refuses the program, or the manifest
                says something else than it.
            IncompatibleError: the version is not for this device; `QuarantinedError` for one that crashed here.
            ServerError: the download broke; it goes on from there next time.
            StorageError: the disk failed.
            MetadataError: the tree has no acceptable manifest; `RollbackError` for one below its team's floor.
        """
        key = (feature, ref.manifest_sha256)
        if self._slots.tries.is_quarantined(ref.manifest_sha256):
            raise _quarantined(feature, ref)
        manifest = tree.manifest(feature, ref.version)
        _check_manifest(manifest, feature, ref)
        variant = self._choose(manifest)
        if self._slots.is_installed(*key):
            if key in self._verified:
                return
            if _file_sha256(self._slots.program_path(*key)) == variant.sha256:
                self._verified.add(key)
                return
            self._slots.discard(*key)
        part = self._slots.part_path(variant.sha256)
        self._download(part, variant)
        # Verifying runs the program's own samples: it could crash there as well as in a prediction.
        trial = self._slots.tries.begin(ref.manifest_sha256)
        if trial is None:
            raise _quarantined(feature, ref)
        try:
            verify_program(self._engine.inspector, manifest, variant, part.read_bytes())
        except ProgramRefusedError:
            # The bytes are what was signed, so they would fail again: do not keep them.
            self._files.remove(part)
            raise
        finally:
            trial.abandon()
        self._slots.install(*key, manifest.to_bytes(), part)
        self._verified.add(key)

    def _choose(self, manifest: "Manifest") -> "Variant":
        subject = {"feature": manifest.feature, "version": manifest.version}
        if version_key(manifest.min_runtime) > version_key(self._engine.version):
            raise RuntimeTooOldError(**subject, needed=manifest.min_runtime, present=self._engine.version)
        for variant in manifest.variants:
            if variant.engine == ENGINE:
                return variant
        raise NoVariantError(**subject, engines=[variant.engine for variant in manifest.variants])

    def _download(self, part: Path, variant: "Variant") -> None:
        """Fill `part` with the variant's program: what is there already is kept and hashed again."""
        thing = f"blob {variant.sha256}"
        size = part.stat().st_size if part.exists() else 0
        if size > variant.size_bytes:
            self._files.remove(part)
            size = 0
        digest = _file_digest(part) if size else hashlib.sha256()
        if size < variant.size_bytes:
            path = f"/blobs/{variant.sha256}"
            try:
                with self._transport.get(path, max_bytes=variant.size_bytes, start=size) as download:
                    if download.start != size:
                        self._files.remove(part)
                        size, digest = 0, hashlib.sha256()
                    for chunk in download.chunks:
                        self._files.append(part, chunk)
                        digest.update(chunk)
                        size += len(chunk)
            except ResponseTooLargeError as error:
                self._files.remove(part)
                raise IntegrityError(
                    thing, expected=f"{variant.size_bytes} bytes", seen=f"more than {error.limit_bytes}"
                ) from error
            if size < variant.size_bytes:
                reason = f"it ended after {size} of {variant.size_bytes} bytes"
                raise TransportError(method="GET", path=path, reason=reason)
        if digest.hexdigest() != variant.sha256:
            self._files.remove(part)
            raise IntegrityError(thing, expected=variant.sha256, seen=digest.hexdigest())


def _quarantined(feature: str, ref: "VersionRef") -> QuarantinedError:
    return QuarantinedError(
        feature=feature, version=ref.version, manifest_sha256=ref.manifest_sha256, crashes=MAX_CRASHES
    )


def _check_manifest(manifest: "Manifest", feature: str, ref: "VersionRef") -> None:
    for field, expected, seen in (
        ("feature", feature, manifest.feature),
        ("version", ref.version, manifest.version),
    ):
        if expected != seen:
            raise WrongSubjectError(f"manifest of {feature} {ref.version}", field=field, expected=expected, seen=seen)
    if manifest.sha256 != ref.manifest_sha256:
        thing = f"manifest of {feature} {ref.version}"
        raise IntegrityError(thing, expected=ref.manifest_sha256, seen=manifest.sha256)


def _file_digest(path: Path) -> "hashlib._Hash":
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest


def _file_sha256(path: Path) -> str:
    return _file_digest(path).hexdigest()
