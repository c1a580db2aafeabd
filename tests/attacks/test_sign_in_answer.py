"""Sign-in through a provider of OpenID Connect: each proof that does not hold makes nobody."""

import time
from collections.abc import AsyncIterator
from dataclasses import replace
from urllib.parse import parse_qs, parse_qsl, urlsplit

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from alcove.platform.domain import limits
from alcove.platform.domain.errors import PeerUnavailableError, SignInRefusedError
from alcove.platform.server.provider import Begun, Provider, ProviderAnswer, ProviderSettings
from alcove.runtime.testing_seams import ManualClock

from tests.platform.console.openid_provider import CLIENT_ID, CLIENT_SECRET, PROVIDER, create_provider

REDIRECT = "https://console.example/sign-in/oidc/callback"
TOKEN_FAULTS = (
    "nonce",
    "no_nonce",
    "audience",
    "audiences",
    "issuer",
    "expired",
    "no_expiry",
    "no_subject",
    "long_subject",
    "odd_subject",
    "unsigned",
    "symmetric",
    "client_secret",
    "other_key",
    "garbage",
    "no_token",
)


class Staged:
    """A provider, and the server's side of it."""

    def __init__(self, server: TestServer, issuer: str) -> None:
        self.known = server.app[PROVIDER]
        self.clock = ManualClock(int(time.time()))
        settings = ProviderSettings(issuer, CLIENT_ID, CLIENT_SECRET, REDIRECT)
        self.ours = Provider(settings, self.clock)

    async def answer_to(self, begun: Begun) -> ProviderAnswer:
        """What the browser brings back."""
        async with (
            aiohttp.ClientSession() as http,
            http.get(begun.authorization_url, allow_redirects=False) as answer,
        ):
            place = urlsplit(answer.headers["Location"])
        assert f"{place.scheme}://{place.netloc}{place.path}" == REDIRECT
        given = dict(parse_qsl(place.query))
        return ProviderAnswer(
            given["state"], given.get("code", ""), given.get("iss", ""), given.get("error", ""), begun.browser_secret
        )

    async def answer(self) -> ProviderAnswer:
        """What the browser brings back from a sign-in that begins now."""
        return await self.answer_to(await self.ours.begin())


@pytest.fixture
async def staged() -> AsyncIterator[Staged]:
    """A provider in this process."""
    server = TestServer(create_provider())
    async with server:
        yield Staged(server, f"http://127.0.0.1:{server.port}")


async def test_a_person_is_who_the_provider_says(staged: Staged) -> None:
    """Subject, verified address, name and groups; PKCE, state and nonce are new each time."""
    staged.known.claims = {
        "sub": "anna-1",
        "name": "Anna",
        "email": "Anna@acme.example",
        "email_verified": True,
        "groups": ["people", 7, "alcove"],
    }
    begun = [await staged.ours.begin() for _ in range(2)]
    sent = [parse_qs(urlsplit(one.authorization_url).query) for one in begun]
    for name in ("state", "nonce", "code_challenge"):
        assert sent[0][name] != sent[1][name]
    assert sent[0]["code_challenge_method"] == ["S256"]
    assert sent[0]["redirect_uri"] == [REDIRECT]
    assert begun[0].browser_secret not in begun[0].authorization_url
    person = await staged.ours.finish(await staged.answer_to(begun[0]))
    assert (person.subject, person.email, person.name) == ("anna-1", "Anna@acme.example", "Anna")
    assert person.claims == {"people", "alcove"}
    assert CLIENT_SECRET not in repr(staged.ours._settings)


async def test_an_address_that_the_provider_has_not_verified_is_nobodys(staged: Staged) -> None:
    """Whoever writes another's address into a profile does not become that person."""
    for verified in (False, "true", 1, None):
        staged.known.claims = {"sub": "mallory", "email": "anna@acme.example", "email_verified": verified}
        assert (await staged.ours.finish(await staged.answer())).email == ""


@pytest.mark.parametrize("fault", TOKEN_FAULTS)
async def test_an_identity_token_that_does_not_hold_makes_nobody(staged: Staged, fault: str) -> None:
    """Of another sign-in, for another, by another, too old, unsigned, signed with what is no secret, or none at all."""
    staged.known.fault = fault
    with pytest.raises(SignInRefusedError):
        await staged.ours.finish(await staged.answer())
    staged.known.fault = ""
    assert (await staged.ours.finish(await staged.answer())).subject == "anna-1"


async def test_an_answer_counts_once_and_from_the_browser_that_began(staged: Staged) -> None:
    """Replayed, of another state, of another browser (login CSRF), of another issuer (mix-up), too late: refused."""
    good = await staged.answer()
    for change in (
        {"state": "another"},
        {"state": ""},
        {"browser_secret": "another"},
        {"browser_secret": ""},
        {"issuer": "https://evil.example"},
        {"issuer": ""},  # which this provider says that it sends
        {"code": "another"},
        {"code": ""},
        {"error": "access_denied"},
    ):
        with pytest.raises(SignInRefusedError):
            await staged.ours.finish(replace(await staged.answer(), **change))
    one, other = await staged.answer(), await staged.answer()
    with pytest.raises(SignInRefusedError):  # the attacker's code in the victim's sign-in: the verifier is another
        await staged.ours.finish(replace(one, code=other.code))
    assert (await staged.ours.finish(good)).subject == "anna-1"
    with pytest.raises(SignInRefusedError, match="belongs to no sign-in"):
        await staged.ours.finish(good)
    late = await staged.answer()
    staged.clock.time_s += limits.SIGN_IN_S
    with pytest.raises(SignInRefusedError, match="ten minutes"):
        await staged.ours.finish(late)


async def test_a_wrong_guess_ends_the_sign_in(staged: Staged) -> None:
    """Nobody gets a second try at the browser's secret."""
    good = await staged.answer()
    with pytest.raises(SignInRefusedError):
        await staged.ours.finish(replace(good, browser_secret="guess"))
    with pytest.raises(SignInRefusedError):
        await staged.ours.finish(good)


async def test_a_new_key_of_the_provider_is_found(staged: Staged) -> None:
    """Without a restart, and without an hour's wait."""
    await staged.ours.finish(await staged.answer())
    staged.known.key = type(staged.known.key).generate_key("P-256", {"kid": "new"})
    assert (await staged.ours.finish(await staged.answer())).subject == "anna-1"


@pytest.mark.parametrize("fault", ["server_error", "not_json"])
async def test_a_provider_that_fails_is_away(staged: Staged, fault: str) -> None:
    """It is not said to have refused; what it wrote is not shown."""
    staged.known.fault = fault
    with pytest.raises(PeerUnavailableError) as failure:
        await staged.ours.finish(await staged.answer())
    assert "<" not in str(failure.value)


async def test_a_provider_that_is_not_there_or_is_another_is_away() -> None:
    """Nothing listens; or what listens calls itself something else."""
    server = TestServer(create_provider("https://another.example"))
    async with server:
        address = f"http://127.0.0.1:{server.port}"
        with pytest.raises(PeerUnavailableError, match="calls itself"):
            await Staged(server, address).ours.begin()
    with pytest.raises(PeerUnavailableError):
        await Staged(server, address).ours.begin()


async def test_sign_ins_that_nobody_finishes_are_forgotten(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest first, so that strangers cannot fill the server's memory."""
    monkeypatch.setattr(limits, "SIGN_INS_BEGUN", 3)
    answers = [await staged.answer() for _ in range(4)]
    with pytest.raises(SignInRefusedError):
        await staged.ours.finish(answers[0])
    assert (await staged.ours.finish(answers[3])).subject == "anna-1"
