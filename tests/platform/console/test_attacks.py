"""Attacks on every route of the console, whichever there are: a new page is attacked without a line here.

The routes come from the application itself, with the ways to sign in that its settings can open.
"""

import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.console.app import create_console
from alcove.platform.console.calls import open_calls
from alcove.platform.console.kept_forms import LONG_FORMS
from alcove.platform.console.security import HEADERS
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.testing import Served, ServerWorld
from yarl import URL

from tests.platform.console.conftest import person, stranger

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
OPEN = ("/sign-in", "/healthz", "/assets/")
LONG = "x" * 10_000


def routes_of(app: web.Application) -> list[tuple[str, str]]:
    """Method and address of each route, with a name that nothing has in the place of each variable."""
    found = set()
    for route in app.router.routes():
        assert route.resource is not None
        path = re.sub(r"\{rest[^}]*\}", "0000000000000000/none.css", route.resource.canonical)
        found.add((route.method, re.sub(r"\{[^}]*\}", "none", path)))
    return sorted(found)


@asynccontextmanager
async def whole() -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A console with every way to sign in, whose server is away."""
    settings = ConsoleSettings(
        grpc_target="unix:/nowhere/console.sock",
        client_ca=Path("/nowhere/ca.pem"),
        provider="https://login.example",
        sign_ins_per_minute=10_000,
        sign_ins_per_minute_in_all=100_000,
    )
    async with (
        open_calls(settings.grpc_target, 2) as calls,
        TestClient(TestServer(create_console(settings, calls))) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def routes() -> list[tuple[str, str]]:
    """The routes of a console with every way to sign in."""
    from unittest.mock import Mock

    settings = ConsoleSettings(grpc_target="unix:/x", client_ca=Path("/x"), provider="https://login.example")
    found = routes_of(create_console(settings, Mock()))
    assert len(found) > 20
    assert {"/sign-in/certificate", "/sign-in/oidc", "/sign-in/oidc/callback"} <= {path for _, path in found}
    return found


def is_open(path: str) -> bool:
    """Whether an address is for those who are not signed in."""
    return path.startswith(OPEN)


async def test_without_a_session_no_route_answers_to_any_method(served: Served, routes: list[tuple[str, str]]) -> None:
    """A page leads to sign in, data are refused, a form is refused; nobody learns what is there."""
    async with stranger(served) as one:
        for path in sorted({path for _, path in routes if not is_open(path)}):
            for method in METHODS:
                headers = {"Origin": one.url, "Sec-Fetch-Site": "same-origin"}
                async with one.http.request(method, one.url + path, headers=headers, allow_redirects=False) as answer:
                    text = await answer.text()
                    assert answer.status in (303, 400, 401, 405), (method, path, answer.status)
                    if answer.status == 303:
                        assert answer.headers["Location"].startswith("/sign-in"), (method, path)
                    assert 'name="csrf"' not in text, (method, path)


async def test_every_form_is_refused_from_elsewhere_and_without_its_token(
    world: ServerWorld, served: Served, routes: list[tuple[str, str]]
) -> None:
    """Each POST route there is: the origin first, then the token of the session's forms."""
    posts = [path for method, path in routes if method == "POST"]
    assert len(posts) > 8
    with world.client(served, "team:text") as team:
        world.publish(team, "text_20")
    async with person(world, served, "operator") as one, person(world, served, "operator") as other:
        foreign = await other.csrf()
        for path in posts:
            csrf = {"csrf": await one.csrf()}
            for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
                assert (await one.post(path, csrf, **headers))[0] == 403, (path, headers)
            async with one.http.post(one.url + path, data=csrf) as answer:  # no word of where it comes from
                assert answer.status == 403, path
            if is_open(path):
                continue
            for fields in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": foreign}, {"csrf": LONG}):
                status, _ = await one.post(path, {"step": "create", **fields})
                # A thing or an action that is not there may be missed before the form is looked at; a long form is
                # shown again with what was written, and does nothing (K3 of kept_forms.py).
                is_kept = status in (200, 400) and path.removesuffix(".json") in LONG_FORMS
                assert status == 403 or (status == 404 and "none" in path) or is_kept, (path, fields)
        for name in ("validate", "deprecate", "revoke"):
            path = f"/features/text_20/versions/1.0.0/actions/{name}"
            for fields in ({}, {"csrf": foreign, "reason": "x", "confirmation": "text_20 1.0.0"}):
                assert (await one.post(path, fields))[0] == 403, (path, fields)
        assert (await one.get("/features.json"))[0] == 200  # nobody was signed out
    with world.client(served, "operator") as operator:
        assert not operator.experiments()


