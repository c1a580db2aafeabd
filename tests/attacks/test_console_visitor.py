"""A page of the web, visited by somebody who is signed in to the console: it sends forms, frames and rebinds names."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.console.app import create_console
from alcove.platform.console.calls import open_calls
from alcove.platform.console.security import csrf_token
from alcove.platform.console.settings import ConsoleSettings

Visited = TestClient[web.Request, web.Application]
SESSION = f"alc_{'1' * 16}_{'2' * 64}"
ACTIONS = (
    "/sign-in",
    "/sign-out",
    "/theme",
    "/features/text_00/versions/1.0.0/actions/revoke",
    "/features/text_00/actions/approve-ap-1",
)
ELSEWHERE: tuple[dict[str, str], ...] = (
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "cross-site"},
    {},
)


@pytest.fixture
async def console() -> AsyncIterator[Visited]:
    """A console; what reaches its server's calls ends in 503, for there is none."""
    settings = ConsoleSettings(grpc_target="unix:/nowhere/console.sock")
    async with (
        open_calls(settings.grpc_target, 2) as calls,
        TestClient(TestServer(create_console(settings, calls))) as client,
    ):
        yield client


async def test_a_form_of_another_site_reaches_no_call(console: Visited) -> None:
    """Even with the cookie and the right token of its forms, which another site has not."""
    cookie = {"Cookie": f"alcove-session={SESSION}"}
    form = {"csrf": csrf_token(SESSION), "token": SESSION, "reason": "x", "confirmation": "text_00 1.0.0"}
    ours = {"Origin": f"http://{console.host}:{console.port}", "Sec-Fetch-Site": "same-origin"}
    for path in ACTIONS:
        for headers in ELSEWHERE:
            async with console.post(path, data=form, headers=cookie | headers) as answer:
                assert answer.status == 403, (path, headers)
        async with console.post(path, data=form, headers=cookie | ours) as answer:
            assert answer.status == 503, path  # the same form from a page of ours goes on to the server


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"])
async def test_other_methods_of_another_site_are_refused(console: Visited, method: str) -> None:
    """And no answer lets another origin read."""
    async with console.request(method, "/features", headers={"Origin": "https://evil.example"}) as answer:
        assert answer.status == 403
        assert not [name for name in answer.headers if name.startswith("Access-Control-")]


async def test_a_name_that_is_bound_to_the_console_gets_nothing(
    console: Visited,
) -> None:
    """DNS rebinding: to the browser the attacker's page and the console are then one origin."""
    for path in ("/", "/sign-in", "/features.json", "/healthz", "/assets/x"):
        headers = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
        for method in ("GET", "POST"):
            async with console.request(method, path, headers=headers) as answer:
                assert answer.status == 421, (method, path)


async def test_no_page_is_framed_or_loaded_as_a_part_of_another(
    console: Visited,
) -> None:
    """Clickjacking, and scripts that read data as if they were a script."""
    for path in ("/sign-in", "/features.json", "/nothing"):
        async with console.get(path) as answer:
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Frame-Options"] == "DENY"
            assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
