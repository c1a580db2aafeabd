"""The console as a process of its own, and as an application whose server is away or that stands behind TLS."""

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.console.app import create_console
from alcove.platform.console.calls import open_calls
from alcove.platform.console.settings import ConsoleSettings
from alcove.platform.server.console_process import console_door, console_settings, names_of_certificate
from alcove.platform.server.settings import Settings
from alcove.platform.testing import Served, ServerWorld
from cryptography import x509
from pydantic import ValidationError

from tests.platform.console.conftest import person, stranger

PATIENCE_S = 120.0


@asynccontextmanager
async def lonely(**settings: object) -> AsyncIterator[TestClient[web.Request, web.Application]]:
    """A console whose server is away."""
    made = ConsoleSettings.model_validate({"grpc_target": "unix:/nowhere/console.sock", **settings})
    async with open_calls(made.grpc_target, 2) as calls, TestClient(TestServer(create_console(made, calls))) as client:
        yield client


async def test_a_page_says_that_the_server_is_away_and_asks_again() -> None:
    """For people a page that loads itself again, for programs 503 with a time; what one was is not forgotten."""
    async with lonely() as client:
        headers = {"Cookie": "alcove-session=alc_0_0"}
        async with client.get("/features", headers=headers) as answer:
            page = await answer.text()
            assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
            assert 'http-equiv="refresh" content="5"' in page
            assert "Set-Cookie" not in answer.headers
        async with client.get("/features.json", headers=headers) as answer:
            assert (await answer.json())["error"]["title"] == "The server does not answer"
        origin = f"http://{client.host}:{client.port}"
        async with client.post("/sign-in", data={"token": "x"}, headers={"Origin": origin}) as answer:
            assert answer.status == 503
        async with client.get("/healthz") as answer:
            assert answer.status == 200


async def test_behind_tls_cookies_are_for_tls_alone() -> None:
    """And browsers are told to come by TLS from now on."""
    headers = {"Host": "console.example"}
    async with (
        lonely(url="https://console.example") as client,
        client.get("/features", headers=headers, allow_redirects=False) as answer,
    ):
        assert answer.headers["Strict-Transport-Security"].startswith("max-age=")
        cookie = answer.headers["Set-Cookie"]  # forgotten as it was set, or a browser would keep it
        assert cookie.startswith("__Host-alcove-session=")
        assert "; Secure" in cookie
        assert "Path=/" in cookie
        assert "Domain" not in cookie


async def test_too_many_attempts_to_sign_in_wait() -> None:
    """The third of two a minute is not even asked about."""
    async with lonely(sign_ins_per_minute=2) as client:
        headers = {"Origin": f"http://{client.host}:{client.port}"}
        found = []
        for _ in range(3):
            async with client.post("/sign-in", data={"token": "x"}, headers=headers) as answer:
                found.append(answer.status)
        assert found == [503, 503, 429]


def test_off_this_machine_the_console_needs_tls(tmp_path: Path) -> None:
    """What people type would be readable on the way."""
    where = {"data_dir": tmp_path, "online_keys": tmp_path, "console": True}
    for host in ("0.0.0.0", "::", "192.0.2.1", "console.example"):
        with pytest.raises(ValidationError, match="TLS"):
            Settings.model_validate({**where, "host": host})
    for host in ("127.0.0.1", "::1", "localhost"):
        assert Settings.model_validate({**where, "host": host}).console
    assert not Settings.model_validate({**where, "console": False, "host": "0.0.0.0"}).console


def test_the_console_answers_to_the_names_of_the_certificate(tmp_path: Path) -> None:
    """But to none that a wildcard stands for."""
    import trustme

    leaf = trustme.CA().issue_cert("console.example", "*.any.example", "192.0.2.7", "2001:db8::1")
    pem = leaf.cert_chain_pems[0].bytes()
    x509.load_pem_x509_certificate(pem)  # it is one
    assert names_of_certificate(pem) == ("console.example", "192.0.2.7", "[2001:db8::1]")
    assert names_of_certificate(b"none") == ()
    (tmp_path / "chain.pem").write_bytes(pem)
    settings = Settings(
        data_dir=tmp_path,
        online_keys=tmp_path,
        host="192.0.2.7",
        tls_certificate=tmp_path / "chain.pem",
        tls_key=tmp_path / "key.pem",
        console=True,
    )
    made = console_settings(settings, "unix:/nowhere")
    assert {"console.example", "192.0.2.7", "[2001:db8::1]", "localhost"} <= made.hosts
    assert made.is_secure


def test_the_door_is_this_users_alone() -> None:
    """A folder that nobody else enters, and that goes with the server."""
    with console_door() as door:
        folder = Path(door.removeprefix("unix:")).parent
        assert folder.stat().st_mode & 0o077 == 0
    assert not folder.exists()


def children(pid: int) -> dict[int, str]:
    """The processes that a process has started, and their commands."""
    return {
        int(child): Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    }


@pytest.mark.thorough
async def test_a_console_that_is_killed_comes_back_and_knows_who_was_signed_in(
    world: ServerWorld, served: Served
) -> None:
    """It remembers nothing itself: the session is the server's.  Calls of operators went on meanwhile."""
    async with person(world, served, "reader") as one:
        (first,) = [pid for pid, command in children(served.pid).items() if "alcove.platform.console" in command]
        os.kill(first, signal.SIGKILL)
        until_s = time.monotonic() + PATIENCE_S
        status = 0
        while status != 200:
            assert time.monotonic() < until_s
            try:
                status, _ = await one.get("/features.json")
            except aiohttp.ClientError:  # of the connection that ended with the process
                continue
        assert first not in children(served.pid)
    assert '"the console answers again"' in served.log.read_text()
    async with stranger(served) as other:
        assert (await other.get("/healthz"))[1] == "ok\n"