async def test_every_answer_has_every_header_that_protects_it(
    world: ServerWorld, served: Served, routes: list[tuple[str, str]]
) -> None:
    """Each route and method, signed in or not, what is not there, and what is refused; nothing is kept in a cache."""
    paths = [*{path for _, path in routes}, "/none", "/none.json", "//", "/%00", "/features/%2e%2e"]
    async with person(world, served, "operator") as one, stranger(served) as nobody:
        for someone in (one, nobody):
            for path in paths:
                for method, accept in (("GET", "text/html"), ("POST", "application/json")):
                    headers = {"Accept": accept}
                    address = URL(someone.url + path, encoded=True)
                    async with someone.http.request(method, address, headers=headers, allow_redirects=False) as answer:
                        for name, value in HEADERS.items():
                            assert answer.headers.get(name) == value, (method, path, name)
                        assert answer.headers["Cache-Control"] == "no-store", (method, path)
                        assert "Server" not in answer.headers, path
                        assert answer.status != 500, (method, path)


async def test_a_stream_of_events_has_the_headers_too(world: ServerWorld, served: Served) -> None:
    """It is an answer as any other, to who is signed in."""
    with world.client(served, "team:text") as team:
        world.publish(team, "text_21")
    with world.client(served, "operator") as operator:
        rollout_id = operator.create_rollout("app-attacks", "text_21", "1.0.0").rollout_id
    path = f"/rollouts/{rollout_id}/live"
    async with stranger(served) as nobody:
        assert (await nobody.get(path, Accept="application/json"))[0] == 401
    async with person(world, served, "reader") as one, one.http.get(one.url + path) as answer:
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert HEADERS.items() <= dict(answer.headers).items()
        assert "no-store" in answer.headers["Cache-Control"]
    with world.client(served, "operator") as operator:
        operator.delete_rollout(rollout_id)


@pytest.mark.thorough
async def test_a_name_of_ten_thousand_characters_is_refused_wherever_it_stands(
    world: ServerWorld, served: Served, routes: list[tuple[str, str]]
) -> None:
    """In each part of an address, each parameter, each field of a form: an answer below 500, and a short one."""
    async with person(world, served, "operator") as one:
        csrf = await one.csrf()
        shapes = sorted(
            {path for method, path in routes if method == "GET" and "none" in path and "/assets/" not in path}
        )
        for path in shapes:
            for place in re.finditer("none", path):
                long = path[: place.start()] + "x" * 3_000 + path[place.end() :]  # as much as a first line may have
                status, page = await one.get(long)
                assert status < 500, path
                assert len(page) < 40_000
        names = ("text", "state", "order", "size", "page", "team", "with", "next", "done", "alias")
        for path in sorted({path for method, path in routes if method == "GET" and "/assets/" not in path}):
            for name in names:
                status, _ = await one.get(f"{path}?{name}={'x' * 3_000}")
                assert status < 500, (path, name)
        for path in (path for method, path in routes if method == "POST" and path != "/sign-out"):
            for name in (
                "reason",
                "request_id",
                "confirmation",
                "alias",
                "session_id",
                "next",
                "theme",
                "token",
                "text",
            ):
                status, page = await one.post(path, {"csrf": csrf, name: LONG})
                assert 400 <= status < 500 or status == 200, (path, name, status)
                assert "Traceback" not in page


async def test_what_is_too_long_to_be_a_request_is_refused(served: Served) -> None:
    """Addresses, headers and cookies that no browser sends: 4xx or a closed connection, and the console goes on."""
    address = served.console_url.removeprefix("http://") if served.console_url else ""
    host, _, port = address.rpartition(":")
    for head in (
        f"GET /{'x' * 100_000} HTTP/1.1\r\nHost: {address}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {address}\r\nX: {'x' * 100_000}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {address}\r\nCookie: alcove-session={'x' * 100_000}\r\n\r\n",
        f"GET / HTTP/1.1\r\nHost: {address}\r\n" + "".join(f"X-{n}: x\r\n" for n in range(50_000)) + "\r\n",
        f"GET / HTTP/1.1\r\nHost: {address}\r\nContent-Length: -1\r\n\r\n",
        f"POST / HTTP/1.1\r\nHost: {address}\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "\x00" * 1000,
    ):
        answered = b""
        with socket.create_connection((host, int(port)), timeout=60) as made:
            try:
                made.sendall(head.encode("latin-1"))
                made.shutdown(socket.SHUT_WR)
                answered = made.recv(65_536)
            except OSError:
                pass
        assert not answered or answered.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), head[:60]
    async with stranger(served) as one:
        assert (await one.get("/healthz"))[1] == "ok\n"


