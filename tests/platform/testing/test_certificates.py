"""Client certificates beside tokens: real TLS, real certificates, a real server; and operators of one team."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from alcove.platform.client import PlatformClient
from alcove.platform.client.errors import (
    ClientError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from alcove.platform.domain.errors import CertificateListError, InvalidFieldError
from alcove.platform.domain.principal import Role
from alcove.platform.server.identity import CertificateList, names_of
from alcove.platform.server.settings import Settings
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.certificates import Authority, Pair
from cryptography import x509
from pydantic import ValidationError

URI = x509.UniformResourceIdentifier("spiffe://acme/ci/text")
DNS = x509.DNSName("deploy.acme.example")
LISTED = {
    "uri:spiffe://acme/ci/text": "team:text",
    "dns:deploy.acme.example": "operator",
    "email:ops@acme.example": "operator:text",
    "cn:watcher": "reader",
}
NAMES: dict[str, tuple[Any, ...]] = {
    "team:text": ("ci", URI),
    "operator": ("anything", DNS),
    "operator:text": ("watcher", x509.RFC822Name("ops@acme.example")),  # the common name counts for nothing beside it
    "reader": ("watcher",),
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    """The CA that both sides trust."""
    return Authority.create()


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's list of certificates."""
    path = tmp_path_factory.mktemp("list") / "certificates.json"
    path.write_text(json.dumps(LISTED))
    return path


