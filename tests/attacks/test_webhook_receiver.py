"""Who answers a webhook, or its name, tries to have the server call its own network, or to hold it up."""

import asyncio
import socket
from typing import Any

import pytest
from alcove.platform.alerts.outcomes import Outcome
from alcove.platform.alerts.webhook import Webhook

from tests.platform.alerts.receivers import HttpReceiver, make_alert, receive_http, status, webhook


async def send(url: str, **more: Any) -> Outcome:
    """Send one alert to a URL."""
    return await Webhook(webhook(url, **more), source="alcove", console="").send(make_alert())


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "::ffff:127.0.0.1", "10.0.0.1"])
async def test_a_name_that_becomes_an_inner_address_is_refused_at_each_attempt(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connection asks for the name once and goes to what was checked: a name that changes reaches nothing."""
    asked: list[str] = []

    async def resolve(host: str, port: int, **_more: Any) -> list[Any]:
        asked.append(host)
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    async with receive_http(HttpReceiver()) as inner:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        outcomes = [await send(f"https://hooks.example:{inner.port}/", allow_addresses=()) for _ in range(2)]
    assert all("which is not public" in outcome.problem for outcome in outcomes)
    assert asked == ["hooks.example"] * 2
    assert not inner.requests


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_a_redirect_into_the_own_network_is_not_followed(code: int) -> None:
    """Whatever the status, the alert and its signature go nowhere else."""
    async with receive_http(HttpReceiver()) as inner, receive_http(HttpReceiver()) as receiver:
        receiver.answer = status(code, f"Location: {inner.url}")
        assert "redirects are not followed" in (await send(receiver.url)).problem
        assert not inner.requests


async def test_what_a_receiver_answers_is_repeated_nowhere() -> None:
    """A receiver's words are in no problem: they would be in rows, logs and lists."""
    async with receive_http(HttpReceiver(status(500, body=b"\x1b[31m<script>"))) as receiver:
        assert (await send(receiver.url)).problem == "localhost answered 500"
