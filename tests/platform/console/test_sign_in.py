"""Signing in by a client certificate and through OpenID Connect: real TLS, a provider in a process of its own."""

import asyncio
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from alcove.platform.client import PlatformClient, UnauthenticatedError
from alcove.platform.services.auth.local import list_local_audit
from alcove.platform.services.auth.local_access import grant_local_access
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.certificates import Authority, Pair
from cryptography import x509

from tests.platform.console import openid_provider
from tests.platform.console.conftest import TEAMS, Person, stranger
from tests.platform.console.openid_provider import CLIENT_ID, CLIENT_SECRET

pytestmark = pytest.mark.thorough

PATIENCE_S = 120


# Client certificates


@dataclass
class Tls:
    """A console with TLS, and who may sign in there by certificate."""

    world: ServerWorld
    served: Served
    authority: Authority
    roles: Path

    def pair(self, address: str, *, authority: Authority | None = None, is_expired: bool = False) -> Pair:
        """A certificate of a mail address."""
        made = authority or self.authority
        return made.client(address, x509.RFC822Name(address), is_expired=is_expired)

    @asynccontextmanager
    async def browser(self, pair: Pair | None = None) -> AsyncIterator[Person]:
        """A browser, with a certificate or without."""
        context = ssl.create_default_context(cadata=self.authority.certificate.decode())
        if pair is not None:
            place = self.world.folder / f"pair-{id(pair)}.pem"
            place.write_bytes(pair.certificate + pair.key)
            context.load_cert_chain(place)
        jar = aiohttp.CookieJar(unsafe=True)
        assert self.served.console_url is not None
        async with aiohttp.ClientSession(cookie_jar=jar, connector=aiohttp.TCPConnector(ssl=context)) as http:
            yield Person(http, self.served.console_url)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tls]:
    """A server whose console and port for certificates trust one CA."""
    folder = tmp_path_factory.mktemp("tls")
    authority = Authority.create()
    roles = {"email:anna@acme.example": "operator:text", "email:root@acme.example": "operator"}
    files = {
        "chain.pem": authority.server().certificate,
        "ca.pem": authority.certificate,
        "roles.json": json.dumps(roles).encode(),
    }
    pair = authority.server()
    files |= {"chain.pem": pair.certificate, "key.pem": pair.key}
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    world = ServerWorld(folder / "world", teams=TEAMS)
    options = {
        "tls-certificate": folder / "chain.pem",
        "tls-key": folder / "key.pem",
        "client-ca": folder / "ca.pem",
        "client-certificates": folder / "roles.json",
        "console": "true",
        "console-port": "0",
        "console-certificates": "true",
        "mtls-port": "0",
        "behind-proxy": "192.0.2.0/24",
    }
    served = world.start(*(str(part) for name, value in options.items() for part in (f"--{name}", value)))
    yield Tls(world, served, authority, folder / "roles.json")
    assert served.stop() == 0


def session_of(one: Person) -> str | None:
    """The session's cookie."""
    return next((each.value for each in one.http.cookie_jar if each.key.endswith("alcove-session")), None)


async def test_a_certificate_of_the_list_signs_in_as_its_principal(tls: Tls) -> None:
    """A button, no token; audited as calls with the certificate are, for no longer than the certificate is valid."""
    async with tls.browser(tls.pair("anna@acme.example")) as one:
        assert "Sign in with this browser" in (await one.get("/sign-in"))[1]
        status, page = await one.post("/sign-in/certificate", {"next": "/features?text=a"})
        assert status == 200, page
        assert "operator:text/email:anna@acme.example" in page
        data = await one.json("/sessions.json")
        (session,) = data["sessions"]
        assert session["expires_at_s"] - session["created_at_s"] <= 12 * 3600
    entries = await asyncio.to_thread(list_local_audit, tls.world.data_dir)
    (entry,) = [each for each in entries if each.action == "create session"]
    assert entry.principal == "operator:text/email:anna@acme.example"


