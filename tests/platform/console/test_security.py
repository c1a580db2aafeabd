"""What protects the console: sign-in, sessions, forms, names and headers, over HTTP against a real server."""

import asyncio
import re
from collections.abc import Iterator
from http.cookies import SimpleCookie

import pytest
from alcove.platform.client import PlatformClient, UnauthenticatedError
from alcove.platform.console.markdown import render_markdown
from alcove.platform.console.security import csrf_token, is_csrf_token, is_local_path
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.console.sign_in import SignInLimits
from alcove.platform.services.auth.local import create_local_token, list_local_tokens, revoke_local_token
from alcove.platform.testing import Served, ServerWorld
from yarl import URL

from tests.platform.console.conftest import Person, person, stranger

ELSEWHERE = (
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/",
    "javascript:alert(1)",
    "/a\\b",
    "/a b",
    "/a\r\nSet-Cookie: x=1",
    "evil.example",
    "",
)


@pytest.mark.parametrize("address", ELSEWHERE)
def test_an_address_elsewhere_is_no_local_path(address: str) -> None:
    """Nobody is sent away after signing in."""
    assert not is_local_path(address)


def test_addresses_of_pages_are_local_paths() -> None:
    """With filters too."""
    assert all(map(is_local_path, ("/", "/features", "/features/text_00?text=a%20b&page=x", "/a//b")))


def test_a_form_fits_one_session_only() -> None:
    """Another session's token makes another, and a text that is no token fits none."""
    one, other = "alc_a_b", "alc_a_c"
    assert is_csrf_token(one, csrf_token(one))
    assert not is_csrf_token(one, csrf_token(other))
    assert not is_csrf_token(one, "")
    assert not is_csrf_token(one, "ü\ud800")
    assert one not in csrf_token(one)


def test_attempts_to_sign_in_are_bounded_for_each_address_and_for_all() -> None:
    """Another address is not shut out by the first one's, until all together are too many."""
    limits = SignInLimits(2, 3)
    assert [limits.take("a") for _ in range(3)] == [True, True, False]
    assert limits.take("b")
    assert not limits.take("c")


@pytest.mark.parametrize(
    ("settings", "hosts"),
    [
        ({}, {"localhost", "127.0.0.1", "[::1]"}),
        ({"names": ("Console.Example",)}, {"localhost", "127.0.0.1", "[::1]", "console.example"}),
        ({"url": "https://Team.example:8443"}, {"localhost", "127.0.0.1", "[::1]", "team.example"}),
    ],
)
def test_the_console_answers_to_the_names_that_it_was_given(settings: dict[str, object], hosts: set[str]) -> None:
    """And to this machine's."""
    made = ConsoleSettings.model_validate({"grpc_target": "unix:/none", **settings})
    assert made.hosts == hosts
    assert made.is_secure == ("url" in settings)


async def cookie_of(one: Person, token: str, **fields: str) -> tuple[int, str, str]:
    """Status, Set-Cookie and Location of a sign-in."""
    sent = {"Origin": one.url}
    form = {"token": token, **fields}
    async with one.http.post(one.url + "/sign-in", data=form, headers=sent, allow_redirects=False) as answer:
        return answer.status, answer.headers.get("Set-Cookie", ""), answer.headers.get("Location", "")


async def test_each_sign_in_is_a_new_session_that_no_script_reads(world: ServerWorld, served: Served) -> None:
    """HttpOnly, SameSite=Strict, half a day; what the browser had before does not become the session (fixation)."""
    async with stranger(served) as one:
        made = []
        for _ in range(2):
            status, cookie, place = await cookie_of(one, world.token("reader"))
            assert (status, place) == (303, "/")
            (morsel,) = SimpleCookie(cookie).values()
            assert (morsel.key, morsel["path"], morsel["samesite"]) == ("alcove-session", "/", "Strict")
            assert morsel["httponly"] is True
            assert 0 < int(morsel["max-age"]) <= 12 * 3600
            made.append(morsel.value)
        assert len({*made, world.token("reader")}) == 3
    assert world.token("reader").rpartition("_")[2] not in served.log.read_text()
    assert not [token for token in made if token.rpartition("_")[2] in served.log.read_text()]


