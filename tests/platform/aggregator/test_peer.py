"""What another party answers is bounded before it is believed: packed, long, odd or no answers are one typed error."""

import gzip
import json
import zlib

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from alcove.platform.aggregator import peer
from alcove.platform.aggregator.peer import Answer, send
from alcove.platform.aggregator.problems import MEDIA_TYPE, DapProblem, ProblemType
from alcove.platform.domain.errors import PeerUnavailableError

PROBLEM = DapProblem(ProblemType.BATCH_OVERLAP, "x" * 5000).to_json().encode()


async def _ask(answer: web.Response) -> Answer:
    """Return what `send` makes of an answer."""

    async def respond(request: web.Request) -> web.Response:
        assert request.headers["Accept-Encoding"] == "identity"
        return answer

    app = web.Application()
    app.add_routes([web.post("/", respond)])
    async with TestServer(app) as server, aiohttp.ClientSession() as session:
        return await send(session, "POST", str(server.make_url("/")), body=b"x", headers={})


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_packed_answer_is_not_unpacked(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    """A few kilobytes that would become many megabytes stay what they are."""
    packed = gzip.compress(bytes(20 * 1024 * 1024), 9)
    unpacked: list[int] = []
    monkeypatch.setattr(zlib, "decompressobj", lambda *_: unpacked.append(1))
    found = await _ask(web.Response(body=packed, headers={"Content-Encoding": encoding}))
    assert found == (200, "application/octet-stream", packed, "")
    assert unpacked == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, PROBLEM + b" " * peer.MAX_PROBLEM_BYTES),
        (400, b"[" * 60_000),
        (400, b'{"type": "urn:ietf:params:ppm:dap:error:unheard"}'),
        (400, b'{"type": ' + b"9" * 60_000 + b"}"),
        (400, b"\xff\xfe\x00"),
        (500, PROBLEM),
        (302, PROBLEM),
    ],
)
async def test_answer_that_is_no_problem_is_a_peer_that_does_not_answer(status: int, body: bytes) -> None:
    """Too long, nested, of an unknown type, a number of many digits, no text, or a problem under another status."""
    answer = web.Response(status=status, body=body, headers={"Content-Type": MEDIA_TYPE})
    if status < 400:
        assert (await _ask(answer))[0] == status  # callers take 200 and 201 alone
        return
    with pytest.raises(PeerUnavailableError, match=f"status {status}"):
        await _ask(answer)


async def test_problem_is_cut_to_what_may_be_kept() -> None:
    """Its detail is another party's text."""
    with pytest.raises(DapProblem) as caught:
        await _ask(web.Response(status=400, body=PROBLEM, headers={"Content-Type": MEDIA_TYPE}))
    assert (caught.value.kind, len(caught.value.detail)) == (ProblemType.BATCH_OVERLAP, 300)
    assert json.loads(PROBLEM)["detail"] == "x" * 5000


async def test_answer_of_more_than_any_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read no further than the bound."""
    monkeypatch.setattr(peer, "MAX_ANSWER_BYTES", 100_000)
    assert len((await _ask(web.Response(body=bytes(100_000))))[2]) == 100_000
    with pytest.raises(PeerUnavailableError, match="more than 100000 bytes"):
        await _ask(web.Response(body=bytes(100_001)))
