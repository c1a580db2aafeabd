"""Verifies by the native runtime that a program is what its manifest says, then its weights and its certificate."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from alcove.registry.errors import ProgramRefusedError
from alcove.registry.manifest import ModelSignature
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alcove.registry.manifest import Manifest, Variant
    from alcove.runtime.cancellation import Alarm, Cancellation


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What a loaded program states.

    Attributes:
        signature: its inputs and outputs.
        memory_ceiling_bytes: most that one run needs besides the program.
        certificate_sha256: digest of the parity certificate inside it.
    """

    signature: ModelSignature
    memory_ceiling_bytes: int
    certificate_sha256: str


class ProgramVerifier(Protocol):
    """Reads programs; every method raises `ProgramRefusedError`, or says that somebody ended it, and nothing else."""

    def inspect(self, variant: str, program: bytes) -> ProgramFacts:
        """Return what the program states; its structure is verified."""
        ...

    def certify(self, variant: str, program: bytes) -> None:
        """Check every weight digest and run the parity certificate."""
        ...


def verify_program(verifier: ProgramVerifier, manifest: Manifest, variant: Variant, program: bytes) -> None:
    """Check that a program is what its manifest says, then its weights and certificate; publisher and device alike.

    Args:
        verifier: reads programs.
        manifest: names the variant.
        variant: what the program is to be; its digest was compared before.
        program: bytes of the whole program.

    Raises:
        ProgramRefusedError: it is not; with the signed value and the program's own.
    """
    facts = verifier.inspect(variant.name, program)
    if facts.signature != manifest.signature:
        raise ProgramRefusedError(variant.name, "its inputs and outputs are not those of the manifest")
    if facts.memory_ceiling_bytes != variant.memory_ceiling_bytes:
        reason = f"it needs {facts.memory_ceiling_bytes} bytes, the manifest says {variant.memory_ceiling_bytes}"
        raise ProgramRefusedError(variant.name, reason)
    if facts.certificate_sha256 != variant.certificate_sha256:
        reason = f"its certificate is {facts.certificate_sha256}, the manifest says {variant.certificate_sha256}"
        raise ProgramRefusedError(variant.name, reason)
    verifier.certify(variant.name, program)


class RuntimeVerifier:
    """Asks the native runtime.

    Args:
        cancellation: ends a check from another thread.
        alarm: keeps the time of a check, where no thread may be started for it.
    """

    def __init__(self, cancellation: Cancellation | None = None, alarm: Alarm | None = None) -> None:
        self._cancellation = cancellation
        self._alarm = alarm

    def inspect(self, variant: str, program: bytes) -> ProgramFacts:
        """Return what the program states.

        Raises:
            ProgramRefusedError: the runtime does not load it, it holds no certificate, or its inputs and outputs are
                beyond what a manifest may hold (a program's own bounds are wider).
        """
        from alcove.runtime import load  # noqa: PLC0415 - the native library is loaded on first use
        from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415

        try:
            model = load(program)
        except AlcoveRuntimeError as error:
            raise ProgramRefusedError(variant, str(error)) from error
        if not model.certificate:
            raise ProgramRefusedError(variant, "the program holds no parity certificate")
        return ProgramFacts(
            signature=_signature(variant, model.inputs, model.outputs),
            memory_ceiling_bytes=model.memory_ceiling_bytes,
            certificate_sha256=hashlib.sha256(model.certificate).hexdigest(),
        )

    def certify(self, variant: str, program: bytes) -> None:
        """Check every weight digest and run the parity certificate.

        Raises:
            ProgramRefusedError: a weight differs from its digest, an output from the certificate, or its samples take
                too long.
            RunCancelledError: somebody ended the check; nothing is known of the program.
        """
        from alcove.runtime import load  # noqa: PLC0415
        from alcove.runtime.certificate import check_certificate  # noqa: PLC0415
        from alcove.runtime.errors import AlcoveRuntimeError, RunCancelledError  # noqa: PLC0415

        try:
            model = load(program)
            model.verify_weights()
            check_certificate(model, cancellation=self._cancellation, alarm=self._alarm)
        except RunCancelledError:
            raise
        except AlcoveRuntimeError as error:
            raise ProgramRefusedError(variant, str(error)) from error


class _Port(Protocol):
    """What the registry reads of a runtime's port."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> object: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def is_ragged(self) -> bool: ...
    @property
    def labels(self) -> tuple[str, ...]: ...


def _signature(variant: str, inputs: Iterable[_Port], outputs: Iterable[_Port]) -> ModelSignature:
    fields = {"inputs": tuple(map(_port, inputs)), "outputs": tuple(map(_port, outputs))}
    try:
        return ModelSignature.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(step) for step in fault["loc"])
        raise ProgramRefusedError(variant, f"{where}: {fault['msg']}, got {str(fault['input'])[:100]!r}") from None


def _port(port: _Port) -> dict[str, object]:
    return {
        "name": port.name,
        # The runtime's DType is an enumeration; its members are named F32, TEXT, ...
        "dtype": str(getattr(port.dtype, "name", port.dtype)).lower(),
        "shape": tuple(port.shape),
        "is_ragged": port.is_ragged,
        "labels": tuple(port.labels),
    }
