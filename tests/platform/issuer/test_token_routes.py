"""Devices enroll and get tokens over HTTP; what no device sends is refused by its form, and counted by reason."""

import asyncio
import urllib.parse
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from alcove.platform.aggregator.peer import HttpIssuer
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.issuer import make_software_evidence
from alcove.platform.store import running_tasks
from alcove.platform.testing.ingress import RunningIngress, running_ingress
from alcove.privacy.dap.report_tokens import request_report_token, token_key_path
from alcove.privacy.entropy import OsEntropy
from alcove.privacy.tokens import TokenKey, TokenResponse, finish_token
from alcove.registry.errors import KeyFileError
from alcove.runtime.testing_seams import ManualClock
from alcove.sdk.egress import Egress
from alcove.sdk.shared_reports import DueReport
from alcove.sdk.storage import Files
from alcove.sdk.tokens import DeviceTokens
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import ValidationError

from tests.platform.issuer.test_issuer import DAP_TASK, TASK, TIME, URL, WINDOW_S, Device

PATH = urllib.parse.urlsplit(URL).path
BYTES = {"Content-Type": "application/octet-stream"}
TASK_PATH, KEY = token_key_path(DAP_TASK.task_id, TIME).split("/token_keys")[0], token_key_path(DAP_TASK.task_id, TIME)


@pytest.fixture
def vendor(tmp_path: Path) -> Ed25519PrivateKey:
    """The software attestor's key; its public part is in vendor.pem."""
    key = Ed25519PrivateKey.generate()
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "vendor.pem").write_bytes(pem)
    return key


