"""What an aggregator answers over HTTP: messages of DAP to those who may ask, problem documents, and nothing else."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest
import structlog
from aiohttp import web
from aiohttp.test_utils import TestServer
from alcove.platform.aggregator import app
from alcove.platform.aggregator.app import create_helper_app, create_leader_app
from alcove.platform.aggregator.peer import HttpHelper, encode_task_header
from alcove.platform.aggregator.problems import DapProblem, encode_id
from alcove.platform.aggregator.tasks import TaskBook
from alcove.platform.domain.errors import PeerUnavailableError
from alcove.platform.ingress import resources
from alcove.privacy.dap.messages import MEDIA_TYPE, HpkeConfigList, UploadErrors, UploadRequest
from alcove.privacy.dap.report_tokens import token_key_path
from alcove.privacy.dap.task import DapTask

from tests.platform.aggregator.pair import TASK, TOKEN_TASK, Seats, make_request, open_seats
from tests.privacy.dap.party import TIME, make_issuer, make_task

TASK_PATH = f"tasks/{encode_id(TASK.task_id)}"
COLLECTOR = {"Authorization": f"Bearer {'collector' * 8}"}
PATIENCE_S = 120.0
LEADER = {"Authorization": f"Bearer {'leader' * 8}"}


@dataclass(frozen=True)
class Served:
    """Both applications behind real sockets; URLs end with the path of the aggregator's own, `peers` are who asked."""

    session: aiohttp.ClientSession
    leader: str
    helper: str
    peers: list[tuple[str, str | None]]

    async def ask(
        self, method: str, url: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, str, bytes]:
        """Return status, media type and body of an answer."""
        async with self.session.request(
            method, url, data=io.BytesIO(body), headers=headers, skip_auto_headers=["Content-Type"]
        ) as answer:
            return answer.status, answer.headers.get("Content-Type", ""), await answer.read()

    async def problem(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> str:
        """Return the type of the problem that an answer is."""
        status, media_type, answer = await self.ask(method, url, body, headers)
        assert media_type == "application/problem+json"
        document = json.loads(answer)
        assert document["status"] == status >= 400
        return str(document["type"]).removeprefix("urn:ietf:params:ppm:dap:error:")


def _type_header(message: str) -> dict[str, str]:
    return {"Content-Type": f"{MEDIA_TYPE};message={message}"}


@pytest.fixture
async def served(files: Seats) -> AsyncIterator[Served]:
    """Both aggregators of `files`, answering."""
    async with serve_seats(files) as answering:
        yield answering


@asynccontextmanager
async def serve_seats(files: Seats) -> AsyncIterator[Served]:
    """Let both aggregators answer behind sockets."""
    book = TaskBook(files.helper_database, files.helper_config)

    async def announce_to_helper(task: DapTask) -> None:
        await book.announce(task.task_id, task.encoded, files.helper_clock.now_s())

    leader = create_leader_app(
        files.leader_config,
        files.book,
        files.uploads,
        files.collection,
        announce_to_helper=announce_to_helper,
        keys=lambda: files.keys,
        token_keys=files.token_keys,
        clock=files.clock,
        gateway_keys=lambda: files.gateway_keys,
    )
    helper = create_helper_app(
        files.helper_config,
        book,
        files.helper,
        keys=lambda: files.helper_keys,
        token_keys=files.helper_token_keys,
        clock=files.helper_clock,
        gateway_keys=lambda: files.helper_gateway_keys,
    )
    peers: list[tuple[str, str | None]] = []
    for seat, application in (("leader", leader), ("helper", helper)):
        application.on_response_prepare.append(_note_peer(seat, peers))
    async with TestServer(leader) as first, TestServer(helper) as second, aiohttp.ClientSession() as session:
        yield Served(session, str(first.make_url("/dap")), str(second.make_url("/")).rstrip("/"), peers)


def _note_peer(
    seat: str, peers: list[tuple[str, str | None]]
) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    async def note(request: web.Request, _response: web.StreamResponse) -> None:
        peers.append((seat, request.remote))

    return note


async def test_keys_are_for_anybody_and_may_be_kept(served: Served, files: Seats) -> None:
    """Both aggregators tell devices their key, below the path of their URL."""
    for url, ring in ((served.leader, files.keys), (served.helper, files.helper_keys)):
        async with served.session.get(f"{url}/hpke_config") as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"] == f"{MEDIA_TYPE};message=hpke-config-list"
            assert answer.headers["Cache-Control"] == "max-age=86400"
            assert HpkeConfigList.from_bytes(await answer.read()) == ring.configs
    assert (await served.ask("GET", served.leader.replace("/dap", "") + "/hpke_config"))[0] == 404


async def test_token_keys_are_for_anybody_at_both_once_the_task_is_announced_to_the_leader(tmp_path: Path) -> None:
    """The leader passes the task on; a time that is none, or far away, has no key; nor has a task without an issuer."""
    opened = await open_seats(tmp_path / "leader.db", tmp_path / "helper.db", task=TOKEN_TASK)
    async with serve_seats(opened) as served:
        announced = f"{served.leader}/tasks/{encode_id(TOKEN_TASK.task_id)}"
        assert (await served.ask("GET", f"{served.helper}/{token_key_path(TOKEN_TASK.task_id, TIME)}"))[0] == 404
        put = COLLECTOR | {"Content-Type": MEDIA_TYPE}
        assert (await served.ask("PUT", announced, TOKEN_TASK.encoded, put))[0] == 204
        for url in (served.leader, served.helper):
            key = (200, "application/octet-stream", make_issuer().key.encoded)
            assert await served.ask("GET", f"{url}/{token_key_path(TOKEN_TASK.task_id, TIME)}") == key
            for time in (TIME + 2, f"0{TIME}", f"+{TIME}", "x", -1, 1 << 62, 10**19):
                path = f"{url}/tasks/{encode_id(TOKEN_TASK.task_id)}/token_keys/{time}"
                assert (await served.ask("GET", path))[0] == 404, path
    await opened.leader_database.close()
    await opened.helper_database.close()


async def test_leader_passes_a_task_on_to_a_helper_that_may_refuse_it(served: Served) -> None:
    """Over HTTP, with the leader's token; the helper's rules are its own."""
    helper = HttpHelper(served.session, served.helper, "leader" * 8)
    await helper.announce(TASK)
    for _ in range(2):
        with pytest.raises(DapProblem, match="invalidTask"):
            await helper.announce(TOKEN_TASK)  # it names an issuer that this helper does not
    with pytest.raises(PeerUnavailableError, match="401"):
        await HttpHelper(served.session, served.helper, "x" * 48).announce(TASK)


async def test_upload_answers_nothing_or_what_was_refused(served: Served, files: Seats) -> None:
    """An accepted upload has an empty body; a refused report comes back with its reason."""
    good = files.report(0, "good")
    url = f"{served.leader}/{TASK_PATH}/reports"
    answer = await served.ask("POST", url, UploadRequest((good,)).to_bytes(), _type_header("upload-req"))
    assert (answer[0], answer[2]) == (200, b"")
    early = files.report(0, "early", time=good.metadata.time + 9)
    status, media_type, body = await served.ask(
        "POST", url, UploadRequest((early,)).to_bytes(), _type_header("upload-req")
    )
    assert (status, media_type) == (200, f"{MEDIA_TYPE};message=upload-errors")
    assert UploadErrors.from_bytes(body).status[0].report_id == early.metadata.report_id


async def test_resource_of_a_partner_needs_its_token(served: Served) -> None:
    """Every resource of a partner, with no token, another's, and one in another form."""
    job = encode_id(bytes(16))
    partners = [
        ("PUT", f"{served.leader}/{TASK_PATH}"),
        ("POST", f"{served.leader}/{TASK_PATH}/collection_jobs"),
        ("GET", f"{served.leader}/{TASK_PATH}/collection_jobs/{job}"),
        ("DELETE", f"{served.leader}/{TASK_PATH}/collection_jobs/{job}"),
        ("PUT", f"{served.helper}/{TASK_PATH}"),
        ("POST", f"{served.helper}/{TASK_PATH}/aggregation_jobs"),
        ("GET", f"{served.helper}/{TASK_PATH}/aggregation_jobs/{job}"),
        ("POST", f"{served.helper}/{TASK_PATH}/aggregate_shares"),
        ("GET", f"{served.helper}/{TASK_PATH}/aggregate_shares/{job}"),
    ]
    for method, url in partners:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": "Basic eA=="}, {"Authorization": ""}):
            assert (await served.ask(method, url, headers=headers))[0] == 401, (method, url)
    swapped = LEADER if served.leader in partners[0][1] else COLLECTOR
    assert (await served.ask("PUT", partners[0][1], headers=swapped))[0] == 401


async def test_token_that_is_no_text_is_no_token(served: Served) -> None:
    """Bytes that are no UTF-8 are refused as any other token; they were an internal error with a traceback each."""
    url = urlsplit(served.leader)
    with structlog.testing.capture_logs() as lines:
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        head = f"PUT {url.path}/{TASK_PATH} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n".encode()
        writer.write(head + b"Authorization: Bearer \xff\xfe\r\n\r\n")
        answer = await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 401")
    assert lines == []


async def test_large_uploads_are_received_a_few_at_a_time(
    served: Served, files: Seats, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of many slow ones the others wait, and hold nothing; a device's upload of one report passes them."""
    now = most = 0
    full, release = asyncio.Event(), asyncio.Event()
    real = resources.receive_body

    async def receive(request: web.Request, size_bytes: int, timeout_s: float) -> bytes:
        nonlocal now, most
        now += (is_large := size_bytes > app.LARGE_BYTES)
        most = max(most, now)
        if now == app.LARGE_UPLOADS:
            full.set()
        if is_large:
            await release.wait()
        now -= is_large
        return await real(request, size_bytes, timeout_s)

    monkeypatch.setattr("alcove.platform.aggregator.app.receive_body", receive)
    url, headers = f"{served.leader}/{TASK_PATH}/reports", _type_header("upload-req")
    report = files.report(0, "x")
    large = UploadRequest((report,) * 200).to_bytes()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
        uploads = [group.create_task(served.ask("POST", url, large, headers)) for _ in range(3 * app.LARGE_UPLOADS)]
        await full.wait()
        assert (await served.ask("POST", url, UploadRequest((report,)).to_bytes(), headers))[0] == 200
        release.set()
    assert [upload.result()[0] for upload in uploads] == [200] * len(uploads)
    assert most == app.LARGE_UPLOADS


async def test_requests_that_are_none_are_problems_of_their_type(served: Served) -> None:
    """Malformed bodies, unknown tasks, other media types, and ids that are none."""
    jobs, shares = f"{served.helper}/{TASK_PATH}/aggregation_jobs", f"{served.helper}/{TASK_PATH}/aggregate_shares"
    announced = LEADER | encode_task_header(TASK)
    collection = f"{served.leader}/{TASK_PATH}/collection_jobs"
    unknown = encode_id(bytes(32))
    cases = [
        (f"{served.leader}/{TASK_PATH}/reports", b"x", _type_header("upload-req"), "invalidMessage"),
        (f"{served.leader}/tasks/{unknown}/reports", b"", _type_header("upload-req"), "unrecognizedTask"),
        (jobs, b"x", announced | _type_header("aggregation-job-init-req"), "invalidMessage"),
        (shares, b"x", announced | _type_header("aggregate-share-req"), "invalidMessage"),
        (collection, b"x", COLLECTOR | _type_header("collection-job-req"), "invalidMessage"),
        (collection, make_request(1, 0).to_bytes(), COLLECTOR | _type_header("collection-job-req"), "batchInvalid"),
        (
            collection,
            make_request((1 << 64) - 1, 5).to_bytes(),
            COLLECTOR | _type_header("collection-job-req"),
            "batchInvalid",
        ),
    ]
    for url, body, headers, kind in cases:
        assert await served.problem("POST", url, body, headers) == kind, url
    job = f"{jobs}/{encode_id(bytes(16))}"
    assert await served.problem("GET", job, b"", LEADER) == "unrecognizedAggregationJob"


async def test_task_that_the_rules_do_not_allow_is_refused_by_each_seat(served: Served) -> None:
    """A smaller batch, a shorter window, other aggregators: the leader and the helper decide for themselves."""
    for task in (
        make_task(cells=4, min_batch_size=99),
        make_task(cells=4, window_s=60),
        make_task(cells=4, helper_url="https://other.example"),
    ):
        path = f"tasks/{encode_id(task.task_id)}"
        put = COLLECTOR | {"Content-Type": MEDIA_TYPE}
        assert await served.problem("PUT", f"{served.leader}/{path}", task.encoded, put) == "invalidTask"
        post = LEADER | _type_header("aggregation-job-init-req") | encode_task_header(task)
        assert await served.problem("POST", f"{served.helper}/{path}/aggregation_jobs", b"", post) == "invalidTask"
    other = f"{served.leader}/tasks/{encode_id(bytes(32))}"
    put = COLLECTOR | {"Content-Type": MEDIA_TYPE}
    assert await served.problem("PUT", other, TASK.encoded, put) == "unrecognizedTask"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Type": "application/octet-stream"}, 415),
        ({"Content-Type": f"{MEDIA_TYPE};message=upload-errors"}, 415),
        ({"Content-Type": MEDIA_TYPE}, 415),
        ({}, 415),
        (_type_header("upload-req") | {"Content-Encoding": "gzip"}, 415),
        (_type_header("upload-req") | {"Content-Length": str(5 * 1024 * 1024)}, 413),
    ],
)
async def test_body_of_another_type_or_size_is_not_read(served: Served, headers: dict[str, str], status: int) -> None:
    """Refused by its headers."""
    url = f"{served.leader}/{TASK_PATH}/reports"
    body = b"" if "Content-Length" in headers else b"x"
    if "Content-Length" in headers:
        headers = {name: value for name, value in headers.items() if name != "Content-Length"}
        body = bytes(5 * 1024 * 1024)
    assert (await served.ask("POST", url, body, headers))[0] == status


@pytest.mark.parametrize("text", ["x", "A" * 42, "A" * 44, "=" * 43, "%00" * 32, "AAAA" * 11, "A" * 42 + "B"])
async def test_id_that_is_none_is_no_resource(served: Served, text: str) -> None:
    """Another size, alphabet or spelling."""
    url = f"{served.leader}/tasks/{text}/reports"
    assert (await served.ask("POST", url, b"", _type_header("upload-req")))[0] == 404
