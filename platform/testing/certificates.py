"""Makes real certificates for tests, signed by a CA of its own."""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["Authority", "Pair"]

DAY: Final = dt.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A private key and the certificate of it, both PEM."""

    key: bytes
    certificate: bytes


@dataclass(frozen=True)
class Authority:
    """A CA.

    Attributes:
        certificate: of the CA, PEM: what its users trust.
    """

    certificate: bytes
    _key: ec.EllipticCurvePrivateKey

    @classmethod
    def create(cls, name: str = "test CA") -> Self:
        """Make a CA."""
        key = ec.generate_private_key(ec.SECP256R1())
        built = _builder(name, name, key.public_key()).add_extension(x509.BasicConstraints(True, 0), critical=True)
        return cls(built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM), key)

    def server(self) -> Pair:
        """Return what a server on this machine shows."""
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return self._pair("server", names, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, common: str, *names: x509.GeneralName, is_expired: bool = False) -> Pair:
        """Return what a client shows: its common name, and other names where some are given."""
        return self._pair(common, names, ExtendedKeyUsageOID.CLIENT_AUTH, is_expired=is_expired)

    def _pair(
        self,
        common: str,
        names: list[x509.GeneralName] | tuple[x509.GeneralName, ...],
        usage: x509.ObjectIdentifier,
        *,
        is_expired: bool = False,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.load_pem_x509_certificate(self.certificate).subject
        builder = _builder(common, issuer, key.public_key(), days=-1 if is_expired else 1)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(private, signed.public_bytes(serialization.Encoding.PEM))


def _builder(
    common: str, issuer: str | x509.Name, key: ec.EllipticCurvePublicKey, days: int = 1
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]) if isinstance(issuer, str) else issuer
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(named)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * DAY)
        .not_valid_after(now + days * DAY)
    )