async def test_a_certificate_that_does_not_hold_signs_nobody_in(tls: Tls) -> None:
    """Another CA's or an expired one ends the handshake; one that nobody listed, and none at all, are told why."""
    for pair in (
        tls.pair("anna@acme.example", authority=Authority.create()),
        tls.pair("anna@acme.example", is_expired=True),
    ):
        async with tls.browser(pair) as one:
            with pytest.raises(aiohttp.ClientError):
                await one.post("/sign-in/certificate", {})
    async with tls.browser(tls.pair("mallory@acme.example")) as one:
        status, page = await one.post("/sign-in/certificate", {})
        assert status == 403
        assert "not in the server&#39;s list" in page
        assert session_of(one) is None
    async with tls.browser() as one:
        status, page = await one.post("/sign-in/certificate", {})
        assert (status, session_of(one)) == (403, None)
        assert "has shown none" in page


async def test_a_header_proves_nobody(tls: Tls) -> None:
    """Whatever proxies write of a certificate, anybody can."""
    pem = tls.pair("root@acme.example").certificate.decode().replace("\n", "%0A")
    names = ("X-Client-Cert", "X-SSL-Client-Cert", "X-Forwarded-Client-Cert", "Client-Cert", "SSL_CLIENT_CERT")
    async with tls.browser() as one:
        for name in names:
            status, _ = await one.post("/sign-in/certificate", {}, **{name: pem, "X-SSL-Client-Verify": "SUCCESS"})
            assert (status, session_of(one)) == (403, None), name


async def test_a_name_that_leaves_the_list_ends_its_sessions(tls: Tls) -> None:
    """With the next page, without a restart; and one whose role changes does not keep the old one."""
    before = tls.roles.read_text()
    async with tls.browser(tls.pair("root@acme.example")) as one:
        assert (await one.post("/sign-in/certificate", {}))[0] == 200
        assert (await one.get("/features.json"))[0] == 200
        try:
            for change in ({}, {"email:root@acme.example": "reader"}):
                tls.roles.write_text(json.dumps(change))
                assert (await one.get("/features.json"))[0] == 401
        finally:
            tls.roles.write_text(before)


async def test_a_page_of_another_site_signs_nobody_in(tls: Tls) -> None:
    """The browser would show its certificate to whatever page sends the form."""
    async with tls.browser(tls.pair("anna@acme.example")) as one:
        for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            status, _ = await one.post("/sign-in/certificate", {}, **headers)
            assert (status, session_of(one)) == (403, None)


# OpenID Connect


@dataclass
class Oidc:
    """A console whose people sign in through a provider."""

    world: ServerWorld
    served: Served
    issuer: str
    roles: Path

    async def control(self, **wanted: Any) -> list[str]:
        """Change what the provider does; return whom it has signed out."""
        async with aiohttp.ClientSession() as http, http.post(f"{self.issuer}/control", json=wanted) as answer:
            assert answer.status == 200
            return [str(subject) for subject in (await answer.json())["signed_out"]]

    @property
    def callback(self) -> str:
        """Where the provider sends browsers back."""
        return f"{self.served.console_url}/sign-in/oidc/callback"

    async def sign_in(self, one: Person, **fields: str) -> tuple[int, str, str]:
        """Sign in as a browser does; return status and page of the end, and the address of the answer."""
        place = await self.leave(one, **fields)
        if not place:
            return 0, "", ""
        async with one.http.get(place, headers=FROM_ELSEWHERE) as answer:
            return answer.status, await answer.text(), place

    async def leave(self, one: Person, **fields: str) -> str:
        """Begin, and go to the provider; return where it sends the browser."""
        status, page = await one.post("/sign-in/oidc", fields)
        found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
        assert status == 200, page
        assert found is not None
        async with one.http.get(unescape(found[1]), allow_redirects=False) as answer:
            assert answer.status == 303, await answer.text()
            place = answer.headers["Location"]
        assert place.startswith(self.callback + "?")
        return place


