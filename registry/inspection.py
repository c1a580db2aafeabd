"""What does a program say about itself, and does it hold?  The registry asks the runtime, here only."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

from alcove.registry.errors import ProgramRefusedError
from alcove.registry.manifest import PortSignature, Signature


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What a loaded program states.

    Attributes:
        signature: its inputs and outputs.
        memory_ceiling_bytes: most that one run needs besides the program.
        certificate_sha256: digest of the parity certificate inside it.
    """

    signature: Signature
    memory_ceiling_bytes: int
    certificate_sha256: str


class ProgramInspector(Protocol):
    """Reads programs; every method raises `ProgramRefusedError` and nothing else."""

    def inspect(self, variant: str, program: bytes) -> ProgramFacts:
        """Return what the program states; its structure is verified."""
        ...

    def certify(self, variant: str, program: bytes) -> None:
        """Check every weight digest and run the parity certificate."""
        ...


class RuntimeInspector:
    """Asks the native runtime."""

    def inspect(self, variant: str, program: bytes) -> ProgramFacts:
        """Return what the program states.

        Raises:
            ProgramRefusedError: the runtime does not load it, or it holds no certificate.
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
            signature=Signature(
                inputs=tuple(_port(port) for port in model.inputs),
                outputs=tuple(_port(port) for port in model.outputs),
            ),
            memory_ceiling_bytes=model.memory_ceiling_bytes,
            certificate_sha256=hashlib.sha256(model.certificate).hexdigest(),
        )

    def certify(self, variant: str, program: bytes) -> None:
        """Check every weight digest and run the parity certificate.

        Raises:
            ProgramRefusedError: a weight differs from its digest, or an output from the certificate.
        """
        from alcove.runtime import load  # noqa: PLC0415
        from alcove.runtime.certificate import check_certificate  # noqa: PLC0415
        from alcove.runtime.errors import AlcoveRuntimeError  # noqa: PLC0415

        try:
            model = load(program)
            model.verify_weights()
            check_certificate(model)
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


def _port(port: _Port) -> PortSignature:
    # The runtime's DType is an enumeration; its members are named F32, TEXT, ...
    dtype = str(getattr(port.dtype, "name", port.dtype)).lower()
    return PortSignature.model_validate(
        {
            "name": port.name,
            "dtype": dtype,
            "shape": tuple(port.shape),
            "is_ragged": port.is_ragged,
            "labels": tuple(port.labels),
        }
    )
