"""Where a browser is sent to be signed out at a provider of OpenID Connect: a real provider in this process."""

import time
from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp.test_utils import TestServer
from alcove.platform.server import provider as module
from alcove.platform.server.provider import Provider, ProviderSettings
from alcove.platform.services.auth.access import Person, subject_of
from alcove.runtime.testing_seams import ManualClock

from tests.platform.console.openid_provider import CLIENT_ID, CLIENT_SECRET, PROVIDER, create_provider

BACK = "https://console.example/sign-in"
CLOCK = ManualClock(int(time.time()))


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    """A provider in this process."""
    made = TestServer(create_provider())
    async with made:
        yield made


def ours_of(server: TestServer) -> Provider:
    """The server's side of it, which has asked nothing yet."""
    issuer = f"http://127.0.0.1:{server.port}"
    return Provider(ProviderSettings(issuer, CLIENT_ID, CLIENT_SECRET, f"{BACK}/oidc/callback", "groups", BACK), CLOCK)


def person(identity_token: str) -> Person:
    """Somebody whom the provider has proved."""
    return Person("https://login.example", "anna-1", identity_token=identity_token)


async def test_the_address_has_hint_client_and_way_back_beside_what_the_provider_wrote(server: TestServer) -> None:
    """As RP-Initiated Logout 1.0 names them; without a hint the provider still learns whose browser it is."""
    ours = ours_of(server)
    for hint in ("a.b.c", ""):
        place = urlsplit(await ours.sign_out_url(hint))
        assert (place.port, place.path) == (server.port, "/end")
        expected = {"tenant": ["7"], "client_id": [CLIENT_ID], "post_logout_redirect_uri": [BACK]}
        assert parse_qs(place.query) == expected | ({"id_token_hint": [hint]} if hint else {})
    assert CLIENT_SECRET not in await ours.sign_out_url("a.b.c")


@pytest.mark.parametrize("fault", ["no_end", "insecure_end", "odd_end"])
async def test_a_provider_without_a_safe_address_gets_no_browser(server: TestServer, fault: str) -> None:
    """None, one without TLS, which would show the proof to the network, or what is no address."""
    server.app[PROVIDER].fault = fault
    assert await ours_of(server).sign_out_url("a.b.c") == ""


async def test_a_provider_that_is_away_keeps_nobody_signed_in(server: TestServer) -> None:
    """There is no address then, and no error: the session has ended here."""
    ours = ours_of(server)
    await server.close()
    assert await ours.sign_out_url("a.b.c") == ""


async def test_a_proof_is_given_once_to_its_session_and_kept_no_longer(
    server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not to another session, not twice, not after the session's end, not if it fits in no address; few are kept."""
    monkeypatch.setattr(module, "HINTS", 2)
    ours, now_s = ours_of(server), CLOCK.now_s()
    ours.note_session("one", person("token of one"), now_s + 60)
    assert ours.take_hint("another") == ""
    assert [ours.take_hint("one"), ours.take_hint("one")] == ["token of one", ""]
    ours.note_session("short", person("token of short"), now_s)
    ours.note_session("long", person("x" * (module.HINT_LENGTH + 1)), now_s + 60)
    assert [ours.take_hint("short"), ours.take_hint("long")] == ["", ""]
    for name in ("a", "b", "c"):
        ours.note_session(name, person(name), now_s + 60)
    assert [ours.take_hint(name) for name in ("a", "b", "c")] == ["", "b", "c"]
    assert "token of one" not in repr(person("token of one"))


async def test_only_whom_this_provider_proved_is_sent_to_it(server: TestServer) -> None:
    """Not whom another proved whose name begins alike, nor whoever has a token."""
    ours, issuer = ours_of(server), f"http://127.0.0.1:{server.port}"
    assert ours.has_proved(subject_of(issuer, "sub", "anna-1"))
    assert not ours.has_proved(subject_of(issuer + "1", "sub", "anna-1"))
    assert not ours.has_proved("")