FROM_ELSEWHERE = {"Sec-Fetch-Site": "cross-site"}


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        return int(made.getsockname()[1])


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    """The issuer of a provider in a process of its own."""
    port = free_port()
    command = [sys.executable, openid_provider.__file__, str(port)]
    with subprocess.Popen(command) as process:
        try:
            for _ in range(PATIENCE_S * 10):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                with suppress(subprocess.TimeoutExpired):
                    raise RuntimeError(f"the provider ended with {process.wait(0.1)}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.fixture(scope="module")
def oidc(tmp_path_factory: pytest.TempPathFactory, provider: str) -> Iterator[Oidc]:
    """A server whose people sign in through the provider; Anna has access by her subject, Ben by his address."""
    folder = tmp_path_factory.mktemp("oidc")
    (folder / "secret").write_text(CLIENT_SECRET + "\n")
    (folder / "secret").chmod(0o600)
    (folder / "roles.json").write_text('{"alcove-operators": "operator", "alcove-text": "operator:text"}')
    world = ServerWorld(folder / "world", teams=TEAMS)
    options = {
        "console": "true",
        "console-port": "0",
        "oidc-issuer": provider,
        "oidc-client-id": CLIENT_ID,
        "oidc-client-secret-file": folder / "secret",
        "oidc-roles": folder / "roles.json",
    }
    for role, person in (("operator:text", {"subject": "anna-1"}), ("reader", {"email": "Ben@acme.example"})):
        grant_local_access(world.data_dir, role, issuer=provider, **person)  # type: ignore[arg-type]
    served = world.start(*(str(part) for name, value in options.items() for part in (f"--{name}", value)))
    yield Oidc(world, served, provider, folder / "roles.json")
    assert served.stop() == 0
    assert CLIENT_SECRET not in served.log.read_text()


@pytest.fixture
async def anna(oidc: Oidc) -> AsyncIterator[Person]:
    """Somebody whom the provider calls anna-1."""
    assert oidc.served.console_url is not None
    await oidc.control(claims={"sub": "anna-1", "name": "Anna"}, redirect_uris=[oidc.callback])
    async with stranger(oidc.served) as one:
        yield one


async def test_a_person_with_access_signs_in_and_comes_to_the_page_that_was_wanted(oidc: Oidc, anna: Person) -> None:
    """By a page of ours, since the browser keeps the session's cookie from what another site leads to."""
    place = await oidc.leave(anna, next="/features?text=a")
    async with anna.http.get(place, headers=FROM_ELSEWHERE) as answer:
        page = await answer.text()
        cookies = {morsel.key: morsel for morsel in answer.cookies.values()}
    assert 'content="0; url=/features?text=a"' in page
    assert cookies["alcove-session"]["samesite"] == "Strict"
    assert cookies["alcove-session"]["httponly"]
    assert cookies["alcove-sign-in"].value == ""
    assert "operator:text" in (await anna.get("/features"))[1]
    # The answer again, by whom it may be: it signs nobody in.
    async with anna.http.get(place, headers=FROM_ELSEWHERE) as answer:
        assert answer.status == 403


async def test_the_flow_is_the_browsers_that_began(oidc: Oidc, anna: Person) -> None:
    """An answer of the attacker does not sign the victim in, and a stolen one does not sign the attacker in."""
    place = await oidc.leave(anna)
    async with stranger(oidc.served) as victim:
        async with victim.http.get(place, headers=FROM_ELSEWHERE) as answer:
            assert answer.status == 403
            assert "alcove-session" not in answer.cookies
        await oidc.leave(victim)  # who now has a secret of another sign-in
        async with victim.http.get(place, headers=FROM_ELSEWHERE) as answer:
            assert answer.status == 403
            assert "alcove-session" not in answer.cookies


@pytest.mark.parametrize(
    "fault", ["nonce", "audience", "unsigned", "expired", "symmetric", "other_key", "state", "foreign_iss", "no_code"]
)
async def test_what_the_provider_does_wrong_signs_nobody_in(oidc: Oidc, anna: Person, fault: str) -> None:
    """The page says why in a sentence, and offers to begin again."""
    await oidc.control(fault=fault)
    status, page, _ = await oidc.sign_in(anna)
    assert status == 403, page
    assert session_of(anna) is None
    assert "Try once more" in page
    assert "Traceback" not in page


async def test_a_provider_that_is_away_is_said_to_be(oidc: Oidc, anna: Person) -> None:
    """As a sentence, and tokens still sign in."""
    await oidc.control(fault="server_error")
    status, page, _ = await oidc.sign_in(anna)
    assert (status, session_of(anna)) == (503, None)
    assert "does not answer" in page
    assert "Traceback" not in page
    assert "<script>alert" not in page
    token = await asyncio.to_thread(oidc.world.token, "reader")
    assert (await anna.post("/sign-in", {"token": token}))[0] == 200


async def test_new_keys_of_the_provider_are_believed_and_old_ones_are_not(oidc: Oidc, anna: Person) -> None:
    """Without a restart of the server."""
    assert (await oidc.sign_in(anna))[0] == 200
    await oidc.control(rotate=True)
    async with stranger(oidc.served) as again:
        assert (await oidc.sign_in(again))[0] == 200


async def test_nobody_is_sent_elsewhere_after_signing_in(oidc: Oidc, anna: Person) -> None:
    """Neither by the form, nor by the cookie that keeps the page."""
    for wanted in ("//evil.example", "https://evil.example/", "/\\evil.example", "x" * 10_000):
        _, page, _ = await oidc.sign_in(anna, next=wanted)
        assert 'content="0; url=/"' in page, wanted


async def test_who_signs_out_is_signed_out_at_the_provider_too(oidc: Oidc, anna: Person) -> None:
    """The session here ends before the browser leaves; the provider gets its proof, and sends it back to sign in."""
    back = f"{oidc.served.console_url}/sign-in"
    before = len(await oidc.control(signed_out_uris=[back]))
    assert (await oidc.sign_in(anna))[0] == 200
    token = session_of(anna)
    assert token is not None
    status, page = await anna.act("/sign-out")
    assert (status, session_of(anna)) == (200, None)
    with PlatformClient(oidc.served.grpc_address, token) as client, pytest.raises(UnauthenticatedError):
        client.caller()  # though the browser has not been at the provider yet
    assert "The session of this console has ended" in page
    assert 'aria-label="Areas"' not in page
    found = re.search(r'http-equiv="refresh" content="0; url=([^"]+)"', page)
    assert found is not None
    async with anna.http.get(unescape(found[1]), headers=FROM_ELSEWHERE) as answer:
        assert (answer.status, str(answer.url)) == (200, back)
        assert "Sign in to alcove" in await answer.text()
    assert (await oidc.control())[before:] == ["anna-1"]


async def test_who_signed_in_otherwise_is_sent_to_no_provider(oidc: Oidc) -> None:
    """A token's session ends here alone, and so does one of a list of one's sessions."""
    token = await asyncio.to_thread(oidc.world.token, "reader")
    async with stranger(oidc.served) as one:
        assert (await one.post("/sign-in", {"token": token}))[0] == 200
        status, page = await one.act("/sign-out")
        assert (status, session_of(one)) == (200, None)
        assert "Sign in to alcove" in page
        assert oidc.issuer + "/end" not in page


async def role_of(oidc: Oidc, **claims: Any) -> str:
    """The role of somebody whom the provider describes so; "": signed in as nobody."""
    await oidc.control(claims=claims, redirect_uris=[oidc.callback])
    async with stranger(oidc.served) as one:
        status, page, _ = await oidc.sign_in(one)
        token = session_of(one)
        if token is None:
            assert status == 403, page
            return ""
        with PlatformClient(oidc.served.grpc_address, token) as client:
            return client.caller().role


async def test_the_server_says_who_may_sign_in_and_as_what(oidc: Oidc) -> None:
    """By subject, by verified address, by the first listed group; nobody else."""
    ben = {"email": "ben@acme.example"}
    assert await role_of(oidc, sub="anna-1", groups=["alcove-operators"]) == "operator:text"
    assert await role_of(oidc, sub="ben", email_verified=True, **ben) == "reader"
    assert await role_of(oidc, sub="mallory", email_verified=False, **ben) == ""
    assert await role_of(oidc, sub="mallory", **ben) == ""
    assert await role_of(oidc, sub="cleo", groups=["x", "alcove-text", "alcove-operators"]) == "operator"
    assert await role_of(oidc, sub="dora", groups="alcove-text") == "operator:text"
    assert await role_of(oidc, sub="emil", groups=["alcove-operators-not"]) == ""
    assert await role_of(oidc, sub="emil", groups={"alcove-operators": 1}) == ""


async def test_who_leaves_a_group_loses_the_sessions_of_it(oidc: Oidc) -> None:
    """At the next sign-in, which the provider answers for."""
    await oidc.control(claims={"sub": "fay", "groups": ["alcove-operators"]})
    async with stranger(oidc.served) as one:
        await oidc.sign_in(one)
        before = session_of(one)
        assert before is not None
    assert await role_of(oidc, sub="fay", groups=["alcove-text"]) == "operator:text"
    with PlatformClient(oidc.served.grpc_address, before) as client, pytest.raises(UnauthenticatedError):
        client.caller()
