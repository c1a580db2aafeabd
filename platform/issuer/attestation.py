"""Decides which installations may be enrolled, by evidence of their platform; the one attestor here is for tests.

An attestor for a real platform is an adapter that the operator brings; docs/deploy/attestation.md says what each of
them receives and what it checks.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Protocol

import structlog
from alcove.platform.domain.errors import IssuanceRefusedError
from alcove.privacy.errors import TokenMessageError
from alcove.privacy.presentation import Fixed
from alcove.privacy.tokens.privacy_pass import TokenStructure
from alcove.registry.errors import KeyFileError
from alcove.runtime.files import read_bounded
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

__all__ = ["Attestor", "SoftwareAttestor", "make_software_evidence", "read_attestation_key"]

INSTALLATION_BYTES: Final = 32
MAX_KEY_BYTES: Final = 4096
_STATEMENT: Final = b"alcove software attestation 1"
_log = structlog.get_logger()


class Attestor(Protocol):
    """Verifies a platform's evidence."""

    async def verify(self, evidence: bytes, digest: bytes) -> bytes:
        """Return the identity of the installation that the evidence is about, the same each time it enrolls.

        Args:
            evidence: of the platform, at most `MAX_EVIDENCE_BYTES`.
            digest: what the evidence must be about: the issuer, its challenge and the device's key.

        Raises:
            IssuanceRefusedError: it is no evidence for that, or not of a genuine app on a genuine device.
        """
        ...


@dataclass(frozen=True)
class _SoftwareEvidence(TokenStructure):
    installation: Annotated[bytes, Fixed(INSTALLATION_BYTES)]
    signature: Annotated[bytes, Fixed(64)]


class SoftwareAttestor:
    """Believes whoever has one key; for tests and demonstrations, for it proves nothing about a device.

    Args:
        public_key: whose statements are believed.
    """

    def __init__(self, public_key: Ed25519PublicKey) -> None:
        _log.warning("software attestation proves nothing about devices: for tests and demonstrations alone")
        self._public_key = public_key

    async def verify(self, evidence: bytes, digest: bytes) -> bytes:
        """Return the installation that the statement names.

        Raises:
            IssuanceRefusedError: it is no statement of the key's about this digest.
        """
        try:
            found = _SoftwareEvidence.from_bytes(evidence)
            self._public_key.verify(found.signature, _STATEMENT + found.installation + digest)
        except (TokenMessageError, InvalidSignature):
            reason, bound = "evidence", "a statement by the software attestor's key"
            raise IssuanceRefusedError(reason, bound) from None
        return found.installation


def make_software_evidence(private_key: Ed25519PrivateKey, installation: bytes, digest: bytes) -> bytes:
    """Return the statement that an installation of `INSTALLATION_BYTES` bytes is genuine."""
    return _SoftwareEvidence(installation, private_key.sign(_STATEMENT + installation + digest)).to_bytes()


def read_attestation_key(path: Path) -> Ed25519PublicKey:
    """Return the public key of the software attestor.

    Raises:
        KeyFileError: the file is absent, or no such key.
    """
    try:
        key = load_pem_public_key(read_bounded(path, MAX_KEY_BYTES) or b"")
    except (ValueError, UnsupportedAlgorithm, OSError) as error:
        raise KeyFileError(str(path), f"no public key in PEM: {type(error).__name__}") from None
    if not isinstance(key, Ed25519PublicKey):
        raise KeyFileError(str(path), "no Ed25519 key")
    return key
