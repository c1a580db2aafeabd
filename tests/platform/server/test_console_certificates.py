"""Client certificates that the console brings: the server believes none that it does not know by itself."""

import datetime as dt
from pathlib import Path

import pytest
from alcove.platform.domain.errors import SignInRefusedError, TlsFilesError
from alcove.platform.server.console_certificates import ConsoleCertificates
from alcove.platform.server.identity import CertificateList
from alcove.platform.testing.certificates import Authority, Pair
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

ANNA = x509.RFC822Name("anna@acme.example")


def der(pair: Pair) -> bytes:
    """The certificate of a pair, as TLS has it."""
    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


def now_s() -> int:
    """The time now."""
    return int(dt.datetime.now(dt.UTC).timestamp())


def test_a_certificate_proves_who_the_list_says(tmp_path: Path) -> None:
    """And nobody else: not another CA's of the same name, an expired one, a server's, the CA's own, one not listed."""
    authority, other = Authority.create(), Authority.create()
    ca, listed = tmp_path / "ca.pem", tmp_path / "list.json"
    ca.write_bytes(authority.certificate)
    listed.write_text('{"email:anna@acme.example": "operator:text", "dns:localhost": "operator"}')
    certificates = ConsoleCertificates(ca, CertificateList(listed))
    good = der(authority.client("anna", ANNA))
    principal, expires_at_s = certificates.principal(good, now_s=now_s())
    assert principal.name == "operator:text/email:anna@acme.example"
    assert now_s() < expires_at_s <= now_s() + 86_400
    for bad in (
        der(other.client("anna", ANNA)),
        der(authority.client("anna", ANNA, is_expired=True)),
        der(authority.client("anna", x509.RFC822Name("mallory@acme.example"))),
        der(authority.client("anna")),
        der(authority.server()),
        der(Pair(b"", authority.certificate)),
        good[:-1],
        good[:-10] + bytes(10),
        b"",
        b"x" * 20_000,
    ):
        with pytest.raises(SignInRefusedError):
            certificates.principal(bad, now_s=now_s())
    with pytest.raises(SignInRefusedError, match="expired"):
        certificates.principal(good, now_s=expires_at_s)
    with pytest.raises(SignInRefusedError, match="not valid yet"):
        certificates.principal(good, now_s=now_s() - 30 * 86_400)
    listed.write_text("{}")
    with pytest.raises(SignInRefusedError, match="not in the server's list"):
        certificates.principal(good, now_s=now_s())


def test_a_file_without_certificates_is_no_client_ca(tmp_path: Path) -> None:
    """Which the server says at its start."""
    ca, listed = tmp_path / "ca.pem", tmp_path / "list.json"
    ca.write_text("none")
    listed.write_text("{}")
    with pytest.raises(TlsFilesError):
        ConsoleCertificates(ca, CertificateList(listed))