async def test_after_signing_in_nobody_is_sent_elsewhere(world: ServerWorld, served: Served) -> None:
    """An open redirect would lend the console's name to another page."""
    async with stranger(served) as one:
        for address in ("//evil.example", "https://evil.example/", "/\\evil.example"):
            assert (await cookie_of(one, world.token("reader"), next=address))[2] == "/"
        assert (await cookie_of(one, world.token("reader"), next="/features?text=a"))[2] == "/features?text=a"


async def test_what_is_no_token_signs_nobody_in(served: Served) -> None:
    """An answer says why, and no cookie is set."""
    async with stranger(served) as one:
        for token in ("", "hello", "alc_" + "0" * 16 + "_" + "0" * 64, "x" * 10_000, "alc_ü", "a\nb"):
            status, cookie, _ = await cookie_of(one, token)
            assert (status, cookie) == (401, ""), token


async def test_pages_lead_to_sign_in_and_data_are_refused_without_a_session(world: ServerWorld, served: Served) -> None:
    """An API token in the cookie is no session either."""
    async with stranger(served) as one:
        async with one.http.get(one.url + "/features?text=a", allow_redirects=False) as answer:
            assert answer.status == 303
            assert answer.headers["Location"] == "/sign-in?next=/features?text%3Da"
        assert (await one.get("/features.json"))[0] == 401
        assert (await one.get("/features", Accept="application/json"))[0] == 401
        assert (await one.get("/features.json", Cookie=f"alcove-session={world.token('operator')}"))[0] == 401
        status, page = await one.get("/features", **{"Sec-Fetch-Site": "cross-site"})
        assert status == 200
        assert 'http-equiv="refresh" content="0; url=/features"' in page


async def test_signing_out_ends_the_session_on_the_server(world: ServerWorld, served: Served) -> None:
    """Who kept the cookie has nothing."""
    async with person(world, served, "reader") as one:
        (cookie,) = [each for each in one.http.cookie_jar if each.key == "alcove-session"]
        assert (await one.act("/sign-out"))[0] == 200
        assert (await one.get("/features.json", Cookie=f"alcove-session={cookie.value}"))[0] == 401
        with PlatformClient(served.grpc_address, cookie.value) as client, pytest.raises(UnauthenticatedError):
            client.caller()


async def test_a_revoked_token_ends_its_sessions(world: ServerWorld, served: Served) -> None:
    """With the next page."""
    text, record = await asyncio.to_thread(create_local_token, world.data_dir, "reader", name="leaver")
    async with stranger(served) as one:
        await one.post("/sign-in", {"token": text})
        assert (await one.get("/features.json"))[0] == 200
        await asyncio.to_thread(revoke_local_token, world.data_dir, record.token_id)
        assert (await one.get("/features.json"))[0] == 401
    tokens = await asyncio.to_thread(list_local_tokens, world.data_dir)
    sessions = [each for each in tokens if each.parent_id == record.token_id]
    assert len(sessions) == 1
    assert sessions[0].revoked_at_s is not None


async def test_a_form_from_elsewhere_changes_nothing(world: ServerWorld, served: Served) -> None:
    """Another origin, another site, no word of where it comes from, no token, another's token: each is refused."""
    async with person(world, served, "reader") as one, person(world, served, "reader") as other:
        csrf = {"csrf": await one.csrf()}
        bad: list[tuple[dict[str, str], dict[str, str]]] = [
            (csrf, {"Origin": "https://evil.example"}),
            (csrf, {"Origin": "null"}),
            (csrf, {"Sec-Fetch-Site": "cross-site"}),
            (csrf, {"Sec-Fetch-Site": "same-site"}),
            (csrf, {"Sec-Fetch-Site": "none"}),
            ({}, {}),
            ({"csrf": "0" * 64}, {}),
            ({"csrf": await other.csrf()}, {}),
        ]
        for fields, headers in bad:
            assert (await one.post("/sign-out", fields, **headers))[0] == 403, (fields, headers)
        async with one.http.post(one.url + "/sign-out", data=csrf) as answer:  # as no browser sends it
            assert answer.status == 403
        assert (await one.get("/features.json"))[0] == 200


