"""Judges the client certificates that the console brings, for those who sign in by one.

The console's TLS has proved that the browser holds the certificate's key; the server cannot see that.  It sees to the
rest by itself, so that a console in strange hands can bring no certificate but one that the client CA has signed, that
has not expired, and that the list gives a role.
"""

from pathlib import Path

from alcove.platform.domain.errors import SignInRefusedError, TlsFilesError, UnauthenticatedError
from alcove.platform.domain.principal import Principal
from alcove.platform.server.identity import CertificateList, principal_of_certificate
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

__all__ = ["ConsoleCertificates"]

MAX_BYTES = 16 * 1024  # of a certificate; those in use have one or two thousand


class ConsoleCertificates:
    """The certificates by which people may sign in.

    Args:
        client_ca: PEM certificates of the CAs that sign them directly.
        certificates: roles of their names.

    Raises:
        TlsFilesError: there is no certificate in the file.
        OSError: it cannot be read.
    """

    def __init__(self, client_ca: Path, certificates: CertificateList) -> None:
        try:
            self._authorities = x509.load_pem_x509_certificates(client_ca.read_bytes())
        except ValueError as error:
            raise TlsFilesError(client_ca, None, "no PEM certificates of a client CA") from error
        self._list = certificates

    def principal(self, der: bytes, *, now_s: int) -> tuple[Principal, int]:
        """Return who the holder of a certificate is, and when the certificate expires.

        Raises:
            SignInRefusedError: it is none, another CA's, not for clients, expired, not yet valid, or without a role.
        """
        if len(der) > MAX_BYTES:
            raise SignInRefusedError(f"a client certificate has at most {MAX_BYTES} bytes, not {len(der)}")
        try:
            certificate = x509.load_der_x509_certificate(der)
            starts_s = int(certificate.not_valid_before_utc.timestamp())
            is_for_clients = _is_for_clients(certificate)
        except ValueError as error:
            problem = "what was brought is no certificate"
            raise SignInRefusedError(problem) from error
        if not any(_has_signed(authority, certificate) for authority in self._authorities):
            problem = "the client certificate was not signed by the server's client CA itself"
            raise SignInRefusedError(problem)
        if now_s < starts_s or not is_for_clients:
            problem = (
                "the client certificate is not valid yet" if is_for_clients else "the certificate is not a client's"
            )
            raise SignInRefusedError(problem)
        try:
            return principal_of_certificate(certificate.public_bytes(Encoding.PEM), self._list, now_s=now_s)
        except UnauthenticatedError as error:
            raise SignInRefusedError(error.reason) from None


def _has_signed(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, TypeError, ValueError):
        return False
    return True


def _is_for_clients(certificate: x509.Certificate) -> bool:
    try:
        uses = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True
    return ExtendedKeyUsageOID.CLIENT_AUTH in uses
