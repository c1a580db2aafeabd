"""What devices see: a static tree that nobody climbs out of, and reports that are counted or refused, never kept."""

import asyncio
import gzip
import http.client
import socket
import sqlite3
import time
import urllib.parse
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiohttp.test_utils import TestClient, TestServer
from alcove.platform.cli.demo.reporting import HEADERS, send_reports
from alcove.platform.client import Arm, PlatformClient
from alcove.platform.domain.errors import ReportRefusedError
from alcove.platform.ingress import create_ingress, reports
from alcove.platform.ingress.reports import ReportCollector
from alcove.platform.ingress.serve import log_refusals, run_ingress
from alcove.platform.ingress.settings import IngressSettings
from alcove.platform.listening.http import listen_http
from alcove.platform.listening.rate import RateLimit
from alcove.platform.server.serve import run
from alcove.platform.server.settings import Settings
from alcove.platform.store import Store
from alcove.platform.testing import Served, ServerWorld
from alcove.platform.testing.ingress import record, run_experiment
from alcove.privacy.limits import REPORT_BYTES
from alcove.privacy.report import SubsetReport, report_to_bytes
from alcove.registry.policy import TaskPolicy
from alcove.runtime.clock import SYSTEM_CLOCK
from sqlalchemy.ext.asyncio import AsyncSession


