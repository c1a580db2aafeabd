"""One server with its console for the tests of a module, and people who are signed in."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from alcove.platform.testing import Served, ServerWorld

TEAMS = {"text": tuple(f"text_{number:02d}" for number in range(40)), "speech": ("speech_00",)}
ROLES = ("reader", "operator", "operator:text", "operator:speech", "team:text", "team:speech")


@dataclass
class Person:
    """Somebody with a browser: keeps cookies, sends what browsers send."""

    http: aiohttp.ClientSession
    url: str

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Status and text of a page; redirects are followed."""
        async with self.http.get(self.url + path, headers=headers) as answer:
            return answer.status, await answer.text()

    async def json(self, path: str) -> Any:
        """The data of a page."""
        async with self.http.get(self.url + path) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> tuple[int, str]:
        """Status and text after a form from a page of the console; redirects are followed."""
        sent = {"Origin": self.url, "Sec-Fetch-Site": "same-origin"} | headers
        async with self.http.post(self.url + path, data=fields, headers=sent) as answer:
            return answer.status, await answer.text()

    async def csrf(self) -> str:
        """The token of this session's forms."""
        _, page = await self.get("/features")
        found = re.search(r'name="csrf" value="([0-9a-f]{64})"', page)
        assert found is not None, page
        return found[1]

    async def act(self, path: str, **fields: str) -> tuple[int, str]:
        """Do an action, with the token of the session's forms."""
        return await self.post(path, {"csrf": await self.csrf(), **fields})


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> ServerWorld:
    """Keys, tree and tokens of the module's server."""
    made = ServerWorld(tmp_path_factory.mktemp("console") / "world", teams=TEAMS)
    for role in ROLES:
        made.token(role)  # which cannot be made in a loop that runs
    return made


@pytest.fixture(scope="module")
def served(world: ServerWorld) -> Iterator[Served]:
    """The module's server with its console; it must end cleanly."""
    server = world.start("--console", "true", "--console-port", "0")
    yield server
    assert server.stop() == 0


@asynccontextmanager
async def stranger(served: Served) -> AsyncIterator[Person]:
    """Somebody who has not signed in."""
    assert served.console_url is not None
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
        yield Person(http, served.console_url)


@asynccontextmanager
async def person(world: ServerWorld, served: Served, role: str) -> AsyncIterator[Person]:
    """Somebody who has signed in with a token of a role."""
    async with stranger(served) as one:
        status, page = await one.post("/sign-in", {"token": world.token(role)})
        assert status == 200, page
        yield one
