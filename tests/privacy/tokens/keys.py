"""Provides the keys of the published vectors, and bytes that are not random."""

import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPrivateNumbers,
    RSAPublicNumbers,
    rsa_crt_dmp1,
    rsa_crt_dmq1,
    rsa_crt_iqmp,
)

Vector = dict[str, str]


def read_vectors(name: str) -> list[Vector]:
    """Return the vectors of a file."""
    vectors: list[Vector] = json.loads((Path(__file__).parent / "vectors" / name).read_text())
    return vectors


def make_private_key(vector: Vector) -> RSAPrivateKey:
    """Return the key of a vector of RFC 9474."""
    p, q, d, n = (int(vector[name], 16) for name in "pqdn")
    public = RSAPublicNumbers(int(vector["e"], 16), n)
    numbers = RSAPrivateNumbers(p, q, d, rsa_crt_dmp1(d, p), rsa_crt_dmq1(d, q), rsa_crt_iqmp(p, q), public)
    return numbers.private_key()


class ScriptedEntropy:
    """Gives the bytes that it was made with, each as large as asked."""

    def __init__(self, *parts: bytes) -> None:
        self.parts = list(parts)

    def random_bytes(self, size_bytes: int) -> bytes:
        """Return the next bytes."""
        part = self.parts.pop(0)
        assert len(part) == size_bytes
        return part