def ask(
    served: Served, method: str, path: str, body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send one request exactly as written; return status, headers (lower case) and body."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(served.http_url).netloc, timeout=60)
    try:
        given = {key.replace("_", "-"): v for key, v in headers.items()}
        connection.request(method, path, body=body, headers=given if body is None else HEADERS | given)
        answer = connection.getresponse()
        return answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


@pytest.fixture
def blob(team: PlatformClient) -> tuple[str, bytes]:
    """A blob of 5000 bytes and its digest."""
    data = bytes(range(250)) * 20
    return team.upload_blob(data), data


def test_a_blob_is_served_whole_and_in_ranges(served: Served, blob: tuple[str, bytes]) -> None:
    """A broken download resumes where it stopped."""
    sha256, data = blob
    status, headers, body = ask(served, "GET", f"/blobs/{sha256}")
    assert (status, body, headers["content-length"]) == (200, data, "5000")
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert headers["accept-ranges"] == "bytes"
    for text, expected in (("bytes=0-9", data[:10]), ("bytes=4990-", data[4990:]), ("bytes=-7", data[-7:])):
        status, headers, body = ask(served, "GET", f"/blobs/{sha256}", Range=text)
        assert (status, body) == (206, expected)
    assert headers["content-range"] == "bytes 4993-4999/5000"
    assert ask(served, "GET", f"/blobs/{sha256}", Range="bytes=5000-")[0] == 416


def test_a_resumed_download_is_bound_to_the_same_file(served: Served, blob: tuple[str, bytes]) -> None:
    """If-Range with the ETag gives the rest; with another ETag the whole."""
    sha256, data = blob
    etag = ask(served, "HEAD", f"/blobs/{sha256}")[1]["etag"]
    assert ask(served, "GET", f"/blobs/{sha256}", Range="bytes=4000-", If_Range=etag)[::2] == (206, data[4000:])


def test_an_unchanged_file_is_not_sent_again(served: Served, blob: tuple[str, bytes]) -> None:
    """If-None-Match with the ETag: 304 without a body, the same for everybody."""
    for path in (f"/blobs/{blob[0]}", "/metadata/timestamp.json", "/metadata/1.root.json"):
        etags = {ask(served, "GET", path)[1]["etag"] for _ in range(3)}
        assert len(etags) == 1
        status, _, body = ask(served, "GET", path, If_None_Match=etags.pop())
        assert (status, body) == (304, b"")
        assert ask(served, "GET", path, If_None_Match='"other"')[0] == 200


def test_only_the_timestamp_may_change_under_its_name(
    *, world: ServerWorld, served: Served, team: PlatformClient, operator: PlatformClient, feature: str, app: str
) -> None:
    """Everything with a version or digest in its name is cached forever; timestamp.json is asked for each time."""
    world.publish(team, feature)
    rollout = operator.create_rollout(app, feature, "1.0.0")
    operator.advance_rollout(rollout.rollout_id, 10_000, override_reason="first version")
    tree = world.data_dir / "tree"
    paths = [path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()]
    served_paths = [path for path in paths if not Path(path).name.startswith(".")]
    assert any(path.startswith("targets/policy/") for path in served_paths)
    assert any(path.startswith(f"targets/{feature}/") for path in served_paths)
    for path in served_paths:
        status, headers, body = ask(served, "GET", f"/{path}")
        assert (status, body) == (200, (tree / path).read_bytes()), path
        is_fresh = path == "metadata/timestamp.json"
        assert headers["cache-control"] == ("no-cache" if is_fresh else "public, max-age=31536000, immutable")
    for path in set(paths) - set(served_paths):
        assert ask(served, "GET", f"/{path}")[0] == 404, path


def test_metadata_is_packed_for_those_who_accept_it(world: ServerWorld, served: Served) -> None:
    """The same bytes, fewer on the way; never the timestamp, a part, or what somebody did not ask to have packed."""
    whole = (world.data_dir / "tree" / "metadata" / "1.targets.json").read_bytes()
    for accepted in ("gzip", "br, GZIP;q=0.5", "gzip, identity"):
        status, headers, body = ask(served, "GET", "/metadata/1.targets.json", Accept_Encoding=accepted)
        assert (status, headers["content-encoding"], headers["vary"]) == (200, "gzip", "Accept-Encoding")
        assert headers["cache-control"] == "public, max-age=31536000, immutable"
        assert gzip.decompress(body) == whole
        assert int(headers["content-length"]) == len(body) < len(whole)
    for refused in ("", "br", "gzip;q=0"):
        status, headers, body = ask(served, "GET", "/metadata/1.targets.json", Accept_Encoding=refused)
        assert (status, body, headers.get("content-encoding")) == (200, whole, None)
    answer = ask(served, "GET", "/metadata/1.targets.json", Accept_Encoding="gzip", Range="bytes=0-9")
    assert answer[::2] == (206, whole[:10])
    for path in ("/metadata/timestamp.json", "/metadata/99.root.json", "/metadata/1.Targets.json"):
        assert "content-encoding" not in ask(served, "GET", path, Accept_Encoding="gzip")[1]


def test_what_is_not_there_may_be_remembered_for_a_minute(served: Served) -> None:
    """Every check-in asks for the next root: the answer "not yet" is cacheable."""
    status, headers, _ = ask(served, "GET", "/metadata/2.root.json")
    assert (status, headers["cache-control"]) == (404, "public, max-age=60")


@pytest.mark.parametrize("folder", ["/metadata", "/blobs", "/targets/policy", "/targets", "", "/metadata/.."])
@pytest.mark.parametrize(
    "tail",
    [
        "/../alcove.db",
        "/../../alcove.db",
        "/%2e%2e/alcove.db",
        "/%2e%2e%2falcove.db",
        "/..%2f..%2falcove.db",
        "/..\\alcove.db",
        "/%5c..%5calcove.db",
        "/....//alcove.db",
        "/%252e%252e/alcove.db",
        "/./../server.lock",
        "/../../online/policy.pem",
        "//etc/passwd",
        "/%2fetc%2fpasswd",
        "/..;/alcove.db",
        "/%00",
        "/timestamp.json%00.html",
        "/.lock",
        "/",
        "",
    ],
)
def test_no_path_leaves_the_tree(served: Served, folder: str, tail: str) -> None:
    """However it is written, nothing but the tree's own names is served."""
    status, _, body = ask(served, "GET", (folder + tail) or "/")
    assert status in (400, 404, 405)
    assert b"SQLite" not in body
    assert b"PRIVATE" not in body
    assert b"root:" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_the_tree_is_read_only(served: Served, method: str) -> None:
    """No method but GET and HEAD does anything."""
    assert ask(served, method, "/metadata/timestamp.json")[0] in (404, 405, 501)


def test_answers_tell_nothing_of_the_server(served: Served) -> None:
    """No version of a library, no cookie."""
    for path in ("/metadata/timestamp.json", "/healthz", "/nothing"):
        headers = ask(served, "GET", path)[1]
        assert headers.get("server") == "alcove"
        assert "set-cookie" not in headers


@pytest.fixture
def task(world: ServerWorld, operator: PlatformClient, shared_feature: str, app: str) -> TaskPolicy:
    """The task of a running experiment of its own."""
    arms = [Arm(name=n, version=v, share_basis_points=5000) for n, v in (("a", "1.0.0"), ("b", "2.0.0"))]
    draft = operator.create_experiment(app, shared_feature, arms, latency_edges_ms=[10.0])
    operator.start_experiment(draft.experiment_id)
    policy = world.tree.policy(app)
    assert policy is not None
    (experiment,) = policy.features[shared_feature].experiments
    return experiment.tasks[0]


def count_reports(world: ServerWorld, task: TaskPolicy) -> dict[tuple[int, int], int]:
    """What the database holds of a task, read past the server."""
    with sqlite3.connect(world.data_dir / "alcove.db") as database:
        rows = database.execute(
            'SELECT "window", cell, count FROM report_counts WHERE task_id = ?', (task.task_id,)
        ).fetchall()
    database.close()
    return {(window, cell): count for window, cell, count in rows}


def test_reports_are_summed_per_cell(world: ServerWorld, served: Served, task: TaskPolicy) -> None:
    """Each in a body of its own; the answer is 204 and says nothing."""
    assert task.cell_count == 8
    for body in (record(task), *(record(task, cell=7),) * 3):
        status, _, answer = ask(served, "POST", "/reports", body)
        assert (status, answer) == (204, b"")
    assert send_reports(served.http_url, [record(task, cell=1)] * 300) == {204: 300}
    assert count_reports(world, task) == {(0, 0): 1, (0, 7): 3, (0, 1): 300}


def test_sets_of_cells_are_summed_and_no_other_set_is_counted(
    world: ServerWorld, served: Served, operator: PlatformClient, shared_feature: str, app: str
) -> None:
    """A report of a task of sets adds one to each of its cells; one cell, too few, too many or others are refused."""
    arms = [Arm(name=n, version=v, share_basis_points=5000) for n, v in (("a", "1.0.0"), ("b", "2.0.0"))]
    draft = operator.create_experiment(app, shared_feature, arms, latency_edges_ms=[10.0], epsilon="1")
    operator.start_experiment(draft.experiment_id)
    policy = world.tree.policy(app)
    assert policy is not None
    task = policy.features[shared_feature].experiments[0].tasks[0]
    assert (task.cell_count, task.subset_size) == (8, 2)

    def set_of(*cells: int, bits: int = 24) -> bytes:
        return report_to_bytes(SubsetReport.of_cells(bytes.fromhex(task.task_id), 0, cells, bits))

    for body in (record(task), set_of(1), set_of(1, 2, 3), set_of(1, 8), set_of(), set_of(1, 2, bits=32)):
        status, _, answer = ask(served, "POST", "/reports", body)
        assert (status, answer.decode().partition(":")[0]) == (400, "unknown_cell")
    assert count_reports(world, task) == {}
    for cells in ((0, 7), (0, 3), (3, 7)):
        assert ask(served, "POST", "/reports", set_of(*cells))[0] == 204
    assert count_reports(world, task) == {(0, 0): 2, (0, 3): 2, (0, 7): 2}
    assert operator.results(draft.experiment_id).results.report_count == 3


def test_bodies_that_are_no_reports_are_refused_whole(world: ServerWorld, served: Served, task: TaskPolicy) -> None:
    """Sizes, tasks, windows and cells that are not there: 400 with the reason, and nothing is counted."""
    good = record(task)
    unknown = bytes(32) + good[32:]
    for body, reason in (
        (b"", "malformed"),
        (good[:1], "malformed"),
        (good[:-1], "malformed"),
        (b"x" * REPORT_BYTES, "unknown_task"),
        (unknown, "unknown_task"),
        (record(task, window=1_000_000), "unknown_window"),
        (record(task, window=2**32 - 1), "unknown_window"),
        (record(task, window=2), "unknown_window"),
        (record(task, cell=8), "unknown_cell"),
        (record(task, cell=65535), "unknown_cell"),
    ):
        status, _, answer = ask(served, "POST", "/reports", body)
        assert (status, answer.decode().partition(":")[0]) == (400, reason)
    assert count_reports(world, task) == {}


def test_bodies_beyond_the_cap_are_refused(world: ServerWorld, served: Served, task: TaskPolicy) -> None:
    """A report, a byte or a gigabyte too many: 413 by what is announced, 411 where nothing is; nothing is counted."""
    for body in (record(task) * 2, record(task) + b"x" * 31, record(task) * 1024):
        assert ask(served, "POST", "/reports", body)[0] == 413
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(served.http_url).netloc, timeout=60)
    connection.putrequest("POST", "/reports")
    connection.putheader("Content-Type", "application/octet-stream")
    connection.putheader("Content-Length", str(10**9))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(served.http_url).netloc, timeout=60)
    connection.request("POST", "/reports", iter([record(task)]), HEADERS, encode_chunked=True)
    assert connection.getresponse().status == 411
    connection.close()
    assert count_reports(world, task) == {}