async def test_another_name_that_leads_here_is_refused(world: ServerWorld, served: Served) -> None:
    """DNS rebinding: the page of another name gets nothing, with the cookie or without."""
    async with person(world, served, "reader") as one:
        for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil.example"):
            assert (await one.get("/sign-in", Host=host))[0] == 421, host
            assert (await one.get("/features.json", Host=host))[0] == 421, host
        assert (await one.get("/sign-in", Host="LOCALHOST:1"))[0] == 200


PAGES = ("/sign-in", "/", "/features", "/features.json", "/nothing", "/features/none_such", "/assets/none.js")


async def test_every_answer_has_the_headers_that_protect_it(world: ServerWorld, served: Served) -> None:
    """Pages, data, errors and files; what is shown of a person is stored nowhere."""
    async with person(world, served, "reader") as one:
        _, page = await one.get("/")
        assets = re.findall(r'"(/assets/[^"]+)"', page)
        assert len(assets) >= 4
        for path in (*PAGES, *assets):
            async with one.http.get(one.url + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert "frame-ancestors 'none'" in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Referrer-Policy"] == "same-origin"
                assert answer.headers["Cross-Origin-Opener-Policy"] == "same-origin"
                assert "Server" not in answer.headers
                kept = "immutable" in answer.headers["Cache-Control"]
                assert kept == (path in assets), path
        assert "<script>" not in page
        assert " style=" not in page
        assert not re.search(r"\son[a-z]+=", page)


async def test_files_are_those_of_the_console_alone(served: Served) -> None:
    """Whatever way is tried."""
    async with stranger(served) as one:
        for path in (
            "/assets/../settings.py",
            "/assets/%2e%2e/settings.py",
            "/assets/..%2f..%2fetc/passwd",
            "/assets//etc/passwd",
            "/assets/console.css",
            "/assets/0000000000000000/console.css",
        ):
            async with one.http.get(URL(one.url + path, encoded=True), allow_redirects=False) as answer:
                assert answer.status in (303, 404), path
                text = await answer.text()
            assert "root:" not in text
            assert "ConsoleSettings" not in text


async def test_a_form_that_is_too_long_is_refused(world: ServerWorld, served: Served) -> None:
    """Before it is read to its end."""
    async with person(world, served, "reader") as one:
        assert (await one.post("/sign-out", {"csrf": await one.csrf(), "more": "x" * 20_000}))[0] == 413


def hostile_links() -> Iterator[str]:
    """Links that would run something or tell somebody."""
    for scheme in (
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "file:///etc/passwd",
    ):
        yield f"[a]({scheme})"
        yield f"<{scheme}>"
        yield f"[a][b]\n\n[b]: {scheme}"
    yield "[a](//evil.example)"
    yield "![a](https://evil.example/pixel.png)"


@pytest.mark.parametrize("text", list(hostile_links()))
def test_a_card_has_no_link_that_runs_and_no_picture(text: str) -> None:
    """Only http, https and mailto lead anywhere."""
    shown = str(render_markdown(text))
    assert not re.search(r'(href|src)="(?!https?:|mailto:)', shown), shown
    assert "<img" not in shown


def test_a_card_keeps_what_is_harmless() -> None:
    """Headings below the page's, tables, links that tell nothing of the page they are on."""
    shown = str(render_markdown("# A\n\n[b](https://example.com)\n\n| c |\n|---|\n| d |\n"))
    assert "<h3>A</h3>" in shown
    assert '<a href="https://example.com" rel="nofollow noopener noreferrer">b</a>' in shown
    assert "<td>d</td>" in shown