@pytest.fixture
async def running(
    tmp_path: Path, vendor: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[RunningIngress]:
    """An ingress that issues tokens for `TASK`, at noon of its first window."""
    monkeypatch.setattr(running_tasks, "tasks_of", lambda _record: (TASK,))
    clock = ManualClock(TIME * WINDOW_S + WINDOW_S // 2)
    attestation = tmp_path / "vendor.pem"
    settings = {"token_issuer": URL, "software_attestation": attestation, "tokens_per_second": 1000}
    async with running_ingress(tmp_path / "data", clock, **settings) as opened:
        yield opened


async def _ask(
    running: RunningIngress, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    url = f"{running.ingress.http_url}{PATH}/{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, data=body, headers=headers) as answer:
        return answer.status, await answer.read()


async def test_device_enrolls_and_gets_its_token(running: RunningIngress, vendor: Ed25519PrivateKey) -> None:
    """Challenge, enrollment, key, token; a second one is refused as a conflict."""
    status, challenge = await _ask(running, "POST", "challenges")
    assert status == 200
    device = Device(bytes(32), vendor)
    for _ in range(2):
        assert await _ask(running, "POST", "enrollments", device.enrollment(challenge).to_bytes(), BYTES) == (204, b"")
    status, encoded = await _ask(running, "GET", KEY)
    assert status == 200
    key = TokenKey.from_bytes(encoded)
    pending, _ = request_report_token(DAP_TASK, TIME, key, OsEntropy())
    order = device.order(pending.request).to_bytes()
    for _ in range(2):
        status, answer = await _ask(running, "POST", f"{TASK_PATH}/tokens/{TIME}", order, BYTES)
        assert status == 200
        finish_token(pending, TokenResponse.from_bytes(answer), key)
    second, _ = request_report_token(DAP_TASK, TIME, key, OsEntropy())
    order = device.order(second.request).to_bytes()
    assert (await _ask(running, "POST", f"{TASK_PATH}/tokens/{TIME}", order, BYTES))[0] == 409
    assert running.ingress.figures().refused == {"token_request": 1}


async def test_device_s_own_code_gets_its_token_over_http(
    running: RunningIngress, vendor: Ed25519PrivateKey, tmp_path: Path
) -> None:
    """Every party of the task is this server: it names the same key, and gives the token."""
    way = Egress(f"{running.ingress.http_url}{PATH}")
    clock = ManualClock(TIME * WINDOW_S + WINDOW_S // 2)

    def attest(digest: bytes) -> bytes:
        return make_software_evidence(vendor, bytes(32), digest)

    tokens = DeviceTokens(tmp_path, Files(), clock, OsEntropy(), attest)
    due = DueReport(TASK, DAP_TASK, 0)
    first = await asyncio.to_thread(tokens.find, due, lambda _server: way)
    assert first is not None
    again = DeviceTokens(tmp_path, Files(), clock, OsEntropy(), attest)
    assert again.find(due, lambda _server: way) == first
    way.close()


async def test_aggregators_get_the_key_or_hear_that_there_is_none(running: RunningIngress) -> None:
    """Over HTTP; what is no key, and an issuer that is away, is a peer that does not answer."""
    url = f"{running.ingress.http_url}{PATH}"
    _, encoded = await _ask(running, "GET", KEY)
    async with aiohttp.ClientSession() as session:
        found = await HttpIssuer(session, url).fetch_key(DAP_TASK, TIME)
        assert found is not None
        assert found.encoded == encoded
        assert await HttpIssuer(session, url).fetch_key(DAP_TASK, TIME + 9) is None
        with pytest.raises(PeerUnavailableError):
            await HttpIssuer(session, "http://127.0.0.1:1").fetch_key(DAP_TASK, TIME)


async def test_answer_that_is_no_key_is_no_answer() -> None:
    """An issuer that answers anything else is asked again later, and its bytes are not kept."""

    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=500) if "500" in request.path else web.Response(body=b"none")

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        for path in ("500", "200"):
            with pytest.raises(PeerUnavailableError):
                await HttpIssuer(session, str(server.make_url(f"/{path}"))).fetch_key(DAP_TASK, TIME)


async def test_request_that_no_device_sends_is_refused(running: RunningIngress, vendor: Ed25519PrivateKey) -> None:
    """By its headers, its size, its bytes, or what it names."""
    _, challenge = await _ask(running, "POST", "challenges")
    stranger = Device(bytes(32), Ed25519PrivateKey.generate()).enrollment(challenge).to_bytes()
    order = f"{TASK_PATH}/tokens/{TIME}"
    for status, method, path, body, headers in (
        (415, "POST", "enrollments", b"x", {"Content-Type": "text/plain"}),
        (415, "POST", "enrollments", b"x", BYTES | {"Origin": "https://page.example"}),
        (415, "POST", "enrollments", b"x", BYTES | {"Content-Encoding": "gzip"}),
        (413, "POST", "enrollments", bytes(20_000), BYTES),
        (400, "POST", "enrollments", b"x", BYTES),
        (403, "POST", "enrollments", stranger, BYTES),
        (400, "POST", order, b"x", BYTES),
        (404, "GET", KEY.replace(str(TIME), str(TIME + 5)), None, {}),
        (404, "GET", KEY.replace(str(TIME), f"0{TIME}"), None, {}),
        (404, "GET", token_key_path(bytes(32), TIME), None, {}),
        (404, "GET", f"tasks/x/token_keys/{TIME}", None, {}),
        (405, "GET", "challenges", None, {}),
    ):
        assert (await _ask(running, method, path, body, headers))[0] == status, (status, path)
    assert running.ingress.figures().refused == {
        "token_malformed": 2,
        "token_evidence": 1,
        "token_unknown_window": 1,
        "token_unknown_task": 1,
    }


async def test_requests_beyond_the_rate_are_turned_away(
    tmp_path: Path, vendor: Ed25519PrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All devices together have as many a second as the server was told."""
    monkeypatch.setattr("alcove.platform.ingress.serve.time.monotonic", lambda: 0.0)
    settings: dict[str, Any] = {"software_attestation": tmp_path / "vendor.pem", "tokens_per_second": 2}
    async with running_ingress(tmp_path / "data", token_issuer=URL, **settings) as running:
        assert [(await _ask(running, "POST", "challenges"))[0] for _ in range(4)] == [200, 200, 429, 429]


def test_issuer_and_attestor_are_named_together(tmp_path: Path) -> None:
    """An issuer without an attestor would enroll anybody, or nobody."""
    for settings in ({"token_issuer": URL}, {"software_attestation": tmp_path}, {"token_issuer": "http://x.example"}):
        with pytest.raises(ValidationError):
            IngressSettings.model_validate({"data_dir": tmp_path, **settings})


async def test_attestor_s_key_that_is_none_is_refused_at_the_start(tmp_path: Path) -> None:
    """A file that is absent, no PEM, or a key of another kind."""
    path = tmp_path / "vendor.pem"
    other = X25519PrivateKey.generate().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for number, content in enumerate((None, b"none", other)):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(KeyFileError, match=r"vendor\.pem"):
            async with running_ingress(tmp_path / f"data {number}", token_issuer=URL, software_attestation=path):
                pass