def test_nothing_of_who_reported_is_kept(world: ServerWorld, served: Served, task: TaskPolicy) -> None:
    """The address, and whatever a client says of itself, is neither in the data folder nor in the log."""
    marks: dict[str, Any] = {
        "User_Agent": "canary-here-agent-sought-by-this-test-alone",
        "X_Forwarded_For": "203.0.113.77",
        "Cookie": "canary-here=sought-by-this-test-alone",
        "Referer": "canary-here",
    }
    assert ask(served, "POST", "/reports?canary-here=sought-by-this-test-alone", record(task), **marks)[0] == 204
    assert ask(served, "GET", "/metadata/timestamp.json?canary-here=sought-by-this-test-alone", **marks)[0] == 200
    assert ask(served, "POST", "/reports?canary-here=sought-by-this-test-alone", b"bad", **marks)[0] == 400
    log = served.log.read_bytes()
    stored = b"".join(path.read_bytes() for path in world.data_dir.rglob("*") if path.is_file())
    for mark in (b"canary-here", b"sought-by-this-test-alone", b"203.0.113.77"):
        assert mark not in log
        assert mark not in stored
    served_lines = [line for line in log.splitlines() if b'"serving"' not in line]
    assert served_lines
    assert not [line for line in served_lines if b"127.0.0.1" in line]


