"""Control of the console's process: its key, its door, and whatever it likes to bring to the server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from alcove.api.session.v1 import session_pb2 as pb
from alcove.platform.domain.errors import (
    InvalidFieldError,
    PermissionDeniedError,
    PlatformError,
    SessionError,
    SignInRefusedError,
    UnauthenticatedError,
)
from alcove.platform.domain.permissions import PERMISSIONS, require
from alcove.platform.domain.principal import CONSOLE, Principal, Role, set_principal
from alcove.platform.server.console_certificates import ConsoleCertificates
from alcove.platform.server.console_process import make_console_key
from alcove.platform.server.identity import CertificateList, Identity
from alcove.platform.server.provider import Provider, ProviderSettings
from alcove.platform.server.session_service import SessionService
from alcove.platform.server.sign_ins import SignIns
from alcove.platform.services.auth.local import create_local_token
from alcove.platform.store import Store
from alcove.platform.store.tokens import list_tokens
from alcove.platform.testing.certificates import Authority
from alcove.runtime.testing_seams import ManualClock
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

CONSOLES = Principal("own", CONSOLE)


class Call:
    """A call as gRPC shows it."""

    def __init__(self, token: str, peer: str) -> None:
        self._token, self._peer = token, peer

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """The headers."""
        return (("authorization", f"Bearer {self._token}"),)

    def auth_context(self) -> dict[str, list[bytes]]:
        """No TLS."""
        return {}

    def peer(self) -> str:
        """Where it comes from."""
        return self._peer


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    """An empty database."""
    made = await Store.open(tmp_path / "alcove.db")
    yield made
    await made.close()


def test_the_consoles_key_calls_nothing_but_what_signs_people_in() -> None:
    """It reads nothing, and acts on nothing: of all calls there are, it may make two."""
    allowed = set()
    for method in PERMISSIONS:
        try:
            require(CONSOLES, method)
        except PermissionDeniedError:
            continue
        allowed.add(method.rpartition("/")[2])
    assert allowed == {"CreateSession", "BeginSignIn"}


async def test_the_key_holds_at_the_consoles_own_door_alone(store: Store) -> None:
    """Who has read it from the process's memory needs the server's user too; another server's key is none."""
    key = make_console_key()
    identity = Identity(store, ManualClock(), console_key=key)
    assert (await identity.of(Call(key, "unix:"))).role == CONSOLE  # type: ignore[arg-type]
    for token, peer in (
        (key, "ipv4:127.0.0.1:1"),
        (key, "ipv6:[::1]:1"),
        (make_console_key(), "unix:"),
        (key[:-1] + ("0" if key[-1] != "0" else "1"), "unix:"),
    ):
        with pytest.raises(UnauthenticatedError):
            await identity.of(Call(token, peer))  # type: ignore[arg-type]
    with pytest.raises(UnauthenticatedError):  # a server without a console has no key, and an empty one is none
        await Identity(store, ManualClock()).of(Call("", "unix:"))  # type: ignore[arg-type]


async def test_no_token_can_have_the_consoles_role(tmp_path: Path) -> None:
    """So that its rights are nobody's beside it."""
    with pytest.raises(InvalidFieldError):
        Role.parse("console")
    with pytest.raises(InvalidFieldError):
        await asyncio.to_thread(create_local_token, tmp_path, "console")


async def test_what_the_console_makes_up_makes_nobody(store: Store, tmp_path: Path) -> None:
    """Neither a name, nor a certificate that the client CA has not signed, nor an answer of no sign-in."""
    authority, other = Authority.create(), Authority.create()
    (tmp_path / "ca.pem").write_bytes(authority.certificate)
    (tmp_path / "list.json").write_text(json.dumps({"email:root@acme.example": "operator"}))
    certificates = ConsoleCertificates(tmp_path / "ca.pem", CertificateList(tmp_path / "list.json"))
    settings = ProviderSettings("http://127.0.0.1:9", "alcove", "", "http://127.0.0.1/sign-in/oidc/callback")
    clock = ManualClock(1_800_000_000)
    service: Any = SessionService(store, clock, SignIns(certificates, Provider(settings, clock)))
    forged = x509.load_pem_x509_certificate(other.client("x", x509.RFC822Name("root@acme.example")).certificate)
    answer = pb.ProviderAnswer(state="x", code="x", issuer=settings.issuer, browser_secret="x")
    set_principal(CONSOLES)
    for request in (
        pb.CreateSessionRequest(),
        pb.CreateSessionRequest(certificate=b""),
        pb.CreateSessionRequest(certificate=b"email:root@acme.example"),
        pb.CreateSessionRequest(certificate=forged.public_bytes(Encoding.DER)),
        pb.CreateSessionRequest(provider_answer=pb.ProviderAnswer()),
        pb.CreateSessionRequest(provider_answer=answer),
    ):
        with pytest.raises((PermissionDeniedError, SignInRefusedError)):
            await service.CreateSession(request, None)
    answer.code = "x" * 5000
    with pytest.raises(InvalidFieldError, match=r"provider_answer\.code"):
        await service.CreateSession(pb.CreateSessionRequest(provider_answer=answer), None)
    async with store.read() as session:
        assert await list_tokens(session) == []


async def test_a_way_that_is_off_stays_off(store: Store) -> None:
    """And nobody but the console can bring a proof: an operator does not become somebody else."""
    service: Any = SessionService(store, ManualClock())
    proofs = (
        pb.CreateSessionRequest(certificate=b"x"),
        pb.CreateSessionRequest(provider_answer=pb.ProviderAnswer(state="x")),
    )
    for caller, error in ((CONSOLES, SessionError), (Principal("ab", Role.parse("operator")), PermissionDeniedError)):
        set_principal(caller)
        for request in proofs:
            with pytest.raises(PlatformError) as failure:
                await service.CreateSession(request, None)
            assert type(failure.value) is error