@pytest.fixture(scope="module")
def secure(world: ServerWorld, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TLS files."""
    folder = tmp_path_factory.mktemp("tls")
    pair = authority.server()
    (folder / "server.pem").write_bytes(pair.certificate)
    (folder / "server.key").write_bytes(pair.key)
    (folder / "server.key").chmod(0o600)
    (folder / "ca.pem").write_bytes(authority.certificate)
    return folder


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """A world of its own."""
    return ServerWorld(tmp_path_factory.mktemp("guarded") / "w", teams={"text": ("text_00",), "speech": ("speech_00",)})


@pytest.fixture(scope="module")
def mtls_server(guarded: ServerWorld, secure: Path, listed: Path) -> Iterator[Served]:
    """A server process with TLS and client certificates."""
    tls = ("--tls-certificate", f"{secure}/server.pem", "--tls-key", f"{secure}/server.key")
    mtls = ("--client-ca", f"{secure}/ca.pem", "--client-certificates", str(listed), "--mtls-port", "0")
    server = guarded.start(*tls, *mtls)
    yield server
    assert server.stop() == 0


Connect = Callable[..., PlatformClient]


@pytest.fixture
def connect(mtls_server: Served, authority: Authority) -> Iterator[Connect]:
    """Makes clients of the port for certificates; closes them."""
    with ExitStack() as stack:

        def make(pair: Pair | None, token: str = "", address: str | None = None) -> PlatformClient:
            shown = None if pair is None else (pair.key, pair.certificate)
            client = PlatformClient(
                address or mtls_server.mtls_address or "",
                token,
                tls_root=authority.certificate,
                certificate=shown,
                timeout_s=10,
            )
            return stack.enter_context(client)

        yield make


def may(client: PlatformClient) -> str:
    """The role that the server sees behind a client, by what it lets through."""
    with pytest.raises(ClientError) as operated:
        client.pause_rollout("ro-absent")
    if isinstance(operated.value, NotFoundError):
        return "operator"
    assert isinstance(operated.value, PermissionDeniedError), operated.value
    return operated.value.message.partition("'")[2].partition("'")[0]


@pytest.mark.parametrize("role", NAMES)
def test_a_listed_certificate_has_its_role(connect: Connect, authority: Authority, role: str) -> None:
    """By URI, DNS name or e-mail address, or by the common name where it has no other."""
    seen = may(connect(authority.client(*NAMES[role])))
    assert seen == ("operator" if role == "operator:text" else role)


def test_the_audit_log_names_the_certificate(connect: Connect, authority: Authority, guarded: ServerWorld) -> None:
    """Who published by certificate is reported by its name."""
    guarded.publish(connect(authority.client(*NAMES["team:text"])), "text_00", "1.0.0")
    entries = list_local_audit(guarded.data_dir)
    assert "team:text/uri:spiffe://acme/ci/text" in {entry.principal for entry in entries}


def test_a_certificate_that_is_not_listed_is_nobody(connect: Connect, authority: Authority) -> None:
    """Signed by the right CA is not enough; a name of another kind with the same words neither."""
    unlisted: list[tuple[Any, ...]] = [("stranger",), ("deploy.acme.example",), ("x", x509.DNSName("watcher"))]
    for names in unlisted:
        with pytest.raises(UnauthenticatedError, match="not in the server's list"):
            connect(authority.client(*names)).rollouts()


def test_a_certificate_of_another_authority_gets_no_connection(connect: Connect, authority: Authority) -> None:
    """Nor an expired one, one for servers, or none at all: TLS itself refuses them."""
    stranger = Authority.create("test CA")
    expired = authority.client(*NAMES["operator"], is_expired=True)
    for pair in (stranger.client(*NAMES["operator"]), expired, authority.server(), None):
        with pytest.raises(UnavailableError):
            connect(pair).rollouts()


def test_a_token_counts_on_both_ports(
    connect: Connect, authority: Authority, guarded: ServerWorld, mtls_server: Served
) -> None:
    """On the tokens' port no certificate is asked for; on the other a token says more than the certificate."""
    assert may(connect(None, guarded.token("reader"), mtls_server.grpc_address)) == "reader"
    assert may(connect(authority.client(*NAMES["operator"]), guarded.token("reader"))) == "reader"
    with pytest.raises(UnauthenticatedError, match="malformed token"):
        connect(authority.client(*NAMES["operator"]), "alc_wrong").rollouts()
    with pytest.raises(UnauthenticatedError, match="no token"):
        connect(authority.client(*NAMES["operator"]), "", mtls_server.grpc_address).rollouts()


def test_a_name_taken_from_the_list_is_refused_without_a_restart(
    connect: Connect, authority: Authority, listed: Path
) -> None:
    """The file is read again when it changes; a broken one refuses everybody rather than nobody."""
    client = connect(authority.client(*NAMES["operator"]))
    assert may(client) == "operator"
    fewer = {name: role for name, role in LISTED.items() if role != "operator"}
    listed.write_text(json.dumps(fewer))
    with pytest.raises(UnauthenticatedError, match="not in the server's list"):
        client.rollouts()
    listed.write_text("{")
    with pytest.raises(ClientError, match="CertificateListError"):
        client.rollouts()
    listed.write_text(json.dumps(LISTED))
    assert may(client) == "operator"


def test_one_certificate_with_two_roles_is_refused(connect: Connect, authority: Authority) -> None:
    """No guess which of them is meant."""
    with pytest.raises(UnauthenticatedError, match="different roles"):
        connect(authority.client("x", URI, DNS)).rollouts()


@pytest.mark.parametrize(
    "content", ["", "[]", "null", '{"deploy": "operator"}', '{"dns:a": "root"}', '{"dns:a": 1}', '{"ip:1": "reader"}']
)
def test_a_list_that_is_none_stops_the_start(tmp_path: Path, content: str) -> None:
    """The file is named, and what is wrong with it."""
    path = tmp_path / "list.json"
    path.write_text(content)
    with pytest.raises(CertificateListError, match=r"list\.json"):
        CertificateList(path)


def test_a_list_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    """Like a broken one."""
    with pytest.raises(CertificateListError, match="absent"):
        CertificateList(tmp_path / "absent")


def test_what_is_no_certificate_has_no_names() -> None:
    """Garbage is reported as such."""
    with pytest.raises(ValueError, match=r".*"):
        names_of(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


@pytest.mark.parametrize(
    "given",
    [
        {"client_ca": "ca.pem"},
        {"client_certificates": "list.json"},
        {"client_ca": "ca.pem", "client_certificates": "list.json"},
    ],
)
def test_client_certificates_need_tls_and_a_list(tmp_path: Path, given: dict[str, str]) -> None:
    """Half of the settings is none."""
    with pytest.raises(ValidationError, match=r"together|TLS"):
        Settings.model_validate({"data_dir": tmp_path, "online_keys": tmp_path, **given})


def test_an_operator_of_a_team_operates_its_features_alone(
    connect: Connect, authority: Authority, guarded: ServerWorld, mtls_server: Served
) -> None:
    """Rollouts, experiments and rules of the own team's features pass; those of others and of all are refused."""
    ours = connect(authority.client(*NAMES["operator:text"]))
    everyone = connect(authority.client(*NAMES["operator"]))
    guarded.publish(connect(authority.client(*NAMES["team:text"])), "text_00", "2.0.0")
    guarded.publish(connect(None, guarded.token("team:speech"), mtls_server.grpc_address), "speech_00", "1.0.0")
    own = ours.create_rollout("app", "text_00", "2.0.0")
    assert ours.advance_rollout(own.rollout_id, 10_000, override_reason="first").share_basis_points == 10_000
    theirs = everyone.create_rollout("app", "speech_00", "1.0.0")
    with pytest.raises(PermissionDeniedError, match="speech_00"):
        ours.create_rollout("app", "speech_00", "1.0.0")
    for act in (ours.pause_rollout, ours.resume_rollout):
        with pytest.raises(PermissionDeniedError, match="speech_00"):
            act(theirs.rollout_id)
    for end in (ours.roll_back_rollout, ours.halt_rollout):
        with pytest.raises(PermissionDeniedError, match="speech_00"):
            end(theirs.rollout_id, "mine now")
    with pytest.raises(PermissionDeniedError):
        ours.revoke_version("speech_00", "1.0.0", reason="mine now")
    assert everyone.rollout(theirs.rollout_id) == theirs
    with pytest.raises(NotFoundError):
        ours.pause_rollout("ro-absent")


@pytest.mark.parametrize("text", ["operator:", "operator:Text", "reader:text", "operator:a b"])
def test_a_scope_that_there_is_not_is_refused(text: str) -> None:
    """A typing error gives nobody everything."""
    with pytest.raises(InvalidFieldError, match="role"):
        Role.parse(text)
