"""Defines the jobs of a program's checks, and answers them from its bytes, in whichever process.

A job is one variant: its program, the deltas that make it, and the programs that those start from.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self

from alcove.platform.domain.catalog.program_report import ProgramReport
from alcove.registry import program_validation, program_verification
from alcove.registry.blobs import BlobStore
from alcove.registry.errors import DeltaError, IntegrityError, MissingBlobError, ProgramRefusedError
from alcove.registry.manifest import Manifest, Variant
from alcove.registry.package import verify_variant
from alcove.runtime.cancellation import Alarm

__all__ = ["InThisProcess", "ProgramChecks", "Supplies", "answer", "raise_refusal"]

PIECE_BYTES: Final = 1024 * 1024
VERIFY: Final = "verify"
VALIDATE: Final = "validate"


@dataclass(frozen=True)
class Supplies:
    """The bytes of one job, still where blobs are.

    Attributes:
        blobs: the store.
        program: digest of the program.
        deltas: digest of each delta, by the digest of its base.
        bases: digests of the programs that the deltas start from.
    """

    blobs: BlobStore
    program: str
    deltas: Mapping[str, str] = field(default_factory=dict)
    bases: tuple[str, ...] = ()

    @classmethod
    def of(cls, blobs: BlobStore, manifest: Manifest, variant: Variant) -> Self:
        """Return what verifying a variant needs.

        Raises:
            MissingBlobError: a blob that the manifest names is not there, or has another size.
        """
        sizes = {variant.sha256: variant.size_bytes}
        sizes |= {delta.sha256: delta.size_bytes for delta in variant.deltas}
        for sha256, size_bytes in sizes.items():
            if blobs.size_bytes(sha256) != size_bytes:
                raise MissingBlobError(f"{manifest.feature} {manifest.version}", sha256)
        for delta in variant.deltas:
            if not blobs.has(delta.base_sha256):
                what = f"base of a delta of {manifest.feature} {manifest.version}"
                raise MissingBlobError(what, delta.base_sha256)
        deltas = {delta.base_sha256: delta.sha256 for delta in variant.deltas}
        return cls(blobs, variant.sha256, deltas, tuple(deltas))

    def digests(self) -> tuple[str, ...]:
        """Return the digest of every blob of the job."""
        return tuple(dict.fromkeys((self.program, *self.deltas.values(), *self.bases)))

    def pieces(self, sha256: str) -> Iterator[bytes]:
        """Yield a blob in pieces.

        Raises:
            IntegrityError: it is not what its name says.
        """
        size_bytes = self.blobs.size_bytes(sha256) or 0
        digest = hashlib.sha256()
        for start in range(0, size_bytes, PIECE_BYTES):
            piece = self.blobs.read(sha256, start, min(PIECE_BYTES, size_bytes - start))
            digest.update(piece)
            yield piece
        if digest.hexdigest() != sha256:
            raise IntegrityError(f"blob {sha256}", expected=sha256, seen=digest.hexdigest())


class ProgramChecks(Protocol):
    """Opens and runs programs.  Whatever they do, it returns, in bounded time and memory."""

    async def verify(self, manifest: Manifest, variant: Variant, supplies: Supplies) -> None:
        """Check a program as a device would at its installation, and the deltas that make it.

        Raises:
            ProgramRefusedError: it is not what its manifest says, or does not keep its certificate.
            DeltaError, IntegrityError: a delta makes something else.
            CheckBoundError: its checks took more than a program's may.
            ChecksFullError: too many wait already.
        """
        ...

    async def validate(self, team: str, variant: str, supplies: Supplies) -> ProgramReport:
        """Return the figures that a feature's rules bound.

        Raises:
            ChecksFullError: too many wait already.
        """
        ...


def answer(
    kind: str, job: Mapping[str, Any], read: Callable[[str], bytes], alarm: Alarm | None = None
) -> dict[str, Any]:
    """Do a job; return its result as JSON values.

    Args:
        kind: VERIFY or VALIDATE.
        job: what is asked, as `children.py` writes it.
        read: returns the bytes of a blob by its digest.
        alarm: keeps the time of a certificate, where no thread may be started for it.
    """
    if kind == VALIDATE:
        program = read(job["program"])
        return ProgramReport.by(program_validation.RuntimeValidator(alarm), job["variant"], program).to_json()
    manifest = Manifest.from_bytes(bytes.fromhex(job["manifest"]))
    variant = next(one for one in manifest.variants if one.name == job["variant"])
    try:
        verify_variant(
            manifest,
            variant,
            read(variant.sha256),
            delta=read,
            base=read,
            verifier=program_verification.RuntimeVerifier(alarm=alarm),
        )
    except ProgramRefusedError as error:
        return {"refused": error.reason}
    except DeltaError as error:
        return {"delta": error.problem}
    except IntegrityError as error:
        return {"integrity": [error.thing, error.expected, error.seen]}
    return {}


def raise_refusal(variant: str, answer: Mapping[str, Any]) -> None:
    """Raise the error that `answer` names; return where it names none."""
    if "refused" in answer:
        raise ProgramRefusedError(variant, str(answer["refused"]))
    if "delta" in answer:
        raise DeltaError(str(answer["delta"]))
    if "integrity" in answer:
        thing, expected, seen = (str(part) for part in answer["integrity"])
        raise IntegrityError(thing, expected=expected, seen=seen)


class InThisProcess:
    """Checks programs here, unbounded: for programs of our own and for tests that pretend them."""

    # asyncio is loaded here: a program's own process answers without it.

    async def verify(self, manifest: Manifest, variant: Variant, supplies: Supplies) -> None:
        """Check a program."""
        import asyncio  # noqa: PLC0415

        job = {"manifest": manifest.to_bytes().hex(), "variant": variant.name}
        raise_refusal(variant.name, await asyncio.to_thread(answer, VERIFY, job, supplies.blobs.get))

    async def validate(self, team: str, variant: str, supplies: Supplies) -> ProgramReport:  # noqa: ARG002 - as the protocol has it
        """Return the figures of a program."""
        import asyncio  # noqa: PLC0415

        job = {"program": supplies.program, "variant": variant}
        return ProgramReport.from_json(await asyncio.to_thread(answer, VALIDATE, job, supplies.blobs.get))
