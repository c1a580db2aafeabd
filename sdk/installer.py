"""Installs a version from the server into a slot folder, after every check that may refuse it.

    manifest (signed tree) ─▶ is it the one the policy names? ─▶ is there a variant for us?
      ─▶ does it take and give what the app passes and reads? ─▶ download
      ─▶ runtime loads it ─▶ it says what the manifest says ─▶ weights and certificate ─▶ install

The first refusal ends it, typed; nothing is installed, and what was installed before is not touched.
"""

from typing import TYPE_CHECKING, Protocol

from alcove.registry.canonical import version_key
from alcove.registry.compatibility import differences
from alcove.registry.errors import IntegrityError, ProgramRefusedError, WrongSubjectError
from alcove.registry.program_verification import verify_program
from alcove.runtime.errors import RunCancelledError
from alcove.sdk.capability import choose_variant
from alcove.sdk.download import Downloader, file_sha256
from alcove.sdk.engine import Engine
from alcove.sdk.errors import ClosedError, OtherSignatureError, QuarantinedError, RuntimeTooOldError
from alcove.sdk.limits import MAX_CRASHES
from alcove.sdk.slots import SlotStore
from alcove.sdk.storage import Files
from alcove.sdk.transport import Transport

if TYPE_CHECKING:
    from collections.abc import Callable

    from alcove.registry.compatibility import Signature
    from alcove.registry.manifest import Manifest, Variant
    from alcove.registry.policy import VersionRef


class ManifestSource(Protocol):
    """What is read of the signed tree for one version."""

    def manifest(self, feature: str, version: str) -> "Manifest":
        """Return a version's manifest, verified against its team's signature and minimum version."""
        ...


class Installer:
    """Installs versions into one device's slot folders; its caller holds the slots' lock.

    Args:
        slots: where versions live.
        files: the disk.
        transport: the way to the server.
        engine: what programs must run on.
        called_signature: returns what the app calls a feature with; None: nothing says it.
    """

    def __init__(
        self,
        slots: SlotStore,
        files: Files,
        transport: Transport,
        engine: Engine,
        called_signature: "Callable[[str], Signature | None]" = lambda _feature: None,
    ) -> None:
        self._slots = slots
        self._files = files
        self._download = Downloader(slots, files, transport)
        self._engine = engine
        self._called_signature = called_signature
        self._verified: set[tuple[str, str]] = set()

    def install(self, feature: str, ref: "VersionRef", tree: ManifestSource) -> None:
        """Make `ref` an installed version, if it is none and its team still lets it run.

        The first time in each process an installed program's digest is compared again; a damaged one is installed
        again.

        Raises:
            IntegrityError: manifest or program differs from what was signed.
            WrongSubjectError: the manifest speaks of another feature or version.
            ProgramRefusedError: the runtime, a weight's digest or the certificate refuses the program, or the manifest
                says something else than it.
            IncompatibleError: the version is not for this device; `OtherSignatureError` for one that the app does not
                call as it is to be called, `QuarantinedError` for one that crashed here.
            RemoteError: the download broke; it continues from there next time.
            ClosedError: the client was closed while the program was checked.
            DeviceStorageError: the disk failed; `NoSpaceError` where a download would fill it.
            MetadataError: the tree has no acceptable manifest; `RollbackError` for one below its team's minimum
                version.
        """
        key = (feature, ref.manifest_sha256)
        if self._slots.attempts.is_quarantined(ref.manifest_sha256):
            raise _quarantined_error(feature, ref)
        manifest = tree.manifest(feature, ref.version)
        _check_manifest(manifest, feature, ref)
        variant = self._choose(manifest)
        if key in self._verified and self._slots.is_installed(*key):
            return
        called = self._called_signature(feature)
        broken = [] if called is None else differences(called, manifest.signature)
        if broken:
            raise OtherSignatureError(
                feature=feature, version=ref.version, manifest_sha256=ref.manifest_sha256, differences=broken
            )
        if self._slots.is_installed(*key):
            if file_sha256(self._slots.program_path(*key)) == variant.sha256:
                self._verified.add(key)
                return
            self._slots.discard(*key)
        reason = self._slots.attempts.refusal(ref.manifest_sha256, variant.name, self._engine.version)
        if reason is not None:
            raise ProgramRefusedError(variant.name, reason)
        part = self._download.program(feature, variant)
        # Verifying runs the program's own samples: it could crash there as well as in a prediction.
        attempt = self._slots.attempts.begin(ref.manifest_sha256)
        if attempt is None:
            raise _quarantined_error(feature, ref)
        try:
            verify_program(self._engine.verifier, manifest, variant, part.read_bytes())
        except ProgramRefusedError as error:
            # The bytes are what was signed, so they would fail again: do not keep them.
            self._slots.attempts.refuse(ref.manifest_sha256, variant.name, self._engine.version, error.reason)
            self._files.remove(part)
            raise
        except RunCancelledError as error:
            raise ClosedError from error
        finally:
            attempt.abandon()
        self._slots.install(*key, manifest.to_bytes(), part)
        self._slots.attempts.accept(ref.manifest_sha256)
        self._verified.add(key)

    def _choose(self, manifest: "Manifest") -> "Variant":
        if version_key(manifest.min_runtime) > version_key(self._engine.version):
            subject = {"feature": manifest.feature, "version": manifest.version}
            raise RuntimeTooOldError(**subject, needed=manifest.min_runtime, present=self._engine.version)
        return choose_variant(manifest, self._engine.capability)


def _quarantined_error(feature: str, ref: "VersionRef") -> QuarantinedError:
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