async def test_a_fault_of_ours_is_answered_and_logged_without_the_caller(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """500, one line in the log with the fault, and no address in it; requests that are no HTTP leave none either."""
    world = await asyncio.to_thread(ServerWorld, tmp_path / "faulty", teams={"text": ("text_00",)})
    settings = IngressSettings(data_dir=world.data_dir)
    await (await Store.open(settings.database)).close()

    async def fail(_self: ReportCollector, _body: bytes) -> None:
        raise RuntimeError("the disk is on fire")

    def rubbish(address: str, data: bytes) -> None:
        host, port = address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass

    monkeypatch.setattr(ReportCollector, "collect", fail)
    with listen_http("127.0.0.1", 0) as listener:
        async with run_ingress(settings, listener) as running:
            served = Served(None, "", running.http_url, world.folder / "log")
            status, _, body = await asyncio.to_thread(ask, served, "POST", "/reports", b"x" * REPORT_BYTES)
            assert (status, body) == (500, b"internal error\n")
            for data in (
                b"\x00\xff\r\n\r\n",
                b"GET / HTTP/9.9\r\n\r\n",
                b"POST /reports HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            ):
                await asyncio.to_thread(rubbish, running.http_url.removeprefix("http://"), data)
    said = "".join(capsys.readouterr()) + caplog.text
    assert "the disk is on fire" in said
    assert "127.0.0.1" not in said


def test_refusals_are_counted_in_the_log() -> None:
    """Operators see how many were refused for which reason: a line when there are more, none for each."""
    sums: list[dict[str, int]] = [{}, {"malformed": 2}, {"malformed": 2}, {"malformed": 2, "full": 1}]
    logged: dict[str, int] = {}
    with structlog.testing.capture_logs() as lines:
        for refused in sums:
            logged = log_refusals(refused, logged)
            assert logged == refused
    assert [{key: line[key] for key in line.keys() & {"malformed", "full"}} for line in lines] == [sums[1], sums[3]]


async def test_more_reports_than_the_rate_are_turned_away(tmp_path: Path) -> None:
    """Above the rate: 429 with Retry-After, for every sender; a moment later reports are taken again."""
    world = await asyncio.to_thread(ServerWorld, tmp_path / "slow", teams={"text": ("text_00",)})
    keys = world.online_keys
    ports: dict[str, Any] = {"grpc_port": 0, "http_port": 0, "behind_proxy": "127.0.0.1"}
    settings = Settings(data_dir=world.data_dir, online_keys=keys, reports_per_second=2, **ports)
    async with run(settings) as running:
        served = Served(None, running.grpc_address, running.http_url, world.folder / "log")
        answers = [await asyncio.to_thread(ask, served, "POST", "/reports", b"x" * REPORT_BYTES) for _ in range(8)]
        assert answers[0][0] == 400
        (refused, *_) = [answer for answer in answers if answer[0] == 429]
        assert refused[1]["retry-after"] == "1"
        async with asyncio.timeout(20):
            while (await asyncio.to_thread(ask, served, "POST", "/reports", b"x" * REPORT_BYTES))[0] == 429:
                pass


async def test_a_body_that_is_refused_begins_no_transaction(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many come, they never wait for the database's one writer; one that passes is one transaction."""
    task = await run_experiment(store)
    collector = ReportCollector(store, SYSTEM_CLOCK)
    begun = []
    really_write = store.write

    def write() -> AbstractAsyncContextManager[AsyncSession]:
        begun.append(1)
        return really_write()

    monkeypatch.setattr(store, "write", write)
    for body in (
        b"",
        b"x" * REPORT_BYTES,
        record(task)[:-1],
        record(task) * 2,
        record(task, window=9),
        record(task, cell=task.cell_count),
    ):
        with pytest.raises(ReportRefusedError):
            await collector.collect(body)
    assert begun == []
    await asyncio.gather(*(collector.collect(record(task)) for _ in range(300)))
    assert begun == [1]  # those that come at the same time are counted together
    assert collector.counted == 300


async def test_a_started_experiment_is_known_at_once_however_many_unknown_tasks_are_named(store: Store) -> None:
    """The tasks in memory are read again for a task that is not among them, 20 times a second at most."""
    now_s = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    collector = ReportCollector(store, SYSTEM_CLOCK, lambda: now_s, sleep)
    for number in range(3):
        task = await run_experiment(store, f"ex-{number}")
        await collector.collect(record(task))
        await collector.close()
    began_s = now_s
    for _ in range(4):
        with pytest.raises(ReportRefusedError, match="unknown_task"):
            await collector.collect(b"x" * REPORT_BYTES)
    assert began_s + 3 * 0.05 <= now_s <= began_s + 4 * 0.05 + 1e-6


async def test_a_locked_database_is_answered_with_503(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is asked to come again, and gets no error of the server; then its report is taken."""
    monkeypatch.setattr(reports, "BUSY_S", 0.1)
    owner = await Store.open(tmp_path / "alcove.db")
    task = await run_experiment(owner)
    store = await Store.join(tmp_path / "alcove.db")
    app = create_ingress(tmp_path, ReportCollector(store, SYSTEM_CLOCK), *(RateLimit(100, time.monotonic),) * 2)
    async with TestClient(TestServer(app)) as client:
        other = sqlite3.connect(tmp_path / "alcove.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        async with client.post("/reports", data=record(task), headers=HEADERS) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        other.close()
        async with client.post("/reports", data=record(task), headers=HEADERS) as answer:
            assert answer.status == 204
    await store.close()
    await owner.close()


async def test_bodies_are_limited_besides_the_reports_in_them(tmp_path: Path, store: Store) -> None:
    """Small and malformed bodies use up a rate of their own."""
    rate, bodies = RateLimit(1_000_000, lambda: 0.0), RateLimit(3, lambda: 0.0)
    app = create_ingress(tmp_path, ReportCollector(store, SYSTEM_CLOCK), rate, bodies)
    async with TestClient(TestServer(app)) as client:
        statuses = []
        for body in (b"", b"bad", b"x" * REPORT_BYTES, b"", b"bad"):
            async with client.post("/reports", data=body, headers=HEADERS) as answer:
                statuses.append(answer.status)
    assert statuses == [400, 400, 400, 429, 429]


def test_the_bucket_refills_with_time_and_never_overflows() -> None:
    """A quiet hour saves up one second's worth, no more; a refused take costs nothing."""
    now_s = 0.0
    rate = RateLimit(10, lambda: now_s)
    assert [rate.take(4), rate.take(4), rate.take(4), rate.take(2)] == [True, True, False, True]
    now_s += 0.5
    assert [rate.take(6), rate.take(5)] == [False, True]
    now_s += 3600
    assert [rate.take(11), rate.take(10), rate.take(1)] == [False, True, False]
