"""Webhooks against a real receiver on loopback that is down, slow, hostile or obedient."""

import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme
from alcove.platform.alerts.outcomes import ATTEMPTS, LONGEST_WAIT_S, Outcome, delay_after
from alcove.platform.alerts.signing import sign
from alcove.platform.alerts.webhook import Webhook

from tests.platform.alerts.receivers import (
    SECRET,
    Answer,
    HttpReceiver,
    make_alert,
    receive_http,
    status,
    webhook,
)

NOW_S = 1_800_000_100


async def send(url: str, **more: Any) -> Outcome:
    """Send one alert to a URL."""
    sender = Webhook(webhook(url, **more), source="alcove", console="", now=lambda: NOW_S)
    return await sender.send(make_alert())


async def test_a_receiver_gets_a_signed_event() -> None:
    """Method, media type, id, time and signature are as the specification says."""
    async with receive_http(HttpReceiver()) as receiver:
        assert await send(receiver.url) == Outcome()
    (request,) = receiver.requests
    assert request.line == "POST /hook HTTP/1.1"
    assert request.headers["content-type"] == "application/cloudevents+json"
    wanted = sign([SECRET], message_id=make_alert().alert_id, at_s=NOW_S, body=request.body)
    assert wanted.items() <= request.headers.items()


@pytest.mark.parametrize("code", [200, 202, 204, 299])
async def test_any_success_is_one(code: int) -> None:
    """2xx is delivered."""
    async with receive_http(HttpReceiver(status(code))) as receiver:
        assert await send(receiver.url) == Outcome()


@pytest.mark.parametrize(
    ("answer", "problem", "is_final", "wait_s"),
    [
        (status(500), "localhost answered 500", False, 0),
        (status(404), "localhost answered 404", False, 0),
        (status(410), "localhost answered 410", True, 0),
        (status(429, "Retry-After: 120"), "localhost answered 429", False, 120),
        (status(503, "Retry-After: 99999999999"), "localhost answered 503", False, LONGEST_WAIT_S),
        (status(503, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"), "localhost answered 503", False, 0),
        (lambda _request: b"SSH-2.0-OpenSSH\r\n", "localhost cannot be spoken to: ClientResponseError", False, 0),
        (lambda _request: b"", "localhost cannot be spoken to: ServerDisconnectedError", False, 0),
    ],
)
async def test_a_refusal_is_said_with_the_host_alone(answer: Answer, problem: str, is_final: bool, wait_s: int) -> None:
    """No path and no answer's text is in a problem; 410 ends it, and a wait that is asked for is bounded."""
    async with receive_http(HttpReceiver(answer)) as receiver:
        outcome = await send(receiver.url)
    assert outcome.problem.startswith(problem.partition(":")[0])
    assert (outcome.is_final, outcome.wait_s) == (is_final, wait_s)
    assert "hook" not in outcome.problem


async def test_a_redirect_is_not_followed() -> None:
    """A receiver that points elsewhere, into a private network for one, is not obeyed."""
    async with receive_http(HttpReceiver()) as other:
        async with receive_http(HttpReceiver(status(307, f"Location: {other.url}"))) as receiver:
            outcome = await send(receiver.url)
        assert "redirects are not followed" in outcome.problem
        assert not other.requests


async def test_a_huge_answer_is_not_read() -> None:
    """What counts is the status: a gigabyte of body, or of header, costs a few kilobytes."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    async with receive_http(HttpReceiver(lambda _request: head + b"x" * 1_000_000)) as receiver:
        assert await send(receiver.url) == Outcome()
    async with receive_http(HttpReceiver(status(200, "X: " + "y" * 100_000))) as receiver:
        assert "localhost cannot be spoken to" in (await send(receiver.url)).problem


async def test_a_silent_receiver_is_left_in_time() -> None:
    """The attempt ends after its timeout."""
    async with receive_http(HttpReceiver(lambda _request: None)) as receiver:
        assert (await send(receiver.url, timeout_s=0.1)).problem == "localhost did not answer within 0.1 s"


async def test_a_receiver_that_is_down_is_said() -> None:
    """Nobody listens any more."""
    async with receive_http(HttpReceiver()) as receiver:
        pass
    assert "localhost cannot be reached" in (await send(receiver.url)).problem


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
async def test_this_machine_is_refused_unless_allowed(host: str) -> None:
    """By name or by address, nothing is sent."""
    async with receive_http(HttpReceiver()) as receiver:
        outcome = await send(f"http://{host}:{receiver.port}/", allow_addresses=())
    assert "which is not public" in outcome.problem
    assert not receiver.requests


async def test_environment_proxies_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would resolve names in our place."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with receive_http(HttpReceiver()) as receiver:
        assert await send(receiver.url) == Outcome()


async def test_tls_is_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate of nobody is refused, one of a trusted authority is taken."""
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    async with receive_http(HttpReceiver(), tls) as receiver:
        outcome = await send(receiver.url)
        assert "localhost cannot be" in outcome.problem
        assert not receiver.requests
        authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
        monkeypatch.setattr(
            "aiohttp.connector._SSL_CONTEXT_VERIFIED", ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
        )
        assert await send(receiver.url) == Outcome()


def test_waits_grow_and_end() -> None:
    """From seconds to hours, a day and more in all, never longer than the bound, with jitter half as long at least."""
    waits = [delay_after(number, 0.0) for number in range(1, ATTEMPTS)]
    assert waits[:4] == [5, 20, 80, 320]
    assert waits == sorted(waits)
    assert max(waits) == LONGEST_WAIT_S
    assert 24 * 3600 < sum(waits) < 48 * 3600
    assert all(wait / 2 <= delay_after(number, 0.999) <= wait for number, wait in enumerate(waits, 1))
