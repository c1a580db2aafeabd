"""Certificates that are nearly a listed one: names of other kinds, other cases, other authorities."""

import json
from pathlib import Path

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import ClientError, UnauthenticatedError, UnavailableError
from alcove.platform.testing import ServerWorld
from alcove.platform.testing.certificates import Authority, Pair
from cryptography import x509

LISTED = {"dns:deploy.acme.example": "operator", "uri:spiffe://acme/ci": "team:text", "cn:watcher": "reader"}
DNS, URI, MAIL = x509.DNSName, x509.UniformResourceIdentifier, x509.RFC822Name
NEARLY: tuple[tuple[str | x509.GeneralName, ...], ...] = (
    ("deploy.acme.example",),
    ("Watcher",),
    ("watcher ",),
    ("watcher", DNS("other.example")),  # its common name counts only where there is no other
    ("x", DNS("watcher")),
    ("x", DNS("deploy.acme.example.evil.example")),
    ("x", DNS("*.acme.example")),
    ("x", URI("spiffe://acme/ci/")),
    ("x", URI("dns:deploy.acme.example")),
    ("x", MAIL("deploy@acme.example")),
)


def test_what_is_nearly_listed_is_nobody(tmp_path: Path, own_world: ServerWorld) -> None:
    """Each is refused; the listed ones are taken; another authority's are not heard at all."""
    authority, other = Authority.create(), Authority.create()
    pair = authority.server()
    contents = {"key": pair.key, "server": pair.certificate, "ca": authority.certificate}
    for name, content in contents.items():
        (tmp_path / f"{name}.pem").write_bytes(content)
        (tmp_path / f"{name}.pem").chmod(0o600)
    (tmp_path / "list.json").write_text(json.dumps(LISTED))
    tls = ("--tls-certificate", f"{tmp_path}/server.pem", "--tls-key", f"{tmp_path}/key.pem", "--mtls-port", "0")
    mtls = ("--client-ca", f"{tmp_path}/ca.pem", "--client-certificates", f"{tmp_path}/list.json")
    server = own_world.start("--only", "grpc", *tls, *mtls)

    def ask(shown: Pair) -> None:
        address, argument = server.mtls_address or "", (shown.key, shown.certificate)
        with PlatformClient(address, "", tls_root=authority.certificate, certificate=argument, timeout_s=60) as client:
            client.rollouts()

    try:
        for common, *names in NEARLY:
            with pytest.raises(UnauthenticatedError, match="not in the server's list"):
                ask(authority.client(str(common), *[name for name in names if isinstance(name, x509.GeneralName)]))
        ask(authority.client("watcher"))
        ask(authority.client("x", DNS("deploy.acme.example")))
        with pytest.raises(UnavailableError):
            ask(other.client("watcher"))
        with pytest.raises(ClientError):
            ask(authority.client("watcher", is_expired=True))
    finally:
        assert server.stop() == 0
