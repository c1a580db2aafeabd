"""Somebody reads the logs of the server, or of the network, and ties requests of one device together."""

import json
from functools import partial
from itertools import pairwise

import pytest
from alcove.privacy.report import Report, report_from_bytes, report_to_bytes
from alcove.registry.limits import WINDOW_MIN_S
from alcove.registry.policy import make_task
from alcove.sdk import Client, TransportError
from alcove.sdk.background import BackgroundSync, Turn, report_turn, sync_turn
from alcove.sdk.limits import CHUNK_BYTES
from alcove.sdk.testing import SeededEntropy, fake_program

from tests.sdk.conftest import FEATURE, Device, TreeServer

SIZE = 5 * CHUNK_BYTES + 77


@pytest.mark.parametrize(
    "cut", [1, 77, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES + 12_345, SIZE - 1]
)
def test_download_continues_at_a_multiple_of_64_kib_wherever_it_broke(
    device: Device, server: TreeServer, cut: int
) -> None:
    """The number in `Range` is one of a few that all devices use; so is what a device asks for in all other headers."""
    client = device.client(server.url, transport=None)
    assert client.sync().error is None
    device.world.push("3.0.0", fake_program("three", size_bytes=SIZE))
    device.world.set_policy("3.0.0")
    blob = device.world.blob("3.0.0")
    whole = blob.read_bytes()
    blob.chmod(0o600)
    blob.write_bytes(whole[:cut])
    assert client.sync().error is not None
    blob.write_bytes(whole)
    server.seen.clear()
    assert client.sync().error is None
    (headers,) = [headers for _, path, headers in server.seen if path == f"/blobs/{blob.name}"]
    start = cut - cut % CHUNK_BYTES
    expected = {"Host", "User-Agent", "Accept", "Accept-Encoding"} | ({"Range"} if start else set())
    assert set(headers) == expected
    assert headers.get("Range", "bytes=0-") == f"bytes={start}-"
    assert device.answer(client) == "three 3.0.0 default"


def send_one(client: Client) -> Turn:
    """Send a report as the background does."""
    return report_turn(partial(client._report, most=1))


def waiting(device: Device, count: int) -> list[bytes]:
    """Let reports of as many tasks wait on a device; return them."""
    reports = [report_to_bytes(Report(bytes([task]) * 32, 1000, 0)) for task in range(count)]
    outbox = device.folder / "reports" / "outbox.json"
    outbox.write_text(json.dumps([report.hex() for report in reports]), encoding="utf-8")
    return reports


@pytest.mark.parametrize("is_background", [False, True])
def test_each_report_has_a_connection_of_its_own(device: Device, server: TreeServer, is_background: bool) -> None:
    """Neither another report nor anything that was fetched goes through it, before or after."""
    client = device.client(server.url, transport=None)
    assert client.sync().error is None
    reports = waiting(device, 6)
    if is_background:
        for _ in reports:
            send_one(client)
            client.sync()
    else:
        assert client.report().sent == len(reports)
    assert client.sync().error is None
    assert server.posted == reports
    posts = [port for method, _, port in server.ports if method == "POST"]
    fetches = {port for method, _, port in server.ports if method == "GET"}
    assert len(set(posts)) == len(posts) == len(reports)
    assert fetches.isdisjoint(posts)


def test_background_sends_one_report_a_turn(device: Device) -> None:
    """However many wait; each turn says how many are left."""
    client = device.client()
    reports = waiting(device, 4)
    for number in range(1, 5):
        assert send_one(client) == Turn(left=4 - number)
        assert device.transport.reports == reports[:number]
    assert send_one(client) == Turn()


def test_sync_turn_sends_no_report(device: Device) -> None:
    """The thread that fetches never posts: no report follows a check-in by milliseconds."""
    client = device.client()
    waiting(device, 3)
    for _ in range(3):
        sync_turn(client)
    assert device.transport.reports == []


def test_failed_report_turn_waits_longer_and_loses_nothing(device: Device) -> None:
    """Bad weather at any of them: it is sent again, alone."""
    client: Client = device.client()
    reports = waiting(device, 2)

    def fail(method: str, path: str) -> None:
        raise TransportError(method=method, path=path, reason="weather")

    device.transport.fault = fail
    assert send_one(client) == Turn(is_failed=True, left=2)
    device.transport.fault = None
    assert send_one(client) == Turn(left=1)
    assert device.transport.reports == reports[:1]


def drawn_times(seed: int, count: int, interval_s: float) -> list[float]:
    """Return the times at which a background sends a number of reports, by a clock of the test's own."""
    now_s, left, sent = 0.0, count, []

    def wait(seconds: float) -> bool:
        nonlocal now_s
        now_s += seconds
        return left == 0

    def send() -> Turn:
        nonlocal left
        left -= 1
        sent.append(now_s)
        return Turn(left=left)

    background = BackgroundSync(send, interval_s, SeededEntropy(seed), wait)
    background._run()
    return sent


def test_reports_are_spread_over_the_interval_at_random() -> None:
    """Three tasks, an hour: never at one time, nor at the same distances, and within two hours all the same."""
    walks = [drawn_times(seed, 3, 3600.0) for seed in range(200)]
    gaps = [later - earlier for walk in walks for earlier, later in pairwise(walk)]
    assert min(gaps) >= 3600 / 3 / 2
    assert max(walk[-1] for walk in walks) <= 3600 * (1 + 1.5 / 3 + 1.5 / 2)
    firsts = [walk[0] for walk in walks]
    assert min(firsts) < 360
    assert max(firsts) > 3240
    assert len({round(gap) for gap in gaps}) > 100


@pytest.mark.parametrize("window_s", [1, 60, WINDOW_MIN_S - 1, WINDOW_MIN_S])
def test_no_report_names_when_a_device_was_used_but_by_the_hour(device: Device, unsynced: None, window_s: int) -> None:
    """A policy of short windows at the least epsilon: 200 reports a day would each name the minute of an answer."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), epsilon="0.01", window_s=window_s)
    client = device.client()
    assert client.sync().error is None
    handle = client.feature(FEATURE)
    for _ in range(100):
        handle.predict("hello")
        handle.record_outcome(accepted=True)
        assert client.report().error is None
        device.clock.pass_s(120)
    named = [report_from_bytes(report).window for report in device.transport.reports]
    assert len(named) == len(set(named)) == (4 if window_s == WINDOW_MIN_S else 0)
    pending = device.folder / "reports" / "pending.json"
    assert window_s == WINDOW_MIN_S or not pending.exists()


def test_outcome_that_an_older_sdk_kept_of_a_short_window_is_not_reported(device: Device, unsynced: None) -> None:
    """It goes with the update."""
    device.world.set_policy("1.0.0", arms=("1.0.0", "2.0.0"), window_s=WINDOW_MIN_S)
    client = device.client()
    assert client.sync().error is None
    handle = client.feature(FEATURE)
    handle.predict("hello")
    handle.record_outcome(accepted=True)
    path = device.folder / "reports" / "pending.json"
    (entry,) = json.loads(path.read_text(encoding="utf-8"))
    short = make_task(
        experiment_id="exp",
        epsilon="2",
        arm_count=2,
        latency_edges_ms=(1.0, 10.0),
        window_s=60,
        first_window_start_s=device.clock.now_s() - 6000,
    )
    entry |= {"task": short.model_dump_json(), "window": 100}
    path.write_text(json.dumps([entry]), encoding="utf-8")
    assert client.report().sent == 0
    assert device.transport.reports == []