async def test_no_way_into_assets_leads_out_of_them(served: Served) -> None:
    """Whatever stands for a folder above, however often it is encoded."""
    ups = ("..", "%2e%2e", "%2E%2E", "..%2f", "..%5c", "%252e%252e", "%c0%ae%c0%ae", ".%00.", "....//", "..;")
    ends = ("settings.py", "app.py", "templates/base.html", "etc/passwd", "proc/self/environ")
    async with stranger(served) as one:
        for up in ups:
            for depth in (1, 2, 6):
                for end in ends:
                    address = URL(f"{one.url}/assets/{'/'.join([up] * depth)}/{end}", encoded=True)
                    async with one.http.get(address, allow_redirects=False) as answer:
                        text = await answer.text()
                        assert answer.status in (303, 400, 404), str(address)
                    assert not re.search("root:|ConsoleSettings|{% block|PATH=", text), str(address)


async def test_forged_ids_end_and_show_nothing_of_others(world: ServerWorld, served: Served) -> None:
    """Another person's session can be neither ended nor seen, and ids that are none are refused."""
    async with person(world, served, "operator") as one, person(world, served, "reader") as other:
        (theirs,) = [each for each in (await other.json("/sessions.json"))["sessions"] if each["is_current"]]
        for forged in (theirs["session_id"], "0" * 16, "../x", "", "' OR 1=1 --", "x" * 10_000):
            status, page = await one.act("/sessions/actions/end", session_id=forged)
            assert status in (400, 404), (forged[:20], status)
            assert 'role="alert"' in page
        seen = {each["session_id"] for each in (await one.json("/sessions.json"))["sessions"]}
        assert theirs["session_id"] not in seen
        await one.act("/sessions/actions/end-others")
        assert (await other.get("/features.json"))[0] == 200


async def test_a_session_that_was_planted_never_becomes_signed_in(world: ServerWorld, served: Served) -> None:
    """The browser gets another one at each sign-in, and what it had before stays nobody's (session fixation)."""
    planted = f"alc_{'a' * 16}_{'b' * 64}"
    async with stranger(served) as victim, stranger(served) as attacker:
        victim.http.cookie_jar.update_cookies({"alcove-session": planted}, URL(victim.url))
        sent = {"Origin": victim.url}
        form = {"token": world.token("reader")}
        async with victim.http.post(victim.url + "/sign-in", data=form, headers=sent, allow_redirects=False) as answer:
            (made,) = SimpleCookie(answer.headers["Set-Cookie"]).values()
        assert made.value not in (planted, world.token("reader"))
        assert (await victim.get("/features.json"))[0] == 200
        assert (await attacker.get("/features.json", Cookie=f"alcove-session={planted}"))[0] == 401


async def test_a_person_sees_and_ends_the_own_sessions(world: ServerWorld, served: Served) -> None:
    """One by one, or all others at once; the browser in use stays signed in."""
    async with (
        person(world, served, "team:speech") as one,
        person(world, served, "team:speech") as second,
        person(world, served, "team:speech") as third,
    ):
        (mine,) = [each for each in (await second.json("/sessions.json"))["sessions"] if each["is_current"]]
        status, page = await one.act("/sessions/actions/end", session_id=mine["session_id"])
        assert status == 200
        assert "The session has ended." in page
        assert (await second.get("/features.json"))[0] == 401
        status, page = await one.act("/sessions/actions/end-others")
        assert "Your other sessions have ended." in page
        assert (await third.get("/features.json"))[0] == 401
        (left,) = (await one.json("/sessions.json"))["sessions"]
        assert left["is_current"]


async def test_without_a_server_every_route_says_so(routes: list[tuple[str, str]]) -> None:
    """No stack, no hang, and the headers are there all the same."""
    async with whole() as client:
        origin = {"Origin": f"http://{client.host}:{client.port}", "Cookie": "alcove-session=alc_0_0"}
        for method, path in routes:
            if method not in ("GET", "POST"):
                continue
            async with client.request(method, path, headers=origin, allow_redirects=False) as answer:
                text = await answer.text()
                assert answer.status in (200, 303, 403, 404, 503), (method, path, answer.status)
                assert "Traceback" not in text
                assert HEADERS.items() <= dict(answer.headers).items(), path
